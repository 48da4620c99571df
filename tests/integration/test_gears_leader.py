"""Two hosts with a group each, one scheduler that decides on both: shifts there and here, takeover by the other host's scheduler, orders
of older terms and of those who may not give any, a host that hangs, dies and comes back."""
import json
import os
import signal
import subprocess
import sys
import unittest

import support  # noqa: F401  where the modules of tests/support are
from cluster import Cluster, wait_until
from gear_stream import GearStream, Refused
from test_gears import ENGINE, GEARS

BOTH = '[gears]\nhosts = ["north", "south"]\nleaders = ["north", "south"]\n'


class GearsLeader(unittest.TestCase):
    def setUp(self):
        self.north, self.south = Cluster(workers=0), Cluster(workers=0)
        for host in (self.north, self.south):
            self.addCleanup(host.__exit__)
            self.start_engine(host)

    def start_engine(self, host):
        engine = subprocess.Popen([sys.executable, "-B", str(ENGINE), str(host.state), "story"], stdout=subprocess.PIPE, text=True,
                                  start_new_session=True)
        self.addCleanup(self.end, engine)
        self.assertEqual(engine.stdout.readline(), "ready\n")

    @staticmethod
    def end(engine):
        try:
            os.killpg(engine.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        engine.wait()
        engine.stdout.close()

    def up(self, south=BOTH):
        """North leads when this returns: it is there first."""
        file = self.north.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("[node]\n", '[node]\nname = "north"\n', 1) + GEARS.replace("[gears]\n", BOTH))
        self.north.start()
        self.first = wait_until("north leads", lambda: self.leads(self.north), 40)
        url, key = self.north.central()
        file = self.south.configs / "gearbox.toml"
        text = file.read_text().replace("[central]\n", "[central]\nenabled = false\n")
        text = text.replace("[node]\n", f'[node]\nname = "south"\ncentral = "{url}"\ncentral_key = "{key}"\n')
        # Its observer looks less often than north decides: the same snapshot comes several times.
        file.write_text(text + GEARS.replace("[gears]\n", south).replace("interval_ms = 100", "interval_ms = 1000"))
        identity = self.south.run("keys", "show", "--config", self.south.configs, "--make", "node", "--field", "node").stdout.strip()
        self.north.run("nodes", "add", "south", identity)
        self.south.start()

    @staticmethod
    def scheduler(host):
        return host.status().get("scheduler") or {}

    def leads(self, host):
        return self.scheduler(host) if self.scheduler(host).get("leads") else None

    def away(self, host, name):
        """Why `host` cannot decide on groups of `name`; None when it leads no more, "" when it can."""
        return next((each["away"] for each in self.scheduler(host).get("hosts", []) if each["name"] == name), None)

    def decides_on(self, host, name):
        wait_until(f"{name} is decided on", lambda: self.away(host, name) == "", 30)

    @staticmethod
    def rows(host):
        done = host.run("gear", "history", "story", "--json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def gear(self, host):
        done = host.run("gear", "show", "--json", ok=False)
        groups = json.loads(done.stdout)["groups"] if done.returncode == 0 else []
        return next((each.get("gear") for each in groups if each["name"] == "story"), None)

    def configure(self, host, old, new):
        file = host.configs / "gearbox.toml"
        text = file.read_text()
        self.assertIn(old, text)
        beside = host.configs / ".gearbox.toml.new"
        beside.write_text(text.replace(old, new))
        os.replace(beside, file)

    def ends_in_gear(self, host, gear):
        """A shift that was ordered, done and written down; returns its row."""
        def done():
            rows = self.rows(host)
            return rows[0] if rows and rows[0]["ok"] and rows[0]["to"] == gear else None
        return wait_until(f"a shift to gear {gear}", done, 30)

    def end_both(self):
        for host in (self.south, self.north):
            self.assertEqual(host.stop(), 0, host.log())

    def test_the_leader_shifts_groups_of_both_hosts_and_shows_them(self):
        self.up()
        self.decides_on(self.north, "south")
        wait_until("south knows who leads", lambda: "'north' leads" in self.scheduler(self.south).get("problem", ""), 20)
        term = self.scheduler(self.north)["term"]
        # South's executor hears the term before anything is ordered.
        wait_until("the term is known", lambda: self.south.status()["executor"]["term"] == term, 20)
        self.configure(self.north, "gear = 0", "gear = 2")
        for host in (self.north, self.south):
            row = self.ends_in_gear(host, 2)
            self.assertEqual((row["origin"], row["term"]), ("scheduler", term))
        self.assertTrue(self.rows(self.south)[0]["decision"].startswith("north: "), self.rows(self.south)[0])
        page = self.north.run("gear", "show").stdout
        self.assertIn("host south: 1 groups are decided on as well", page)
        groups = json.loads(self.north.run("gear", "show", "--json").stdout)["groups"]
        self.assertEqual([(each["host"], each["name"]) for each in groups], [("north", "story"), ("south", "story")])
        wait_until("the leader sees both gears", lambda: [each["gear"] for each in json.loads(
            self.north.run("gear", "show", "--json").stdout)["groups"]] == [2, 2], 15)
        for name, expected in (("story", {"north/story", "south/story"}), ("south/story", {"south/story"})):
            decisions = json.loads(self.north.run("gear", "explain", name, "--json").stdout)
            self.assertEqual({each["group"] for each in decisions if each["shift_number"]}, expected)
        # One order for each host: nothing was ordered twice.
        self.assertEqual([len(self.rows(host)) for host in (self.north, self.south)], [1, 1])
        # A person's order at the other host goes before: it is held there, and the leader knows.
        self.south.run("gear", "set", "story", "5", "--hold")
        wait_until("held", lambda: any(each["governor"] == "held" for each in json.loads(
            self.north.run("gear", "explain", "south/story", "--json").stdout)), 15)
        self.assertEqual(self.gear(self.south), 5)
        self.end_both()

    def test_the_other_hosts_scheduler_takes_over_and_older_terms_are_refused(self):
        self.up()
        self.decides_on(self.north, "south")
        old = self.scheduler(self.north)["term"]
        self.configure(self.south, "gear = 0", "gear = 5")  # what south will want when it leads
        os.kill(self.north.supervisor.pid, signal.SIGSTOP)  # so that nobody starts another one
        try:
            os.kill(self.scheduler(self.north)["pid"], signal.SIGKILL)
            second = wait_until("south leads", lambda: self.leads(self.south), 40)
            self.assertGreater(second["term"], old)
            for host in (self.north, self.south):
                row = self.ends_in_gear(host, 5)
                self.assertEqual((row["origin"], row["term"]), ("scheduler", second["term"]))
        finally:
            os.kill(self.north.supervisor.pid, signal.SIGCONT)
        # What the one before ordered comes late, over the network: refused there.
        late = {"to": "executor", "command": "shift", "group": "story", "gear": 2, "origin": "scheduler", "decision": "late"}
        with GearStream(self.north.state / "run/node.sock", "south") as stream:
            with self.assertRaisesRegex(Refused, f"not_allowed: term {old} is older than {second['term']}: another scheduler leads"):
                stream.ask(**late, term=old)
            # Nothing passes but what a scheduler needs; above all no person's right.
            for question in ({**late, "origin": "person", "term": 99}, {**late, "origin": "node", "term": 99},
                             {"to": "executor", "command": "hold", "group": "story", "held": True},
                             {"to": "executor", "command": "allow", "group": "story", "gears": [1]},
                             {"to": "executor", "command": "status"}, {"to": "observer", "command": "config"},
                             {"to": "scheduler", "command": "explain"}, {"to": "group", "op": "shift", "group": "story", "gear": 1},
                             {"to": "group", "op": "abort", "group": "story"}, {"to": "node", "command": "drain"}):
                with self.assertRaisesRegex(Refused, "not_allowed"):
                    stream.ask(**question)
            with self.assertRaisesRegex(Refused, "bad_name"):
                stream.ask(to="group", op="price", group="../story", gear=1)
            self.assertEqual(stream.ask(to="group", op="price", group="story", gear=1)["fits"], True)
        self.assertEqual([row["to"] for row in self.rows(self.south)], [5])
        wait_until("north's next scheduler follows", lambda: "'south' leads" in self.scheduler(self.north).get("problem", ""), 30)
        self.end_both()

    def test_a_host_that_does_not_name_the_leader_refuses_it_until_it_does(self):
        self.up(south="[gears]\n")
        reason = "node 'south' does not let 'north' decide on its groups"
        wait_until("a refusal", lambda: reason in (self.away(self.north, "south") or ""), 30)
        self.configure(self.north, "gear = 0", "gear = 2")
        self.ends_in_gear(self.north, 2)  # its own groups are decided on
        self.assertIn("nothing is decided on its groups: not_allowed: " + reason, self.north.run("gear", "show").stdout)
        self.assertEqual((self.gear(self.south), self.rows(self.south)), (1, []))
        self.assertEqual(self.south.status()["executor"]["term"], 0)
        self.configure(self.south, "[gears]\n", '[gears]\nleaders = ["north"]\n')
        self.ends_in_gear(self.south, 2)
        # Taken back while the stream is open: the next question is refused.
        self.configure(self.south, 'leaders = ["north"]', 'leaders = ["west"]')
        wait_until("a refusal again", lambda: reason in (self.away(self.north, "south") or ""), 30)
        self.configure(self.north, "gear = 2", "gear = 3")
        self.ends_in_gear(self.north, 3)
        self.assertEqual([row["to"] for row in self.rows(self.south)], [2])
        self.end_both()

    def test_a_host_that_hangs_or_dies_is_left_out_and_comes_back(self):
        self.up()
        self.decides_on(self.north, "south")
        node = self.south.status()["node"]["pid"]
        os.kill(node, signal.SIGSTOP)
        try:
            wait_until("south is away", lambda: self.away(self.north, "south"), 30)
            rounds = self.scheduler(self.north)["rounds"]
            self.configure(self.north, "gear = 0", "gear = 2")
            self.ends_in_gear(self.north, 2)
            # Nobody waits for it: ten rounds a second, and no more than one of a second when it is asked anew.
            wait_until("more rounds", lambda: self.scheduler(self.north).get("rounds", 0) > rounds + 20, 20)
        finally:
            os.kill(node, signal.SIGCONT)
        self.ends_in_gear(self.south, 2)

        self.south.kill()
        wait_until("south is away", lambda: self.away(self.north, "south"), 30)
        self.configure(self.north, "gear = 2", "gear = 3")
        self.ends_in_gear(self.north, 3)
        lost = [each for each in json.loads(self.north.run("gear", "show", "--json").stdout)["groups"] if each["host"] == "south"]
        self.assertEqual([(each["name"], each["stale"]) for each in lost], [("story", True)])
        self.assertIn("host south: ", lost[0]["problem"])
        self.start_engine(self.south)
        self.south.start()
        self.ends_in_gear(self.south, 3)
        self.end_both()


if __name__ == "__main__":
    unittest.main()
