"""Central is away for seconds: a node goes on serving devices that hold tickets, registers again by itself when central is back,
and devices are placed again."""
import os
import signal
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import support
from cluster import Cluster, jpeg, wait_until

AWAY_S = 4
PICTURES = 120


class Away(unittest.TestCase):
    """Central and the node are two installations, so that one can be gone while the other runs."""

    def setUp(self):
        self.home = Cluster()
        self.addCleanup(self.home.__exit__)
        main = self.home.configs / "gearbox.toml"
        text = main.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1)
        main.write_text(text.replace("[node]\n", "[node]\nenabled = false\n"))
        self.home.start()
        wait_until("central", lambda: (self.home.status()["central"] or {}).get("ready"), 30)
        self.home.add_user()
        self.central = self.home.central()
        self.keys = self.home.enrol(central=self.central)
        self.other = self.home.enrol(device="device-2", central=self.central)
        self.barn = Cluster()
        self.addCleanup(self.barn.__exit__)
        self.configure_node()
        identity = self.barn.run("keys", "show", "--config", self.barn.configs, "--make", "node", "--field", "node").stdout.strip()
        self.home.run("nodes", "add", "barn", identity)
        self.barn.start()
        self.registered(60)
        self.files = []
        for number in range(PICTURES):
            self.files.append(self.home.scratch / f"{number}.jpg")
            self.files[-1].write_bytes(jpeg(20_000, "sleep 0.1"))

    def configure_node(self):
        url, key = self.central
        main = self.barn.configs / "gearbox.toml"
        text = main.read_text().replace("[central]\n", "[central]\nenabled = false\n")
        text = text.replace("[node]\n", f'[node]\nname = "barn"\ncentral = "{url}"\ncentral_key = "{key}"\n')
        head, _, tail = text.rpartition("127.0.0.1:0")  # a node that comes back comes back at its address
        main.write_text(f"{head}127.0.0.1:{support.free_port()}{tail}")

    def registered(self, seconds):
        def alive():
            central, node = self.home.status()["central"], self.barn.status()["node"]
            return central and node and node["ready"] and any(each["state"] == "alive" for each in central["nodes"])
        wait_until("the node registered and ready", alive, seconds)

    def answered(self):
        return self.barn.status()["node"]["counters"]["answered"]

    def kill_node(self):
        old = self.barn.record("node")["pid"]
        os.kill(old, signal.SIGKILL)
        wait_until("another node", lambda: (self.barn.records().get("node") or {"pid": old})["pid"] != old, 30)

    def sends_while(self, leave, come_back, meanwhile=lambda: None):
        """A device has its ticket and sends; central is away for AWAY_S meanwhile; every picture is answered, some of them
        while central was away; then central is found again, and so is the node."""
        with ThreadPoolExecutor(1) as pool:
            more = ("--parallel", "1")
            sending = pool.submit(self.home.send, self.files, keys=self.keys, central=self.central, seconds=100, more=more)
            wait_until("load", lambda: self.answered() > 3, 30, 0.05)
            leave()
            wait_until("the node notices", lambda: not self.barn.status()["node"]["central"]["connected"], 15)
            gone = time.monotonic()
            meanwhile()
            wait_until("the node", lambda: (self.barn.status()["node"] or {}).get("ready"), 30)
            before = self.answered()
            wait_until("answers without central", lambda: self.answered() > before + 5, 20)
            wait_until("a while", lambda: time.monotonic() > gone + AWAY_S, AWAY_S + 5)
            self.assertFalse(sending.done(), "the load ended while central was away")
            come_back()
            code, answers, err = sending.result()
        self.assertEqual([answer for answer in answers if not answer["ok"]], [], err)
        self.assertEqual((code, len(answers)), (0, PICTURES), err)
        back = time.monotonic()
        self.registered(20)
        code, answers, err = self.home.send(self.files[:2], keys=self.other, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * 2), err)
        print(f"answered while central was away: at least 5; registered again {time.monotonic() - back:.1f} s after the load", flush=True)

    def ends_clean(self):
        for cluster in (self.barn, self.home):
            self.assertEqual(cluster.stop(), 0)
            self.assertEqual(cluster.leftovers(), [])

    def test_killed(self):
        """kill -9 of central and of the supervisor that would start it again."""
        self.sends_while(self.home.kill, lambda: self.home.start())
        self.ends_clean()

    def test_node_killed_meanwhile(self):
        """The next process of the node takes the tickets of the one before, though it cannot ask central."""
        self.sends_while(self.home.kill, lambda: self.home.start(), self.kill_node)
        self.ends_clean()

    def test_standing_still(self):
        pid = self.home.record("central")["pid"]
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGCONT))
        self.sends_while(lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT))
        self.assertEqual(self.home.record("central")["pid"], pid)
        self.ends_clean()


class SeveralAddresses(Away):
    """The node knows several addresses of central, the first of which nobody answers at."""

    def configure_node(self):
        url, key = self.central
        main = self.barn.configs / "gearbox.toml"
        text = main.read_text().replace("[central]\n", "[central]\nenabled = false\n")
        nobody = f"tcp://127.0.0.1:{support.free_port()}"
        main.write_text(text.replace("[node]\n", f'[node]\nname = "barn"\ncentral = ["{nobody}", "{url}"]\ncentral_key = "{key}"\n'))

    test_standing_still = test_node_killed_meanwhile = None


if __name__ == "__main__":
    unittest.main()
