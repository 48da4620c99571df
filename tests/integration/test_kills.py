"""kill -9 of each process while requests run: what died is started again, every picture is answered, nothing is left."""
import os
import signal
import unittest
from concurrent.futures import ThreadPoolExecutor

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

    def under_load(self, role):
        """Sends all pictures; when the first have been answered, `role` is killed; the rest must be answered as well.
        Returns the pid that is gone."""
        old = self.cluster.record(role)["pid"]
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.cluster.send, self.files, keys=self.keys, central=self.central, seconds=150)
            wait_until("load", lambda: self.cluster.status()["node"]["counters"]["answered"] > 10, 30, 0.05)
            self.assertFalse(sending.done(), "the load ended before the kill")
            os.kill(old, signal.SIGKILL)
            code, answers, err = sending.result()
        self.assertEqual([answer for answer in answers if not answer["ok"]], [], err)
        self.assertEqual((code, len(answers)), (0, PICTURES), err)
        self.assertEqual(len({answer["file"] for answer in answers}), PICTURES)
        return old

    def ends_clean(self):
        self.cluster.wait_ready(60)
        code, answers, err = self.cluster.send(self.files[:4], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * 4), err)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def comes_back(self, role):
        old = self.under_load(role)
        wait_until(f"another {role}", lambda: (self.cluster.records().get(role) or {"pid": old})["pid"] != old, 60)
        self.ends_clean()

    def test_node(self):
        self.comes_back("node")

    def test_node_and_supervisor_at_once(self):
        """The next supervisor starts while the node is still ending: its sockets answer yet, and nobody is behind them."""
        for _ in range(5):
            node = self.cluster.record("node")["pid"]
            os.kill(node, signal.SIGKILL)
            self.cluster.replace_supervisor()
            wait_until("another node", lambda: (self.cluster.records().get("node") or {"pid": node})["pid"] != node, 60)
            self.cluster.wait_ready(60)
        self.ends_clean()

    def test_central(self):
        self.comes_back("central")

    def test_worker(self):
        old = self.under_load(next(role for role in self.cluster.records() if role.startswith("worker-")))

        def two_workers():
            models = self.cluster.status()["node"]["models"]
            return models[0]["ready"] == 2 and old not in [each["pid"] for each in self.cluster.records().values()]
        wait_until("the second worker again", two_workers, 60)
        self.ends_clean()

    def test_a_request_that_kills_every_worker_fails_alone(self):
        deadly = self.cluster.scratch / "deadly.jpg"
        deadly.write_bytes(jpeg(1000, "die!"))
        code, answers, err = self.cluster.send([deadly], keys=self.keys, central=self.central)
        self.assertEqual(code, 1, err)
        self.assertEqual(answers[0]["error"]["name"], "quarantined", answers)
        self.ends_clean()


if __name__ == "__main__":
    unittest.main()
