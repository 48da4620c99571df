"""What a node has acknowledged outlives its process: it is finished by the next one, once, without another upload."""
import os
import signal
import unittest

import support
from cluster import Cluster, jpeg, wait_until

REQUESTS = 12


class Journal(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.main = self.cluster.configs / "gearbox.toml"
        self.main.write_text(self.main.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))

    def begin(self):
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.files = []
        for number in range(REQUESTS):
            self.files.append(self.cluster.scratch / f"{number}.jpg")
            # In the row, and too large for it.
            self.files[-1].write_bytes(jpeg(200_000 if number % 2 else 30_000, "sleep 0.3"))

    def node(self):
        return self.cluster.status()["node"] or {}

    def some_open(self):
        """Some are acknowledged and not answered; how many are acknowledged in all."""
        def counters():
            found = self.node()["counters"]
            return found if found["accepted"] - found["answered"] > 2 else None
        return wait_until("some open requests", counters, 30, 0.02)["accepted"]

    def send(self, count=REQUESTS):
        code, answers, err = self.cluster.send(self.files[:count], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * count), err)

    def ends_clean(self):
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_killed_node_finishes_what_it_acknowledged(self):
        self.begin()
        sender = self.cluster.start_send(self.files, keys=self.keys, central=self.central)
        accepted = self.some_open()
        os.kill(self.cluster.record("node")["pid"], signal.SIGKILL)
        out, err = sender.communicate(timeout=90)
        self.assertEqual((sender.returncode, out.count('"ok":true')), (0, REQUESTS), err)
        counters = self.node()["counters"]
        self.assertGreater(counters["recovered"], 0)
        self.assertLessEqual(counters["announced"], REQUESTS - accepted, "what was acknowledged was not uploaded again")
        wait_until("nothing is left in the journal", lambda: self.node()["journal"]["requests"] == 0, 10)
        self.ends_clean()

    def test_requests_that_nobody_waits_for_are_finished_too(self):
        self.begin()
        sender = self.cluster.start_send(self.files, keys=self.keys, central=self.central)
        self.some_open()
        sender.kill()
        sender.communicate()
        os.kill(self.cluster.record("node")["pid"], signal.SIGKILL)
        wait_until("the next node", lambda: self.node().get("counters", {}).get("recovered", 0) > 0, 60)
        recovered = self.node()["counters"]["recovered"]
        wait_until("their ends", lambda: self.node()["counters"]["answered"] == recovered, 60)
        self.assertGreater(self.node()["journal"]["requests"], 0, "the answers wait for their device")
        self.send(2)
        self.ends_clean()

    def test_a_failure_that_was_heard_is_not_kept(self):
        self.begin()
        file = self.cluster.scratch / "raises.jpg"
        file.write_bytes(jpeg(1000, "raise"))
        code, answers, err = self.cluster.send([file], keys=self.keys, central=self.central)
        self.assertEqual((code, answers[0]["error"]["name"]), (1, "model_failed"), err)
        self.assertEqual(self.cluster.run("submit", "--task", "echo", file, ok=False).returncode, 1)
        counters = self.node()["journal"]
        self.assertEqual((counters["accepted"], counters["answered"]), (2, 2))
        wait_until("nothing is left in the journal", lambda: self.node()["journal"]["requests"] == 0, 10)
        self.ends_clean()

    def test_a_damaged_journal_is_set_aside(self):
        self.begin()
        self.send(2)
        self.assertEqual(self.cluster.stop(), 0)
        file = self.cluster.state / "journal/journal.db"
        file.write_bytes(bytes(file.stat().st_size))
        self.cluster.start()
        self.cluster.wait_ready()
        aside = self.node()["journal"]["set_aside"]
        self.assertTrue(os.path.exists(os.path.join(aside, "journal.db")), aside)
        self.assertIn("event=journal_damaged", self.cluster.log())
        self.assertIn(f"was damaged at the start, and set aside as {aside}", self.cluster.run("status").stdout)
        self.send(2)
        self.ends_clean()

    def test_level_none_says_what_it_means(self):
        self.main.write_text(self.main.read_text() + '\n[node.journal]\nlevel = "none"\n')
        self.begin()
        self.send(2)
        self.assertEqual(self.node()["journal"], {"level": "none"})
        self.assertIn("acknowledged does not mean durable", self.cluster.log())
        self.assertIn("journal: none, acknowledged does not mean durable", self.cluster.run("status").stdout)
        self.assertFalse((self.cluster.state / "journal").exists())
        self.ends_clean()


if __name__ == "__main__":
    unittest.main()
