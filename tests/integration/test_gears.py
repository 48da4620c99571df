"""Observer, scheduler and executor as processes of `broker up`, with drivers of groups that have no model behind them: show, set,
explain, a policy that decides, dry run, kill -9 of each of the three in the middle, terms, stale figures."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import unittest

import support
from cluster import Cluster, wait_until

ENGINE = support.ROOT / "tests/support/fake_engine.py"
ROLES = ("observer", "executor", "scheduler")
GEARS = """
[gears]
enabled = true
policy = "fixed"
interval_ms = 100
dwell_ms = 0
urgent_dwell_ms = 0
reverse_cooldown_ms = 0

[plugins.fixed]
gear = 0
"""


class Gears(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=0)
        self.addCleanup(self.cluster.__exit__)
        self.file = self.cluster.configs / "gearbox.toml"
        self.plain = self.file.read_text() + GEARS
        self.file.write_text(self.plain)
        self.engines = []
        self.addCleanup(self.end_engines)

    def end_engines(self):
        for engine in self.engines:
            engine.terminate()
            engine.wait(10)
            engine.stdout.close()
        self.engines = []

    def engine(self, name="story", *words):
        engine = subprocess.Popen([sys.executable, "-B", str(ENGINE), str(self.cluster.state), name, *words], stdout=subprocess.PIPE,
                                  text=True, start_new_session=True)
        self.engines.append(engine)
        self.addCleanup(self.end_group, engine)
        self.assertEqual(engine.stdout.readline(), "ready\n")
        return engine

    @staticmethod
    def end_group(engine):
        try:
            os.killpg(engine.pid, signal.SIGKILL)  # its rank as well
        except ProcessLookupError:
            pass

    def tell(self, name="story", op="tell", **what):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.cluster.state / f"run/groups/{name}.sock"))
            connection.sendall(json.dumps({"op": op, **what}).encode() + b"\n")
            return json.loads(connection.makefile().readline())

    def up(self):
        self.cluster.start()
        return wait_until("the three roles", self.all_ready, 30)

    def all_ready(self):
        status = self.cluster.status()
        return status if all(status.get(role) and status[role]["ready"] for role in ROLES) else None

    def show(self):
        return json.loads(self.cluster.run("gear", "show", "--json", ok=False).stdout or "{}")

    def group(self, name="story"):
        return next((group for group in self.show().get("groups", []) if group["name"] == name), None)

    def wait_for_group(self, name="story"):
        return wait_until(f"group {name}", lambda: (self.group(name) or {}).get("gear") and self.group(name), 15)

    def explained(self, *words):
        done = self.cluster.run("gear", "explain", "--json", *words, ok=False)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def configure(self, old, new):
        """In one go, as an editor does."""
        beside = self.cluster.configs / ".gearbox.toml.new"
        text = self.file.read_text()
        self.assertIn(old, text)
        beside.write_text(text.replace(old, new))
        os.replace(beside, self.file)

    def leads(self):
        scheduler = self.cluster.status()["scheduler"]
        return scheduler if scheduler and scheduler["leads"] else None

    def kill(self, role):
        """kill -9; returns its pid."""
        pid = self.cluster.status()[role]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def comes_back(self, role, pid):
        def other():
            status = self.cluster.status()[role]
            return status and status["pid"] != pid and status
        return wait_until(f"another {role}", other, 20)

    def ends_clean(self):
        self.assertEqual(self.cluster.stop(), 0, self.cluster.log())
        self.end_engines()
        for file in (self.cluster.state / "run/groups").glob("*.sock"):
            file.unlink()
        self.assertEqual(self.cluster.leftovers(), [])

    def test_people_see_and_set_also_without_a_scheduler(self):
        self.engine()
        self.up()
        group = self.wait_for_group()
        self.assertEqual((group["gear"], group["ranks"], group["running"], group["stale"]), (1, 4, 3, False))
        self.assertGreaterEqual(group["memory_bytes"], 4096)
        wait_until("a leader", self.leads, 15)
        # Before it has ordered anything: people's orders carry its term, and older ones are refused.
        wait_until("the executor knows the term", lambda: self.cluster.status()["executor"]["term"] == 1, 15)
        page = self.cluster.run("gear", "show").stdout
        self.assertIn("data parallel: 4 whole copies", page)
        self.assertIn("'node-1' leads (term 1)", page)

        said = self.cluster.run("gear", "set", "story", "2").stdout
        self.assertEqual(said, "story: gear 1 → 2 in 80 ms, its generations paused for 12.5 ms\n")
        refused = self.cluster.run("gear", "set", "nobody", "2", ok=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("there is no group 'nobody'", refused.stderr)
        self.tell(refuse=[3])
        refused = self.cluster.run("gear", "set", "story", "3", ok=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("stays in gear 2", refused.stderr)
        self.assertIn("the cache lacks 12 units", refused.stderr)

        # Nobody decides: people still do. All that the others hold is on disk or asked of the engine again.
        pid = self.cluster.status()["scheduler"]["pid"]
        os.kill(self.cluster.supervisor.pid, signal.SIGSTOP)  # it would start it again
        try:
            os.kill(pid, signal.SIGKILL)
            wait_until("its end", lambda: "no scheduler runs here, so nothing is decided" in self.cluster.run("gear", "show").stdout, 10)
            self.assertIn("gear 2 → 5", self.cluster.run("gear", "set", "story", "5", "--hold").stdout)
            self.assertTrue(self.group()["record"]["held"])
            rows = json.loads(self.cluster.run("gear", "history", "story", "--json").stdout)
            self.assertEqual([(row["from"], row["to"], row["ok"]) for row in rows], [(2, 5, True), (2, 3, False), (1, 2, True)])
            self.assertEqual(rows[0]["report"]["pause_ms"], 12.5)
            self.assertEqual([row["term"] for row in rows], [1, 1, 1])
            lost = self.cluster.run("gear", "explain", ok=False)
            self.assertEqual(lost.returncode, 1)
            self.assertIn("no scheduler runs here", lost.stderr)
        finally:
            os.kill(self.cluster.supervisor.pid, signal.SIGCONT)
        self.comes_back("scheduler", pid)
        self.assertIn("the scheduler's again", self.cluster.run("gear", "release", "story").stdout)
        self.assertFalse(self.group()["record"]["held"])
        self.assertIn("gears 1,2,3 only", self.cluster.run("gear", "allow", "story", "1,2,3").stdout)
        closed = self.cluster.run("gear", "set", "story", "6", ok=False)
        self.assertIn("gear 6 is closed for group 'story'", closed.stderr)
        self.assertEqual(self.cluster.run("gear", "allow", "story", "7", ok=False).returncode, 2)
        self.ends_clean()

    def test_the_policy_decides_and_the_governor_is_told(self):
        self.engine("story", "--refuse", "3", "--shape")
        self.up()
        self.wait_for_group()
        wait_until("a leader", self.leads, 15)
        self.configure("interval_ms = 100", "interval_ms = 100\ndry_run = true")
        self.configure("gear = 0", "gear = 2")
        dry = wait_until("a decision that is only told", lambda: self.explained("story"), 15)[0]
        self.assertEqual((dry["from"], dry["to"], dry["rule"], dry["dry_run"], dry["shift"]), (1, 2, "fixed", True, False))
        self.assertEqual(self.tell(op="status")["seen"], [])
        self.configure("dry_run = true", "dry_run = false")
        wait_until("gear 2", lambda: self.group()["gear"] == 2, 15)
        made = next(entry for entry in self.explained("story") if entry["shift"])
        self.assertEqual((made["governor"], made["term"], made["inputs"]["running"]), ("pass", 1, 3))
        self.assertGreater(made["assessment"]["memory"], 0)
        self.assertEqual(self.tell(op="status")["seen"], [{"gear": 2, "term": 1}])
        page = self.cluster.run("gear", "explain", "story").stdout
        self.assertIn("pass: ordered as shift 1 in term 1", page)
        self.assertIn("bound by: compute", page)

        # What does not fit is asked of the engine once, not each round, and told.
        self.configure("gear = 2", "gear = 3")
        def no_room():
            return next((entry for entry in self.explained("story") if entry["governor"] == "memory"), None)
        self.assertIn("the cache lacks 12 units", wait_until("a no for want of memory", no_room, 15)["why"])
        # A person's word is kept.
        self.cluster.run("gear", "set", "story", "4", "--hold")
        self.configure("gear = 3", "gear = 1")
        def held():  # the wish of before may have been held back, too: gear 3
            return [entry for entry in self.explained("story", "--count", "100") if entry["governor"] == "held" and entry["to"] == 1]
        self.assertEqual(wait_until("held back", held, 15)[0]["from"], 4)
        wait_until("counted, not repeated", lambda: held()[0]["times"] > 3, 15)
        self.assertEqual(len(held()), 1)
        self.cluster.run("gear", "release", "story")
        wait_until("gear 1", lambda: self.group()["gear"] == 1, 15)
        self.ends_clean()

    def test_the_cost_model_prices_a_load(self):
        self.plain = self.plain.replace('policy = "fixed"', 'policy = "cost_model"\ncard = "a100-80g"').replace("[plugins.fixed]\ngear = 0\n", "")
        self.file.write_text(self.plain)
        self.engine("story", "--shape", "--load", "--gear", "5")
        self.up()
        self.wait_for_group()
        wait_until("a leader", self.leads, 15)
        load = {"arrived": 0, "finished": 0, "prompt_tokens": 0, "output_tokens": 0}

        def decided():
            # Thirty requests a look: whatever the clock makes of that, the pipeline is not the gear for it.
            load.update(arrived=load["arrived"] + 30, finished=load["finished"] + 30, prompt_tokens=load["prompt_tokens"] + 30 * 400,
                        output_tokens=load["output_tokens"] + 30 * 200)
            self.tell(load=load)
            return next((entry for entry in self.explained("story") if entry["shift"]), None)
        made = wait_until("a shift for its price", decided, 30)
        self.assertEqual((made["from"], made["rule"]), (5, "price"))
        self.assertEqual(sorted(each["gear"] for each in made["priced"]), [1, 2, 3, 4, 5, 6])
        self.assertGreater(made["inputs"]["fast"]["requests_per_s"], 0)
        self.assertIn("requests/s", self.cluster.run("gear", "explain", "story").stdout)
        self.ends_clean()

    def test_a_group_is_in_the_pool_that_its_workers_table_names(self):
        pools = '\n[[worker]]\nmodel = "echo"\nenv = "plain"\npool = "vip"\n[[gears.pool]]\nname = "vip"\ntenants = [7]\ngears = [2]\n'
        self.file.write_text(self.plain.replace("gear = 0", "gear = 4") + pools)
        self.engine("story", "--shape")
        self.up()
        def worker():
            return next((each["pid"] for each in self.cluster.status()["node"]["workers"] if each["pool"] == "vip" and each["pid"]), None)
        decided = wait_until("a decision", lambda: self.explained("story"), 15)[0]
        self.assertEqual((decided["governor"], decided["inputs"]["pool"]), ("pass", "story"))
        self.tell(pid=wait_until("the worker", worker, 30))
        self.configure("gear = 4", "gear = 2")
        def in_pool():
            return next((entry for entry in self.explained("story") if entry["inputs"]["pool"] == "vip/story"), None)
        self.assertEqual(wait_until("a decision in the pool", in_pool, 15)["governor"], "pass")
        self.ends_clean()

    def test_each_of_the_three_may_die_in_the_middle_of_a_shift(self):
        engine = self.engine()
        self.up()
        self.wait_for_group()
        term = wait_until("a leader", self.leads, 15)["term"]
        self.configure("gear = 0", "gear = 2")
        wait_until("gear 2", lambda: self.group()["gear"] == 2, 15)

        self.tell(hold=True)
        self.configure("gear = 2", "gear = 4")
        wait_until("a shift that stands still", lambda: self.tell(op="status")["shift"], 15)
        dead = {role: self.kill(role) for role in ROLES}
        for role, pid in dead.items():
            self.comes_back(role, pid)
        self.assertIsNone(engine.poll(), "the engine went on")
        later = wait_until("a leader again", self.leads, 20)
        self.assertGreater(later["term"], term)
        shifting = self.cluster.status()["executor"]["shifting"]
        self.assertEqual([(each["group"], each["step"]) for each in shifting], [("story", "asking what became of it")])
        busy = self.cluster.run("gear", "set", "story", "5", ok=False)
        self.assertIn("is shifting already", busy.stderr)
        self.tell(hold=False)
        rows = wait_until("the record is completed", lambda: [
            row for row in json.loads(self.cluster.run("gear", "history", "--json").stdout) if row["to"] == 4], 15)
        self.assertEqual((rows[0]["ok"], rows[0]["recovered"], rows[0]["from"], rows[0]["report"]["pause_ms"]), (True, True, 2, 12.5))
        self.assertEqual(self.group()["record"]["came_from"], 2)
        # Whoever led before is not obeyed: the new leader's first order makes its term known for ever.
        self.configure("gear = 4", "gear = 1")
        wait_until("gear 1", lambda: self.group()["gear"] == 1, 15)
        self.assertEqual(self.tell(op="status")["seen"][-1]["term"], later["term"])
        answer = self.order({"command": "shift", "group": "story", "gear": 2, "term": term, "origin": "scheduler", "decision": "old"})
        self.assertIn(f"term {term} is older than {later['term']}", answer)
        pid = self.kill("executor")
        self.comes_back("executor", pid)
        answer = self.order({"command": "shift", "group": "story", "gear": 2, "term": term, "origin": "scheduler", "decision": "old"})
        self.assertIn(f"term {term} is older than {later['term']}", answer)
        self.ends_clean()

    def order(self, command):
        """What the executor answers to a control frame: header (type, flags, lengths), then JSON."""
        return control(self.cluster.state / "run/executor.sock", command)

    def test_nothing_is_decided_on_stale_figures(self):
        engine = self.engine()
        self.up()
        self.wait_for_group()
        wait_until("a leader", self.leads, 15)
        self.tell(silent=True)
        wait_until("stale", lambda: self.group()["stale"], 15)
        self.configure("gear = 0", "gear = 2")
        left = wait_until("left out", lambda: [each for each in self.leads()["left_out"] if "stale" in each["why"]], 15)
        self.assertEqual(left[0]["group"], "story")
        rounds = self.leads()["rounds"]
        wait_until("more rounds", lambda: self.leads()["rounds"] > rounds + 5, 15)
        self.assertEqual(self.explained(), [])
        self.tell(silent=False)
        wait_until("gear 2", lambda: self.group()["gear"] == 2, 15)
        engine.kill()
        engine.wait()
        dead = wait_until("stale again", lambda: self.group()["stale"] and self.group(), 15)
        self.assertIn("nobody answers", dead["problem"])
        self.assertIn("stale: nobody answers", self.cluster.run("gear", "show").stdout)
        self.ends_clean()


def control(path, command):
    """One control frame, 64 bytes of header and its JSON (docs/protocol.md), and the text of its answer."""
    text = json.dumps(command).encode()
    header = struct.pack("<BBBBII", 60, 0, 0, 0, len(text), 0).ljust(64, b"\0")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(header + text)
        return connection.recv(65536)[64:].decode()


if __name__ == "__main__":
    unittest.main()
