"""`broker drain` and SIGTERM under load: says so first, takes nothing new, finishes what was accepted, leaves nothing."""
import json
import os
import signal
import subprocess
import unittest

import support
from cluster import Cluster, jpeg, wait_until

REQUESTS = 16


def end(process):
    if process.poll() is None:
        process.kill()
    if not process.stdout.closed:
        process.communicate()


class Drain(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.addCleanup(self.cluster.__exit__)
        self.main = self.cluster.configs / "gearbox.toml"

    def begin(self, port=False):
        if port:  # devices find the next central at the same address
            self.main.write_text(self.main.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)

    def files(self, count, order):
        made = []
        for number in range(count):
            made.append(self.cluster.scratch / f"{number}.jpg")
            made[-1].write_bytes(jpeg(30_000, order))
        return made

    def counters(self):
        node = self.cluster.status()["node"]
        return node["counters"] if node else None

    def start_drain(self, *words):
        drain = subprocess.Popen([self.cluster.broker, "drain", "--state", self.cluster.state, *words],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, drain)
        return drain

    def local_slow(self, how_long):
        """A request from this host, which is running when this returns."""
        slow = self.cluster.scratch / "slow.bin"
        slow.write_bytes(f"sleep {how_long}".encode().ljust(16))
        sender = subprocess.Popen([self.cluster.broker, "submit", "--task", "echo", slow, "--json", "--state", self.cluster.state],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, sender)
        wait_until("a running request", lambda: (self.counters() or {"accepted": 0})["accepted"] > 0, 60, 0.05)
        return sender

    def nothing_left(self, code=0):
        self.assertEqual(self.cluster.supervisor.wait(40), code)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_under_load_all_that_was_accepted_is_answered_and_the_rest_comes_again(self):
        self.begin(port=True)
        sender = self.cluster.start_send(self.files(REQUESTS, "sleep 0.4"), keys=self.keys, central=self.central)
        self.addCleanup(end, sender)
        wait_until("some open requests", lambda: self.counters()["accepted"] - self.counters()["answered"] > 2, 60, 0.02)
        drain = self.start_drain("--within", "60")
        seen = []

        def draining():
            status = self.cluster.status()
            if status["node"]:
                seen.append(status["node"])
            return status["supervisor"] and status["supervisor"]["stopping"]
        wait_until("the drain", draining, 20, 0.02)
        out, err = drain.communicate(timeout=90)
        self.assertEqual(drain.returncode, 0, out + err + self.cluster.log())
        self.assertIn("drained: every request has its answer", out)
        self.assertIn("draining: ", out)
        self.nothing_left()
        # What was not accepted any more goes to the next process, and nothing was refused for good.
        self.cluster.start()
        self.cluster.wait_ready()
        said, errors = sender.communicate(timeout=90)
        self.assertEqual((sender.returncode, said.count('"ok":true')), (0, REQUESTS), errors)
        self.assertEqual(self.counters()["recovered"], 0, "the first one had finished all that it had accepted")
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_while_it_drains_everybody_is_told_so(self):
        self.begin()
        sender = self.local_slow(4)
        drain = self.start_drain("--json")
        status = wait_until("draining", lambda: (lambda s: s if s["node"] and s["node"]["draining"] else None)(self.cluster.status()), 20)
        self.assertFalse(status["node"]["ready"])
        self.assertTrue(status["supervisor"]["stopping"])
        self.assertEqual(status["supervisor"]["stop"]["within_ms"], 60_000)
        self.assertRegex(self.cluster.run("status").stdout, r"node +draining")
        wait_until("central knows", lambda: [node["state"] for node in self.cluster.status()["central"]["nodes"]] == ["draining"], 10)
        file = self.cluster.scratch / "more.bin"
        file.write_bytes(b"more")
        refused = self.cluster.run("submit", "--task", "echo", file, ok=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("takes no new requests", refused.stderr)
        out, err = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 0, out + err)
        self.assertEqual(json.loads(out), {"in_order": True, "failed": 0, "kept": 0, "killed": [], "hurried": False})
        said, errors = sender.communicate(timeout=20)
        self.assertIn('"ok":true', said, errors)
        self.nothing_left()

    def test_past_the_bound_it_ends_all_the_same_and_says_that_it_was_not_in_order(self):
        self.begin()
        sender = self.local_slow(60)
        drain = self.start_drain("--within", "1")
        out, err = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 1, out + err)
        self.assertIn("stopped, but not in order", out)
        self.assertIn("1 request", out)
        self.assertNotEqual(sender.wait(20), 0)
        self.nothing_left()

    def test_a_signal_hurries_a_drain(self):
        self.begin()
        sender = self.local_slow(60)
        drain = self.start_drain("--within", "600")
        wait_until("draining", lambda: self.cluster.status()["supervisor"]["stopping"], 20)
        self.cluster.supervisor.send_signal(signal.SIGTERM)
        out, err = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 1, out + err)
        self.assertIn("a signal hurried it", out)
        self.assertNotEqual(sender.wait(20), 0)
        self.nothing_left()

    def test_a_second_drain_gives_another_bound(self):
        self.begin()
        sender = self.local_slow(60)
        first = self.start_drain("--within", "600")
        wait_until("draining", lambda: self.cluster.status()["supervisor"]["stopping"], 20)
        second = self.start_drain("--within", "1")
        for drain in (second, first):
            out, err = drain.communicate(timeout=60)
            self.assertEqual(drain.returncode, 1, out + err)
            self.assertNotIn("a signal hurried it", out)
        self.assertNotEqual(sender.wait(20), 0)
        self.nothing_left()

    def test_without_anything_to_drain(self):
        done = self.cluster.run("drain", ok=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing runs on the state folder", done.stderr)
        self.assertEqual(self.cluster.run("drain", "--within", "-1", ok=False).returncode, 2)
        self.assertEqual(self.cluster.run("drain", "--within", "86401", ok=False).returncode, 2)

    def test_a_supervisor_that_is_killed_meanwhile_has_not_said_how_it_went(self):
        self.begin()
        self.local_slow(60)
        drain = self.start_drain("--within", "600")
        wait_until("draining", lambda: self.cluster.status()["supervisor"]["stopping"], 20)
        os.kill(self.cluster.supervisor.pid, signal.SIGKILL)
        self.cluster.supervisor.wait(20)
        out, err = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 1, out + err)
        self.assertIn("did not say how", err)


if __name__ == "__main__":
    unittest.main()
