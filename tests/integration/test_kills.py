"""kill -9 of each process while requests run: what died is started again, every picture is answered, nothing is left."""
import json
import os
import signal
import unittest

import support
from cluster import Cluster, jpeg, wait_until

PICTURES = 120


class Kills(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.addCleanup(self.cluster.__exit__)
        file = self.cluster.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.files = []
        for number in range(PICTURES):
            self.files.append(self.cluster.scratch / f"{number}.jpg")
            self.files[-1].write_bytes(jpeg(30_000, "sleep 0.05"))

    def under_load(self, role, kill):
        """Sends all pictures; when the first have been answered, kill() is called; the rest must be answered as well."""
        old = self.cluster.record(role)["pid"]
        done = self.cluster.status()["node"]["counters"]["answered"]
        sender = self.cluster.start_send(self.files, keys=self.keys, central=self.central)
        wait_until("load", lambda: self.cluster.status()["node"]["counters"]["answered"] > done + 10, 30, 0.05)
        self.assertIsNone(sender.poll(), "the load ended before the kill")
        kill(old)
        wait_until(f"another {role}", lambda: (self.cluster.records().get(role) or {"pid": old})["pid"] != old, 30)
        out, err = sender.communicate(timeout=150)
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([answer for answer in answers if not answer["ok"]], [], err)
        self.assertEqual((sender.returncode, len(answers)), (0, PICTURES), err)
        self.assertEqual(len({answer["file"] for answer in answers}), PICTURES)
        self.cluster.wait_ready(60)
        code, answers, err = self.cluster.send(self.files[:4], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * 4), err)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)

    def test_node(self):
        self.under_load("node", self.kill)

    def test_central(self):
        self.under_load("central", self.kill)

    def test_worker(self):
        worker = next(role for role in self.cluster.records() if role.startswith("worker-"))
        old = self.cluster.record(worker)["pid"]
        done = self.cluster.status()["node"]["counters"]["answered"]
        sender = self.cluster.start_send(self.files, keys=self.keys, central=self.central)
        wait_until("load", lambda: self.cluster.status()["node"]["counters"]["answered"] > done + 10, 30, 0.05)
        self.assertIsNone(sender.poll(), "the load ended before the kill")
        self.kill(old)
        out, err = sender.communicate(timeout=150)
        self.assertEqual((sender.returncode, out.count('"ok":true')), (0, PICTURES), err + out[-2000:])

        def two_workers():
            models = self.cluster.status()["node"]["models"]
            return models[0]["ready"] == 2 and old not in [each["pid"] for each in self.cluster.records().values()]
        wait_until("the second worker again", two_workers, 30)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_request_that_kills_every_worker_fails_alone(self):
        deadly = self.cluster.scratch / "deadly.jpg"
        deadly.write_bytes(jpeg(1000, "die!"))
        code, answers, err = self.cluster.send([deadly], keys=self.keys, central=self.central)
        self.assertEqual(code, 1, err)
        self.assertEqual(answers[0]["error"]["name"], "quarantined", answers)
        code, answers, err = self.cluster.send(self.files[:8], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * 8), err)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])


if __name__ == "__main__":
    unittest.main()
