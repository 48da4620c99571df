"""pi_client run with two nodes: a picture stays with the node that has acknowledged it; when that node is silent for long, another
does it as well; each picture has one answer in the end, whoever was killed or stood still."""
import os
import signal
import unittest

import support
from cluster import Cluster, wait_until
from spooler import Spooler

PICTURES = 12
MOVE_AFTER_MS = 3000


class TwoNodes(Spooler, unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        main = self.cluster.configs / "gearbox.toml"
        text = main.read_text()
        for _ in range(2):
            text = text.replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1)
        main.write_text(text)
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.other = Cluster()
        self.addCleanup(self.other.__exit__)
        url, key = self.central
        second = self.other.configs / "gearbox.toml"
        text = second.read_text().replace("[central]\n", "[central]\nenabled = false\n")
        text = text.replace("[node]\n", f'[node]\nname = "node-2"\ncentral = "{url}"\ncentral_key = "{key}"\n')
        head, _, tail = text.rpartition("127.0.0.1:0")
        second.write_text(f"{head}127.0.0.1:{support.free_port()}{tail}")
        identity = self.other.run("keys", "show", "--config", self.other.configs, "--make", "node", "--field", "node").stdout.strip()
        self.cluster.run("nodes", "add", "node-2", identity)
        self.other.start()
        self.both = {"node-1": self.cluster, "node-2": self.other}
        self.wait_both()
        self.make_folders(self.cluster.scratch)

    def wait_both(self):
        def alive():
            nodes = self.cluster.status()["central"]["nodes"]
            ready = all((cluster.status()["node"] or {}).get("ready") for cluster in self.both.values())
            return ready and sorted(each["name"] for each in nodes if each["state"] == "alive") == ["node-1", "node-2"]
        wait_until("two nodes", alive, 60)

    def accepted(self, name):
        return self.both[name].status()["node"]["counters"]["accepted"]

    def begin(self, *more, move_after=MOVE_AFTER_MS):
        """The client runs, and a node has acknowledged pictures: its name, and that of the other one."""
        self.write(0, PICTURES, order="sleep 1")
        self.run_client("--watch", self.pictures, "--move-after-ms", move_after, *more)

        def holder():
            held = [name for name in self.both if self.accepted(name) > 1]
            return held[0] if held else None
        holder = wait_until("an acknowledged picture", holder, 30, 0.05)
        return holder, "node-2" if holder == "node-1" else "node-1"

    def freeze(self, name):
        pid = self.both[name].record("node")["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGCONT))
        return pid

    def answered_by(self, name):
        return sum(answer["node"] == name for answer in self.answers())

    def nobody_keeps_anything(self):
        """Each acknowledged picture has been acknowledged back, or called off, also where its answer came too late."""
        def kept():
            return [(cluster.status()["node"] or {"journal": {"requests": None}})["journal"]["requests"] for cluster in self.both.values()]
        wait_until("two empty journals", lambda: kept() == [0, 0], 40)

    def ends_clean(self):
        self.stop_client()
        for cluster in (self.other, self.cluster):
            self.assertEqual(cluster.stop(), 0)
            self.assertEqual(cluster.leftovers(), [])

    def test_a_node_that_stands_still_and_comes_back(self):
        holder, other = self.begin()
        pid = self.freeze(holder)
        before = self.answered_by(holder)
        self.until_answered(PICTURES)
        self.assertLess(before, PICTURES)
        self.assertGreater(self.answered_by(other), 0, self.log())
        self.assertIn(f"node {holder} has been silent", self.log())
        self.each_has_one_answer(PICTURES)
        os.kill(pid, signal.SIGCONT)
        self.nobody_keeps_anything()
        self.each_has_one_answer(PICTURES)
        self.ends_clean()

    def test_both_answers_come(self):
        """The node stands still just long enough for the pictures to be begun elsewhere; then both work on them."""
        holder, other = self.begin("--parallel", 2)
        pid = self.freeze(holder)
        wait_until("pictures begun elsewhere", lambda: self.accepted(other) > 0, 40, 0.02)
        os.kill(pid, signal.SIGCONT)
        self.until_answered(PICTURES)
        self.nobody_keeps_anything()
        self.each_has_one_answer(PICTURES)
        self.ends_clean()

    def test_kills_of_node_and_client(self):
        """A node that is back soon answers what it has acknowledged, also to the next process of the client: nothing is moved."""
        holder, other = self.begin(move_after=60_000)
        os.kill(self.both[holder].record("node")["pid"], signal.SIGKILL)
        self.kill_runner()
        acknowledged = {line.split()[0] for line in (self.spool / "homes").read_text().splitlines()}
        self.assertGreater(len(acknowledged), 0)
        left = {item["request"] for item in self.spooled()} & acknowledged
        self.assertGreater(len(left), 0, "killed too late to show anything")
        self.run_client("--watch", self.pictures, "--move-after-ms", 60_000)
        self.until_answered(PICTURES)
        self.each_has_one_answer(PICTURES)
        for answer in self.answers():
            if answer["request"] in left:
                self.assertEqual(answer["node"], holder)
        self.ends_clean()

    def test_a_node_that_is_gone_for_good(self):
        holder, other = self.begin()
        if holder == "node-1":  # central is there, too, and stays
            self.freeze(holder)
        else:
            self.other.kill()
        self.kill_runner()
        self.run_client("--watch", self.pictures, "--move-after-ms", MOVE_AFTER_MS)
        self.until_answered(PICTURES)
        self.each_has_one_answer(PICTURES)
        self.assertGreater(self.answered_by(other), 0)
        self.stop_client()


if __name__ == "__main__":
    unittest.main()
