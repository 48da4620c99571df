"""Two installations whose schedulers take their lease from one etcd cluster of three members: one leads; members, leaders and the majority
die; the term rises; what an older one orders is refused. Without etcd on the machine it says NOT RUN."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import support  # noqa: F401  where the modules of tests/support are
from cluster import Cluster, wait_until
from etcd_cluster import ETCD, EtcdCluster
from test_gears import ENGINE, GEARS, control

BOUND = 25  # seconds until another one leads: etcd's lease lasts 8 s, an election of its members a second or two


class GearsEtcd(unittest.TestCase):
    def setUp(self):
        if ETCD is None:
            print("NOT RUN: no etcd is installed (Debian: etcd-server)", flush=True)
            self.skipTest("no etcd")
        folder = tempfile.TemporaryDirectory(prefix="gearbox-etcd-")
        self.addCleanup(folder.cleanup)
        self.etcd = EtcdCluster(folder.name).__enter__()
        self.addCleanup(self.etcd.__exit__)
        self.hosts = []
        for name in ("north", "south"):
            self.hosts.append(self.host(name))

    def host(self, name):
        cluster = Cluster(workers=0)
        self.addCleanup(cluster.__exit__)
        file = cluster.configs / "gearbox.toml"
        plain = file.read_text().replace("[node]\n", f'[node]\nname = "{name}"\n', 1)
        file.write_text(plain + GEARS.replace('policy = "fixed"', 'policy = "fixed"\ncoordination = "etcd"') +
                        f'\n[plugins.etcd]\nendpoints = "{self.etcd.endpoints}"\n')
        engine = subprocess.Popen([sys.executable, "-B", str(ENGINE), str(cluster.state), "story"], stdout=subprocess.PIPE, text=True,
                                  start_new_session=True)
        self.addCleanup(self.end, engine)
        self.assertEqual(engine.stdout.readline(), "ready\n")
        cluster.start()
        return cluster

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

    def leader(self):
        """(host, its scheduler's status) of the one that leads."""
        for host in self.hosts:
            status = self.scheduler(host)
            if status.get("leads"):
                return host, status
        return None

    def configure(self, host, old, new):
        file = host.configs / "gearbox.toml"
        text = file.read_text()
        self.assertIn(old, text)
        beside = host.configs / ".gearbox.toml.new"
        beside.write_text(text.replace(old, new))
        os.replace(beside, file)

    def test_one_leads_through_all_that_dies(self):
        host, first = wait_until("a leader", self.leader, 40)
        other = next(each for each in self.hosts if each is not host)
        self.assertEqual(first["coordination"], "etcd")
        wait_until("the other one knows", lambda: f"'{first['leader']}' leads" in self.scheduler(other).get("problem", ""), 15)
        page = other.run("gear", "show").stdout
        self.assertIn(f"'{first['leader']}' leads (term {first['term']}), the scheduler here does not", page)

        # Only who leads decides.
        for each in self.hosts:
            self.configure(each, "gear = 0", "gear = 2")
        wait_until("a shift", lambda: self.rows(host), 15)
        self.assertEqual([row["term"] for row in self.rows(host)], [first["term"]])
        self.assertEqual(self.rows(other), [])

        # kill -9 of the member that leads etcd: the lease is kept, or somebody else's before long.
        member = self.etcd.leader()
        self.etcd.kill(member)
        host, second = wait_until("a leader after a member's death", self.leader, BOUND)
        other = next(each for each in self.hosts if each is not host)
        self.assertGreaterEqual(second["term"], first["term"])

        # kill -9 of the scheduler that leads: its next life need not wait, and has a term of its own.
        os.kill(second["pid"], signal.SIGKILL)
        def next_life():
            status = self.scheduler(host)
            return status if status.get("leads") and status["pid"] != second["pid"] else None
        third = wait_until("its next life", next_life, BOUND)
        self.assertGreater(third["term"], second["term"])
        old = {"command": "shift", "group": "story", "gear": 3, "term": second["term"], "origin": "scheduler", "decision": "late"}
        wait_until("its executor knows the term", lambda: host.status()["executor"]["term"] == third["term"], 15)
        self.assertIn(f"term {second['term']} is older than {third['term']}", control(host.state / "run/executor.sock", old))
        # A person's order carries the term that is known there.
        host.run("gear", "set", "story", "4")
        # The scheduler may have shifted it back since.
        self.assertEqual([row["term"] for row in self.rows(host) if row["origin"] == "person"], [third["term"]])

        # The host that leads is lost whole: the other one takes over, with a higher term.
        host.kill()
        self.hosts.remove(host)
        _, fourth = wait_until("the other host leads", self.leader, BOUND)
        self.assertGreater(fourth["term"], third["term"])

        # The majority is gone: nobody leads, and it says so; people still shift.
        self.etcd.kill((member + 1) % 3)
        def nobody():
            status = self.scheduler(other)
            return status if status and not status["leads"] else None
        lost = wait_until("nobody leads", nobody, BOUND)
        wait_until("it says so", lambda: "no member of etcd answers" in self.scheduler(other)["problem"], 15)
        self.assertEqual(lost["lease_problem"] != "", True)
        self.assertIn("nothing is decided: it has no lease: etcd:", other.run("gear", "show").stdout)
        self.assertIn("gear", other.run("gear", "set", "story", "5").stdout)
        self.etcd.start((member + 1) % 3)
        self.etcd.start(member)
        _, last = wait_until("a leader again", self.leader, BOUND + 10)
        self.assertGreaterEqual(last["term"], fourth["term"])
        for each in self.hosts:
            self.assertEqual(each.stop(), 0, each.log())

    def rows(self, host):
        done = host.run("gear", "history", "story", "--json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def test_options_and_the_store_itself_change_live(self):
        host, first = wait_until("a leader", self.leader, 40)
        # Other options of the same store: the lease is kept, under its term.
        self.configure(host, "endpoints = ", "timeout_ms = 400\nendpoints = ")
        wait_until("another object", lambda: "plugin options changed kind=coordination name=etcd" in host.log(), 15)
        before = self.scheduler(host)["rounds"]
        wait_until("more rounds", lambda: self.scheduler(host).get("rounds", 0) > before + 30, 15)
        status = self.scheduler(host)
        self.assertEqual((status["leads"], status["term"]), (True, first["term"]))
        # One that cannot be: nothing changes.
        self.configure(host, "endpoints = ", "prefix = \"\"\nendpoints = ")
        wait_until("a refusal", lambda: "prefix: must have 1 to 128 bytes" in host.log(), 15)
        self.configure(host, "prefix = \"\"\n", "")
        # Central instead: it is given back, and the other host leads at once; this one has central's, with a term above.
        self.configure(host, 'coordination = "etcd"', 'coordination = "central"')
        moved = wait_until("central's lease", lambda: self.scheduler(host).get("coordination") == "central" and self.leader(), 15)
        self.assertIsNotNone(moved)
        other = next(each for each in self.hosts if each is not host)
        taken = wait_until("the other one", lambda: self.scheduler(other).get("leads") and self.scheduler(other), 15)
        self.assertGreater(taken["term"], first["term"])
        mine = wait_until("a lease of central's", lambda: self.scheduler(host).get("leads") and self.scheduler(host), 15)
        self.assertGreater(mine["term"], first["term"])
        for each in self.hosts:
            self.assertEqual(each.stop(), 0, each.log())


if __name__ == "__main__":
    unittest.main()
