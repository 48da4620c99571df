"""kill -9 of the node: its workers keep their models and serve the next node, or are gone within a bound."""
import os
import re
import signal
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import support
from cluster import Cluster, jpeg, processes_of, wait_until

LOAD = '''
    def load(self, record, device):
        self.kept = []
        with open(os.path.join(record.folder, "../../../loads"), "a") as loads:
            loads.write(f"{os.getpid()}\\n")
        time.sleep(LOAD_S)
'''


class Reattach(unittest.TestCase):
    def start(self, workers=2, load_s=3.0, node="", record=""):
        self.cluster = Cluster(workers=workers)
        self.addCleanup(self.cluster.__exit__)
        code = self.cluster.configs / "models/echo/model.py"
        old = "    def load(self, record, device):\n        self.kept = []\n"
        text = code.read_text()
        self.assertIn(old, text)
        code.write_text(text.replace(old, LOAD.lstrip("\n").replace("LOAD_S", str(load_s))))
        if record:
            file = self.cluster.configs / "models/echo/model.toml"
            file.write_text(file.read_text().replace("load_timeout_ms", record + "\nload_timeout_ms", 1))
        file = self.cluster.configs / "gearbox.toml"
        text = file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1)
        file.write_text(text.replace("[node]\n", f"[node]\n{node}\n", 1))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)

    def loads(self):
        return [int(line) for line in (self.cluster.scratch / "loads").read_text().split()]

    def workers(self):
        node = self.cluster.status()["node"]
        return node["workers"] if node else []

    def pids(self):
        return sorted(each["pid"] for each in self.workers())

    def kill_node(self):
        old = self.cluster.record("node")["pid"]
        os.kill(old, signal.SIGKILL)
        wait_until("another node", lambda: (self.cluster.status()["node"] or {"pid": old})["pid"] != old, 60)

    def taken_back(self):
        """What the log says of workers that came back: [(pid, unfinished calls, their numbers)]."""
        return re.findall(r"event=worker_taken_back worker=worker-\d+ pid=(\d+) model=echo version=1 unfinished=(\d+)(?: calls=(\S+))?",
                          self.cluster.log())

    def pictures(self, count, order):
        files = []
        for number in range(count):
            files.append(self.cluster.scratch / f"{number}.jpg")
            files[-1].write_bytes(jpeg(20_000, order))
        return files

    def ends_clean(self):
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_under_load_the_next_node_serves_with_the_same_processes(self):
        self.start(node="reattach_ms = 20000")
        before = self.pids()
        self.assertEqual(sorted(self.loads()), before)
        files = self.pictures(80, "sleep 0.05")
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.cluster.send, files, keys=self.keys, central=self.central, seconds=150)
            wait_until("load", lambda: self.cluster.status()["node"]["counters"]["answered"] > 5, 30, 0.05)
            self.kill_node()
            code, answers, err = sending.result()
        self.assertEqual((code, [each for each in answers if not each["ok"]], len(answers)), (0, [], 80), err)
        self.assertEqual(self.pids(), before)
        self.assertEqual(sorted(self.loads()), before)  # load() ran once in each
        self.assertEqual([(each["reattached"], each["restarts"]) for each in self.workers()], [(True, 0)] * 2)
        self.assertEqual(self.cluster.status()["node"]["workers_reattached"], {"taken": 2, "refused": 0, "late": 0})
        self.assertEqual(sorted(int(pid) for pid, *_ in self.taken_back()), before)
        self.ends_clean()

    def test_a_call_that_ran_when_the_node_went_is_named_and_its_request_sent_again(self):
        self.start(workers=1, load_s=0, node="reattach_ms = 20000")
        before = self.pids()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.cluster.send, self.pictures(1, "sleep 2"), keys=self.keys, central=self.central, seconds=150)
            wait_until("a busy worker", lambda: [each for each in self.workers() if each["running"]], 20, 0.05)
            self.kill_node()
            code, answers, err = sending.result()
        self.assertEqual((code, [each["ok"] for each in answers]), (0, [True]), err)
        self.assertEqual(self.pids(), before)
        said = self.taken_back()
        self.assertEqual([(int(pid), unfinished) for pid, unfinished, _ in said], [(before[0], "1")])
        self.assertGreater(int(said[0][2]), 0)
        self.ends_clean()

    def test_supervisor_and_node_killed(self):
        self.start(workers=1, node="reattach_ms = 20000")
        before = self.pids()
        node = self.cluster.record("node")["pid"]
        self.cluster.supervisor.kill()
        self.cluster.supervisor.wait()
        os.kill(node, signal.SIGKILL)
        self.cluster.start()
        self.cluster.wait_ready()
        self.assertEqual(self.pids(), before)
        self.assertEqual(self.loads(), before)
        self.ends_clean()

    def test_an_edited_model_is_loaded_anew(self):
        self.start(workers=1, load_s=0, node="reattach_ms = 20000")
        before = self.pids()
        # The node must not see the change before it dies: stopped, it follows no files.
        node = self.cluster.record("node")["pid"]
        os.kill(node, signal.SIGSTOP)
        file = self.cluster.configs / "models/echo/model.py"
        file.write_text(file.read_text() + "\n# edited\n")
        self.kill_node()
        self.cluster.wait_ready()
        self.assertNotEqual(self.pids(), before)
        wait_until("the old worker's end", lambda: not os.path.exists(f"/proc/{before[0]}"), 10)
        self.assertEqual(self.cluster.status()["node"]["workers_reattached"]["refused"], 1)
        self.ends_clean()

    def test_a_worker_in_a_long_native_call_is_ended_and_replaced(self):
        self.start(workers=1, load_s=0, node="reattach_ms = 1500")
        before = self.pids()
        sender = self.cluster.start_send(self.pictures(1, "hold 60"), keys=self.keys, central=self.central)
        self.addCleanup(sender.communicate)
        self.addCleanup(sender.kill)
        wait_until("a busy worker", lambda: [each for each in self.workers() if each["running"]], 20, 0.05)
        self.kill_node()
        wait_until("its end", lambda: not os.path.exists(f"/proc/{before[0]}"), 15)  # not after the minute
        sender.kill()
        self.cluster.wait_ready()
        self.assertNotEqual(self.pids(), before)
        self.assertEqual(self.cluster.status()["node"]["workers_reattached"]["late"], 1)
        self.ends_clean()

    def test_with_nobody_left_all_workers_end_within_the_bound(self):
        self.start(workers=2, load_s=0, node="reattach_ms = 1000", record="call_timeout_ms = 3000")
        sender = self.cluster.start_send(self.pictures(1, "hold 60"), keys=self.keys, central=self.central)
        self.addCleanup(sender.communicate)
        self.addCleanup(sender.kill)
        wait_until("a busy worker", lambda: [each for each in self.workers() if each["running"]], 20, 0.05)
        workers = self.pids()
        node = self.cluster.record("node")["pid"]
        central = self.cluster.record("central")["pid"]
        self.cluster.supervisor.kill()
        self.cluster.supervisor.wait()
        for pid in (node, central):
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        wait_until("no worker left", lambda: not set(workers) & set(processes_of(str(self.cluster.state))), 20)
        self.assertLess(time.monotonic() - began, 1 + 3 + 6)  # reattach_ms + call_timeout_ms, and a slow machine


if __name__ == "__main__":
    unittest.main()
