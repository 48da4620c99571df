"""A host without a central of its own: its scheduler gets the lease from the central that its node reports to."""
import os
import signal
import subprocess
import sys
import unittest

import support
from cluster import Cluster, wait_until
from test_gears import ENGINE, GEARS


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.north, self.south = Cluster(workers=0), Cluster(workers=0)
        for host in (self.north, self.south):
            self.addCleanup(host.__exit__)
            engine = subprocess.Popen([sys.executable, "-B", str(ENGINE), str(host.state), "story"], stdout=subprocess.PIPE, text=True,
                                      start_new_session=True)
            self.addCleanup(self.end, engine)
            self.assertEqual(engine.stdout.readline(), "ready\n")
        file = self.north.configs / "gearbox.toml"
        # Central must come back at the same address.
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1) + GEARS)
        self.north.start()
        wait_until("its central", lambda: self.north.status().get("central"), 30)
        url, key = self.north.central()
        file = self.south.configs / "gearbox.toml"
        text = file.read_text().replace("[central]\n", "[central]\nenabled = false\n")
        text = text.replace("[node]\n", f'[node]\nname = "south"\ncentral = "{url}"\ncentral_key = "{key}"\n')
        file.write_text(text + GEARS)
        identity = self.south.run("keys", "show", "--config", self.south.configs, "--make", "node", "--field", "node").stdout.strip()
        self.north.run("nodes", "add", "south", identity)
        self.south.start()

    @staticmethod
    def end(engine):
        try:
            os.killpg(engine.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        engine.wait()
        engine.stdout.close()

    @staticmethod
    def scheduler(host):
        return host.status().get("scheduler") or {}

    def leads(self, host):
        return self.scheduler(host) if self.scheduler(host).get("leads") else None

    def configure(self, host, old, new):
        file = host.configs / "gearbox.toml"
        text = file.read_text()
        self.assertIn(old, text)
        beside = host.configs / ".gearbox.toml.new"
        beside.write_text(text.replace(old, new))
        os.replace(beside, file)

    def test_a_lease_over_the_network(self):
        wait_until("one of them leads", lambda: self.leads(self.north) or self.leads(self.south), 40)
        leader, other = (self.north, self.south) if self.leads(self.north) else (self.south, self.north)
        name = self.scheduler(leader)["leader"]
        wait_until("the other one knows", lambda: f"'{name}' leads" in self.scheduler(other).get("problem", ""), 20)

        # Each with groups, each with a lease: both lead, and a shift carries the term.
        self.configure(self.south, "[gears]\n", '[gears]\nlease = "south"\n')
        wait_until("south leads", lambda: self.leads(self.south), 20)
        wait_until("north leads", lambda: self.leads(self.north), 20)
        self.configure(self.south, "gear = 0", "gear = 2")
        wait_until("a shift", lambda: '"gear":2' in self.south.run("gear", "show", "--json").stdout.replace(" ", ""), 20)

        # Central dies and comes back: the lease is kept, under its term.
        term = self.scheduler(self.south)["term"]
        pid = self.north.status()["central"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until("another central", lambda: (self.north.status()["central"] or {}).get("pid", pid) != pid, 20)
        rounds = self.scheduler(self.south)["rounds"]
        wait_until("more rounds", lambda: self.scheduler(self.south).get("rounds", 0) > rounds + 30, 30)
        wait_until("it leads", lambda: self.leads(self.south), 20)
        self.assertEqual(self.scheduler(self.south)["term"], term)

        # Central stays away: when the lease is over nothing is decided, and it says why.
        os.kill(self.north.supervisor.pid, signal.SIGSTOP)
        try:
            os.kill(self.north.status()["central"]["pid"], signal.SIGKILL)
            wait_until("nobody leads", lambda: self.scheduler(self.south) and not self.leads(self.south), 30)
            wait_until("it says so", lambda: "it has no lease: central:" in self.scheduler(self.south)["problem"], 20)
        finally:
            os.kill(self.north.supervisor.pid, signal.SIGCONT)
        back = wait_until("south leads again", lambda: self.leads(self.south), 40)
        self.assertGreaterEqual(back["term"], term)
        for host in (self.south, self.north):
            self.assertEqual(host.stop(), 0, host.log())


if __name__ == "__main__":
    unittest.main()
