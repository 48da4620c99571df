"""The supervisor as a process, with roles that only pretend: start, adopt, restart, refuse, stop. Usage: test_run_supervisor.py PROGRAM"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class RunSupervisor(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gearbox-supervisor-"))
        self.state = self.folder / "state"
        self.started = []
        self.addCleanup(self.clean)

    def clean(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for record in self.records().values():
            if alive(record["pid"]):
                os.kill(record["pid"], signal.SIGKILL)
        shutil.rmtree(self.folder)

    def up(self, **environment):
        with open(self.folder / "out", "ab") as out:
            process = subprocess.Popen([PROGRAM, "up", "--state", self.state], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self.started.append(process)
        return process

    def log(self):
        file = self.folder / "out"
        return file.read_text() if file.exists() else ""

    def records(self):
        return {file.stem: json.loads(file.read_text()) for file in (self.state / "run").glob("*.json")}

    def pids(self):
        return {role: record["pid"] for role, record in self.records().items()}

    def last_stop(self):
        return json.loads((self.state / "last_stop.json").read_text())

    def until(self, condition, what):
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what}: never\n{self.log()}")
            time.sleep(0.02)

    def ready(self):
        self.until(lambda: "central ready at" in self.log() and "node ready at" in self.log(), "ready")

    def nothing_left(self, pids):
        self.assertEqual([pid for pid in pids.values() if alive(pid)], [])
        self.assertEqual([file.name for file in (self.state / "run").rglob("*") if not file.is_dir() and file.name != "supervisor.lock"], [])

    def test_starts_shows_logs_with_a_prefix_and_stops_node_first(self):
        up = self.up()
        self.ready()
        self.until(lambda: "node | node serves" in self.log(), "the node's own line")
        pids = self.pids()
        self.assertEqual(set(pids), {"central", "node"})
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(20), 0)
        self.assertLess(self.log().index("node | node ends"), self.log().index("central | central was told to stop"))
        self.nothing_left(pids)

    def test_the_next_one_adopts_after_kill_9(self):
        first = self.up()
        self.ready()
        pids = self.pids()
        first.kill()
        first.wait()
        self.assertTrue(all(alive(pid) for pid in pids.values()))
        second = self.up()
        self.until(lambda: all(f"adopted {role} (pid {pid})" in self.log() for role, pid in pids.items()), "adopted")
        self.assertEqual(self.pids(), pids)
        second.send_signal(signal.SIGINT)
        self.assertEqual(second.wait(20), 0)
        self.nothing_left(pids)

    def test_what_the_configuration_no_longer_names_is_ended_and_the_rest_is_kept(self):
        first = self.up()
        self.ready()
        pids = self.pids()
        first.kill()
        first.wait()
        second = self.up(NO_central="1")
        self.until(lambda: not alive(pids["central"]), "central's end")
        self.assertTrue(alive(pids["node"]))
        second.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(20), 0)
        self.nothing_left(pids)

    def test_starts_again_what_dies(self):
        up = self.up()
        self.ready()
        old = self.pids()["node"]
        os.kill(old, signal.SIGKILL)
        self.until(lambda: self.pids().get("node", old) != old, "another node")
        self.until(lambda: self.log().count("node ready at") == 2, "ready again")
        self.assertIn("ended: killed by signal 9 (SIGKILL)", self.log())
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(20), 0)

    def bars(self):
        file = self.state / "plugins/book.json"
        return [bar["reason"] for bar in json.loads(file.read_text())["bars"]] if file.exists() else []

    def charged(self, what, reason, **environment):
        """A node that does `what` in a call of a plugin is started again at once, and does not call that build again."""
        up = self.up(IN_A_CALL_node=what, **environment)
        self.until(lambda: "node ready at" in self.log(), "a node without that build")
        self.assertIn(f"plugin moody 2.0 (balancer, aaaaaaaaaaaa) {reason} and is barred", self.log())
        self.assertEqual(self.log().count("is barred"), 1)
        self.assertIn("node is started again at once", self.log())
        self.assertEqual(self.bars(), [reason])
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(20), 0)
        self.nothing_left({})

    def test_a_build_that_crashes_a_role_is_barred(self):
        self.charged("crash", "crashed node (SIGSEGV in pick)")

    def test_a_build_that_aborts_a_role_is_barred(self):
        self.charged("abort", "crashed node (SIGABRT in pick)")

    def test_a_build_that_ends_a_role_is_barred_and_that_is_no_refusal(self):
        self.charged("exit", "ended node (exit code 2 in pick)")

    def test_a_build_that_does_not_return_is_barred(self):
        self.charged("hang", "hung node (pick did not return for 300 ms)", HANG_MS="300")
        self.assertIn("ended: killed by signal 9 (SIGKILL)", self.log())

    def test_a_role_that_was_adopted_hangs(self):
        first = self.up(IN_A_CALL_node="hang", HANG_MS="4000")
        # The role may be in its call before the supervisor has written its record: then there is nobody to adopt.
        self.until(lambda: (self.state / "run/node.calling").exists() and "node" in self.records(), "the call")
        first.kill()
        first.wait()
        second = self.up(IN_A_CALL_node="hang", HANG_MS="4000")
        self.until(lambda: "adopted node" in self.log() and "node ready at" in self.log(), "another node")
        self.assertEqual(self.bars(), ["hung node (pick did not return for 4 s)"])
        second.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(20), 0)

    def test_a_role_that_is_killed_in_a_call_charges_nobody(self):
        up = self.up(IN_A_CALL_node="serve")
        self.ready()
        old = self.pids()["node"]
        os.kill(old, signal.SIGKILL)
        self.until(lambda: self.log().count("node ready at") == 2, "ready again")
        self.assertIn("node is started again in 50 ms", self.log())
        self.assertEqual(self.bars(), [])
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(20), 0)

    def pauses_before_the_node(self, steady_ms):
        """It is killed three times, each time as soon as it is ready."""
        up = self.up(STEADY_MS=steady_ms)
        for times in range(1, 4):
            self.until(lambda: self.log().count("node ready at") == times, "ready")
            os.kill(self.pids()["node"], signal.SIGKILL)
            self.until(lambda: self.log().count("node is started again in") == times, "word of its next start")
        self.until(lambda: self.log().count("node ready at") == 4, "ready again")
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(20), 0)
        return re.findall(r"node is started again in (\d+) ms", self.log())

    def test_pauses_grow_while_a_role_dies_again_and_again(self):
        self.assertEqual(self.pauses_before_the_node("10000"), ["50", "100", "200"])

    def test_one_that_ran_long_enough_is_not_held_up(self):
        self.assertEqual(self.pauses_before_the_node("0"), ["50", "50", "50"])

    def test_a_second_one_is_refused(self):
        first = self.up()
        self.ready()
        second = self.up()
        self.assertEqual(second.wait(20), 1)
        self.assertIn(f"another supervisor (pid {first.pid}) already serves", self.log())
        self.assertTrue(all(alive(pid) for pid in self.pids().values()))
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(20), 0)

    def test_gives_up_with_the_reason_when_a_role_refuses_to_start(self):
        up = self.up(REFUSE_central="1")
        self.assertEqual(up.wait(20), 2)
        self.assertIn("supervisor | central cannot start: tcp://127.0.0.1:1: address in use", self.log())
        self.nothing_left({})

    def test_a_second_signal_hurries(self):
        up = self.up(STUBBORN_node="1")
        self.ready()
        pids = self.pids()
        up.send_signal(signal.SIGTERM)
        self.until(lambda: "node was told to stop" in self.log(), "the first signal's effect")
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(10), 0)
        self.nothing_left(pids)

    def test_a_second_signal_hurries_and_a_third_one_kills_at_once(self):
        up = self.up(STUBBORN_node="1")
        self.ready()
        pids = self.pids()
        for said in ("node was told to stop", "hurrying"):
            up.send_signal(signal.SIGTERM)
            self.until(lambda: said in self.log(), said)
        up.send_signal(signal.SIGTERM)
        self.assertEqual(up.wait(10), 0)
        self.assertIn("everything is killed", self.log())
        stop = self.last_stop()
        self.assertEqual(sorted(stop.pop("killed")), ["central", "node"])
        self.assertEqual(stop, {"pid": up.pid, "in_order": False, "failed": 0, "kept": 0, "hurried": True, "node_lost": True})
        self.assertNotIn("it takes too long", self.log())
        self.nothing_left(pids)

    def test_a_node_that_dies_in_a_stop_makes_it_one_out_of_order(self):
        up = self.up(STUBBORN_node="1")
        self.ready()
        node = self.pids()["node"]
        up.send_signal(signal.SIGTERM)
        self.until(lambda: "node was told to stop" in self.log(), "told")
        os.kill(node, signal.SIGKILL)
        self.assertEqual(up.wait(20), 0)
        self.assertEqual(self.last_stop(),
                         {"pid": up.pid, "in_order": False, "failed": 0, "kept": 0, "killed": [], "hurried": False, "node_lost": True})

    def test_a_service_manager_hears_of_start_watchdog_and_stop(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(self.folder / "notify"))
            manager.settimeout(20)
            heard = []

            def hears(word):
                while not any(word in each.splitlines() for each in heard):
                    heard.append(manager.recv(4096).decode())

            up = self.up(NOTIFY_SOCKET=str(self.folder / "notify"), WATCHDOG_USEC="400000")
            hears("READY=1")
            self.assertTrue(any("EXTEND_TIMEOUT_USEC=30000000" in each for each in heard), heard)
            self.assertTrue(any("STATUS=central starts; node starts" in each for each in heard), heard)
            heard.clear()
            hears("WATCHDOG=1")
            self.ready()
            for pid in self.pids().values():
                self.assertNotIn(b"NOTIFY_SOCKET", Path(f"/proc/{pid}/environ").read_bytes(), "meant for the supervisor alone")
            heard.clear()
            up.send_signal(signal.SIGTERM)
            hears("STOPPING=1")
            self.assertEqual(up.wait(20), 0)
        self.assertEqual(self.last_stop(), {"pid": up.pid, "in_order": True, "failed": 0, "kept": 0, "killed": [], "hurried": False, "node_lost": False})

    def test_a_strangers_process_behind_a_role_is_not_taken_over(self):
        stranger = subprocess.Popen([PROGRAM, "central", "--state", self.state], stdout=subprocess.DEVNULL)
        self.started.append(stranger)
        self.until(lambda: (self.state / "run/central.sock").exists(), "its socket")
        up = self.up()
        self.assertEqual(up.wait(20), 1)
        self.assertIn(f"is served by process {stranger.pid}", self.log())
        self.assertIsNone(stranger.poll())


if __name__ == "__main__":
    unittest.main()
