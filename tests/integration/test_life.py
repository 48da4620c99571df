"""Start, ready, kill, adopt, stop: what `broker up` promises about its processes."""
import os
import signal
import socket
import subprocess
import time
import unittest

import support
from cluster import Cluster, echo_configs, processes_of, wait_until


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Life(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.addCleanup(self.cluster.__exit__)
        self.file = self.cluster.scratch / "hello.bin"
        self.file.write_bytes(b"hello" * 1000)

    def local_answer(self):
        done = self.cluster.run("submit", "--task", "echo", self.file, "--json")
        self.assertIn('"ok":true', done.stdout)
        return done.stdout

    def test_is_ready_after_a_round_trip_and_leaves_nothing_on_sigterm(self):
        self.cluster.start()
        status = self.cluster.wait_ready()
        self.assertEqual([task["name"] for task in status["node"]["tasks"] if task["ready"]], ["echo"])
        wait_until("the lines about being ready",
                   lambda: "central ready at tcp://127.0.0.1:" in self.cluster.log() and
                           "tasks echo (echo 2 workers)" in self.cluster.log(), 60)
        self.local_answer()
        roles = self.cluster.records()
        self.assertLessEqual({"central", "node"}, set(roles))
        self.assertEqual(len(roles), 4)  # two workers
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_sigint_stops_as_well_and_reaches_the_supervisor_only(self):
        self.cluster.start()
        self.cluster.wait_ready()
        for role, record in self.cluster.records().items():
            self.assertEqual(os.getsid(record["pid"]), record["pid"], role)
        self.assertEqual(self.cluster.stop(with_signal=signal.SIGINT), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_second_signal_hurries(self):
        self.cluster.start()
        self.cluster.wait_ready()
        slow = self.cluster.scratch / "slow.bin"
        slow.write_bytes(b"sleep 30        ")
        sender = subprocess.Popen([self.cluster.broker, "submit", "--task", "echo", slow, "--state", self.cluster.state],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("a running request", lambda: any(worker.get("running") for worker in self.cluster.status()["node"]["workers"]), 60)
        self.cluster.supervisor.send_signal(signal.SIGTERM)
        wait_until("stopping", lambda: "stopping; a second one hurries" in self.cluster.log(), 60)
        began = time.monotonic()
        self.assertEqual(self.cluster.stop(seconds=20), 0)
        self.assertLess(time.monotonic() - began, 15)
        self.assertNotEqual(sender.wait(20), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_after_kill_9_of_the_supervisor_the_others_serve_and_the_next_one_adopts_them(self):
        self.cluster.start()
        self.cluster.wait_ready()
        before = {role: record["pid"] for role, record in self.cluster.records().items()}
        self.cluster.supervisor.kill()
        self.cluster.supervisor.wait()
        self.local_answer()
        self.cluster.start()
        wait_until("adoption", lambda: all(f"adopted {role} (pid {pid})" in self.cluster.log() for role, pid in before.items()), 60)
        self.cluster.wait_ready()
        self.local_answer()
        self.assertEqual({role: record["pid"] for role, record in self.cluster.records().items()}, before)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_role_that_the_configuration_no_longer_names_is_ended_by_the_next_supervisor(self):
        self.cluster.start()
        self.cluster.wait_ready()
        central = self.cluster.record("central")["pid"]
        node = self.cluster.record("node")["pid"]
        self.cluster.supervisor.kill()
        self.cluster.supervisor.wait()
        file = self.cluster.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("[central]\n", "[central]\nenabled = false\n"))
        self.cluster.start()
        wait_until("central's end", lambda: not alive(central), 60)
        self.assertTrue(alive(node))
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_what_is_killed_is_started_again(self):
        self.cluster.start()
        self.cluster.wait_ready()
        for role in ("central", "node"):
            old = self.cluster.record(role)["pid"]
            os.kill(old, signal.SIGKILL)
            wait_until(f"another {role}", lambda: (self.cluster.records().get(role) or {"pid": old})["pid"] != old, 60)
            self.cluster.wait_ready(60)
            self.local_answer()
        worker = next(role for role in self.cluster.records() if role.startswith("worker-"))
        old = self.cluster.record(worker)["pid"]
        os.kill(old, signal.SIGKILL)
        wait_until("its end", lambda: old not in [record["pid"] for record in self.cluster.records().values()], 60)
        self.cluster.wait_ready(60)
        self.local_answer()
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_second_supervisor_on_the_same_state_is_refused(self):
        self.cluster.start()
        self.cluster.wait_ready()
        second = subprocess.run([self.cluster.broker, "up", "--config", self.cluster.configs, "--state", self.cluster.state],
                                capture_output=True, text=True, timeout=30)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"another supervisor (pid {self.cluster.supervisor.pid})", second.stdout)
        self.local_answer()
        self.assertEqual(self.cluster.stop(), 0)

    def test_a_port_in_use_ends_up_with_the_reason(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            file = self.cluster.configs / "gearbox.toml"
            file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}", 1))
            self.cluster.start()
            self.assertEqual(self.cluster.supervisor.wait(30), 2)
        self.assertIn("central cannot start", self.cluster.log())
        self.assertRegex(self.cluster.log().lower(), "in use")
        self.assertEqual(self.cluster.leftovers(), [])

    def test_logs_that_cannot_be_written_harm_nobody(self):
        self.cluster.state.mkdir(mode=0o700)
        (self.cluster.state / "log").mkdir(mode=0o700)
        for role in ("central", "node"):
            (self.cluster.state / f"log/{role}.log").mkdir()  # a folder where the file should be
        self.cluster.start()
        self.cluster.wait_ready()
        self.local_answer()
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])


if __name__ == "__main__":
    unittest.main()
