"""pi_client run on bad days: central away, node and client killed in the middle; each picture has one answer in the end."""
import os
import signal
import unittest

import support
from cluster import Cluster, wait_until
from spooler import Spooler

PICTURES = 24


class Spool(Spooler, unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)

    def begin(self, central=""):
        """`central`: further lines of its table."""
        main = self.cluster.configs / "gearbox.toml"
        text = main.read_text().replace("[central]\n", "[central]\n" + central)
        for _ in range(2):
            text = text.replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1)
        main.write_text(text)
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.make_folders(self.cluster.scratch)

    # -- bad days

    def test_central_away_and_kills_of_node_and_client(self):
        self.begin()
        self.assertEqual(self.cluster.stop(), 0)
        self.run_client("--watch", self.pictures, "--after", "delete")
        self.write(0, PICTURES // 2)
        wait_until("a full spool", lambda: len(self.spooled()) == PICTURES // 2, 30)
        wait_until("a word about it", lambda: "no connection" in self.log(), 30)
        self.assertIsNone(self.runner.poll(), self.log())
        self.cluster.start()
        self.until_answered(2)

        os.kill(self.cluster.record("node")["pid"], signal.SIGKILL)
        self.write(PICTURES // 2, PICTURES)
        self.until_answered(PICTURES // 2)

        self.runner.kill()
        self.runner.wait()
        left = len(self.spooled())
        self.assertGreater(left, 0, "killed too late to show anything")
        self.run_client("--watch", self.pictures, "--after", "delete")
        self.until_answered(PICTURES)
        self.each_has_one_answer(PICTURES)
        self.assertEqual(list(self.pictures.iterdir()), [])

        self.runner.send_signal(signal.SIGTERM)
        self.assertEqual(self.runner.wait(20), 0, self.log())
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_client_that_is_killed_again_and_again(self):
        """Each run lives a moment longer than the one before; originals stay, and are taken once."""
        self.begin()
        self.write(0, PICTURES)
        for round in range(12):
            self.run_client("--watch", self.pictures, "--after", "keep")
            before = len(self.answers())
            if round > 2:  # those before die while they still spool
                self.until_answered(min(before + 1, PICTURES))
            else:
                wait_until("something spooled", lambda: len(self.spooled()) + len(self.answers()) > 6 * round, 30, 0.01)
            self.kill_runner()
        self.run_client("--watch", self.pictures, "--after", "keep")
        self.until_answered(PICTURES)
        self.each_has_one_answer(PICTURES)
        self.assertEqual(len(list(self.pictures.iterdir())), PICTURES)
        self.runner.send_signal(signal.SIGTERM)
        self.assertEqual(self.runner.wait(20), 0, self.log())
        counters = self.cluster.status()["node"]["counters"]
        self.assertEqual(counters["accepted"], PICTURES, "nothing runs twice")

    def test_tickets_that_expire_are_renewed(self):
        self.begin("ticket_ttl_ms = 1000\n")
        self.write(0, PICTURES)  # for five seconds of work
        self.run_client("--watch", self.pictures)
        self.until_answered(PICTURES)
        self.each_has_one_answer(PICTURES)

    def test_a_camera_in_a_folder(self):
        self.begin()
        self.write(0, 3)
        self.run_client("--camera", f"file:{self.pictures}", "--every", "50", "--policy", "newest-only")
        self.until_answered(5)
        self.runner.send_signal(signal.SIGTERM)
        self.assertEqual(self.runner.wait(20), 0, self.log())
        self.assertEqual([answer for answer in self.answers() if not answer["ok"]], [], self.log())


if __name__ == "__main__":
    unittest.main()
