"""Ranks and drivers that die or stop, at random and at named points: answers go on, whole, and the group ends in one plan."""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from support import elastic

KILLS = 20 if elastic.LONG else 2
# Where a driver dies, and the gear that is recorded then. The short form leaves to fault.gear_kills what that goes through as well.
POINTS = (("shift.price", 1), ("shift.prepare", 1), ("shift.record", 1), ("shift.switch", 2), ("shift.release", 2))
POINTS = POINTS if elastic.LONG else POINTS[2:4]


def state_of(pid):
    """The letter of /proc: R, S, T (stopped), Z ...; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = elastic.golden()

    def start(self, environment=None, **options):
        """The variable is for the ranks of the first start only, so that what replaces them does not stop as well."""
        os.environ.update(environment or {})
        try:
            driver = elastic.start(elastic.DATA / "stories260K.bin", **options)
        finally:
            for name in environment or {}:
                del os.environ[name]
        self.addCleanup(driver.close)
        return driver

    def pid(self, driver, rank):
        return driver.ask({"op": "status"}, 60)["ranks"][rank]["pid"]

    def check(self, streams, limit=120):
        found = elastic.Differences(self)
        for line, stream in zip(self.lines, streams):
            found.compare(repr(line["prompt"]), stream.all(limit), line["greedy_ids"])
        found.check()

    def submit_all(self, driver):
        return [driver.submit(elastic.request(line)) for line in self.lines]

    def assert_whole(self, driver):
        """Serving, counted right, and the next shift works."""
        self.assertTrue(driver.ask({"op": "shift", "gear": 2}, 120)["ok"])
        self.check(self.submit_all(driver))
        figures = driver.ask({"op": "figures"}, 60)["ranks"]
        self.assertEqual([rank["free_units"] for rank in figures], [rank["units"] for rank in figures])
        self.assertEqual(sum(rank["weight_bytes"] for rank in figures),
                         sum(role.weight_bytes() for role in driver.group.roles.values()))

    def test_ranks_killed_at_random(self):
        chance = random.Random(3)
        driver = self.start(most_deaths=1000)
        for number in range(KILLS):
            gear = chance.randint(1, 6)
            self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
            streams = self.submit_all(driver)
            first = []
            wanted = chance.randint(1, 60)
            while len(first) < wanted:
                first += streams[0].take(60)[0]
            os.kill(self.pid(driver, chance.randrange(4)), signal.SIGKILL)
            rest = streams[0].all(120)
            # Each token once, in order, over the death: what was handed on is not handed on again.
            self.assertEqual([token for token, _ in first + rest], self.lines[0]["greedy_ids"], f"kill {number} in gear {gear}")
            found = elastic.Differences(self)
            for line, stream in zip(self.lines[1:], streams[1:]):
                found.compare(f"kill {number} in gear {gear} {line['prompt']!r}", stream.all(180), line["greedy_ids"])
            found.check()
        self.assert_whole(driver)

    def test_ranks_killed_at_random_moments_of_shifts(self):
        """Whole in one gear, the recorded one, whatever the moment; every answer once and golden."""
        chance = random.Random(11)
        with tempfile.TemporaryDirectory(prefix="gearbox-elastic-") as state:
            driver = self.start(most_deaths=1000, state=state)
            outcomes = {"done": 0, "recovered": 0, "refused": 0}
            for number in range(2 * KILLS):
                gear = chance.randint(1, 6)
                streams = self.submit_all(driver)
                driver.ask({"op": "status"}, 60)
                answers = []
                victim = self.pid(driver, chance.randrange(4))
                killer = threading.Timer(chance.random() * 0.25, os.kill, (victim, signal.SIGKILL))
                killer.start()
                driver._post(lambda: driver.command({"op": "shift", "gear": gear}, answers.append))
                self.check(streams)
                killer.join()
                elastic.wait_for(lambda: answers and driver.ask({"op": "status"}, 60)["phase"] == "running")
                answer = answers[0]
                outcomes["recovered" if answer.get("recovered") else "done" if answer["ok"] else "refused"] += 1
                with open(os.path.join(state, "gear.json"), encoding="utf-8") if driver.record.plan else open(os.devnull) as file:
                    recorded = json.loads(file.read() or "null")
                status = driver.ask({"op": "status"}, 60)
                if answer["ok"]:
                    self.assertEqual(status["gear"], gear)
                if recorded is not None:
                    self.assertEqual(status["plan"], recorded["plan"])
            print(f"shifts in which a rank was killed: {outcomes}")
            elastic.wait_for(lambda: driver.ask({"op": "status"}, 60)["phase"] == "running")
            self.assert_whole(driver)

    def test_a_rank_killed_while_it_is_asked_for_its_price(self):
        driver = self.start()
        streams = self.submit_all(driver)
        answers = []
        victim = self.pid(driver, 2)
        os.kill(victim, signal.SIGSTOP)  # it will not answer before it dies
        driver._post(lambda: driver.command({"op": "shift", "gear": 4}, answers.append))
        os.kill(victim, signal.SIGKILL)
        self.check(streams)
        self.assertFalse(answers[0]["ok"])
        self.assertEqual(driver.ask({"op": "status"}, 60)["gear"], 1)
        self.assert_whole(driver)

    def killed_at(self, point, rank, gear):
        driver = self.start({"GEARBOX_STOP_AT": f"rank{rank}.{point}"})
        streams = self.submit_all(driver)
        victim = self.pid(driver, rank)
        answers = []
        driver._post(lambda: driver.command({"op": "shift", "gear": gear, "term": 3}, answers.append))
        elastic.wait_for(lambda: state_of(victim) == "T")
        os.kill(victim, signal.SIGKILL)
        self.check(streams)
        self.assertEqual((answers[0]["ok"], driver.ask({"op": "status"}, 60)["gear"]), (True, gear))
        self.assert_whole(driver)

    def test_a_rank_killed_before_it_copies(self):
        self.killed_at("shift.copy", 1, 3)

    def test_a_rank_killed_before_it_releases(self):
        self.killed_at("shift.release", 2, 6)

    def test_a_spare_takes_the_place_of_a_dead_rank_and_is_replaced_itself(self):
        driver = self.start(ranks=2, gear=2)
        elastic.wait_for(lambda: driver.group.spares)
        spare = driver.group.spares[0].pid
        streams = self.submit_all(driver)
        os.kill(self.pid(driver, 1), signal.SIGKILL)
        self.check(streams)
        self.assertEqual(self.pid(driver, 1), spare)
        elastic.wait_for(lambda: driver.group.spares)
        os.kill(driver.group.spares[0].pid, signal.SIGKILL)  # one that is dead before it is needed is no rank
        elastic.wait_for(lambda: not driver.group.spares[0].lives)
        os.kill(self.pid(driver, 0), signal.SIGKILL)
        self.check(self.submit_all(driver))

    def test_a_rank_that_hangs_is_replaced(self):
        driver = self.start(gear=3, step_limit_s=0.5)
        streams = self.submit_all(driver)
        first, _ = streams[0].take(60)
        victim = self.pid(driver, 1)
        os.kill(victim, signal.SIGSTOP)
        self.assertEqual([token for token, _ in first + streams[0].all(120)], self.lines[0]["greedy_ids"])
        found = elastic.Differences(self)
        for line, stream in zip(self.lines[1:], streams[1:]):
            found.compare(repr(line["prompt"]), stream.all(180), line["greedy_ids"])
        found.check()
        self.assertNotEqual(self.pid(driver, 1), victim)
        self.assert_whole(driver)

    def test_ranks_that_die_again_and_again_end_the_group_with_a_reason(self):
        driver = self.start(most_deaths=1)
        stream = driver.submit(elastic.request(self.lines[0]))
        os.kill(self.pid(driver, 0), signal.SIGKILL)
        os.kill(self.pid(driver, 1), signal.SIGKILL)
        with self.assertRaisesRegex(RuntimeError, r"rank \d ended with code -9; 2 ends within a minute"):
            stream.all(180)
        with self.assertRaisesRegex(Exception, "ends within a minute"):
            driver.submit(elastic.request(self.lines[0]))


class FullCache(unittest.TestCase):
    def test_who_gives_up_its_cache_goes_on_later_as_if_nothing_had_been(self):
        lines = elastic.golden()
        # 5 layers, 4 kv heads: 20 units a block; seven sequences of seven blocks need 980 units, the ranks together have 720.
        unit = 2 * 16 * 8 * 4
        driver = elastic.start(elastic.DATA / "stories260K.bin", ranks=2, gear=2, cache_mb=360 * unit / (1 << 20))
        try:
            found = elastic.Differences(self)
            streams = [driver.submit(elastic.request(line)) for line in lines]
            driver.ask({"op": "shift", "gear": 4}, 60)  # whether it finds room or not
            for line, stream in zip(lines, streams):
                found.compare(repr(line["prompt"]), stream.all(180), line["greedy_ids"])
            found.check()
            status = driver.ask({"op": "status"}, 60)
            self.assertGreater(status["evicted"], 0)
            self.assertEqual(driver.group.used, [0, 0])
        finally:
            driver.close()

    def test_what_never_fits_is_told_so(self):
        from gearbox_elastic.sequences import Request
        lines = elastic.golden()
        unit = 2 * 16 * 8 * 4
        driver = elastic.start(elastic.DATA / "stories260K.bin", ranks=1, gear=1, cache_mb=45 * unit / (1 << 20))
        try:
            with self.assertRaisesRegex(RuntimeError, "the cache of a rank cannot hold 60 positions"):
                driver.submit(Request([1] * 60)).all(30)
            with self.assertRaisesRegex(RuntimeError, "the cache of a rank cannot hold 33 positions"):
                driver.submit(Request(lines[0]["prompt_ids"], max_tokens=200)).all(30)
            self.assertEqual(len(driver.submit(Request([1], max_tokens=10)).all(30)), 10)
        finally:
            driver.close()


class DriverDies(unittest.TestCase):
    """kill -9 of the driver at each point of a shift: the next one begins whole, in the plan that was recorded."""

    @classmethod
    def setUpClass(cls):
        cls.line = elastic.golden()[1]

    def start(self, folder, stop_at=""):
        options = {"checkpoint": str(elastic.DATA / "stories260K.bin"), "ranks": 2, "gear": 1, "cache_mb": 8, "state": folder,
                   "control": os.path.join(folder, "control.sock")}
        environment = dict(os.environ, GEARBOX_STOP_AT=stop_at)
        driver = subprocess.Popen([sys.executable, "-B", "-m", "support.elastic_driver", json.dumps(options)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.addCleanup(self.end, driver)
        self.assertEqual(driver.stdout.readline(), "ready\n")
        return driver

    @staticmethod
    def end(driver):
        driver.kill()
        driver.wait()
        driver.stdin.close()
        driver.stdout.close()

    def ask(self, folder, command, answer=True):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(os.path.join(folder, "control.sock"))
            sock.sendall(json.dumps(command).encode() + b"\n")
            return json.loads(sock.makefile("rb").readline()) if answer else None

    def generated(self, driver):
        driver.stdin.write(json.dumps({"prompt": self.line["prompt_ids"], "max_tokens": 96}) + "\n")
        driver.stdin.flush()
        return json.loads(driver.stdout.readline())

    def test_at_each_point(self):
        for point, gear in POINTS:
            with self.subTest(point), tempfile.TemporaryDirectory(prefix="gearbox-elastic-") as folder:
                driver = self.start(folder, point)
                ranks = [rank["pid"] for rank in self.ask(folder, {"op": "status"})["ranks"]]
                self.ask(folder, {"op": "shift", "gear": 2, "term": 4, "id": 1}, answer=False)
                elastic.wait_for(lambda: state_of(driver.pid) == "T")
                self.end(driver)
                elastic.wait_for(lambda: all(state_of(pid) in ("", "Z") for pid in ranks))  # nothing is left over
                driver = self.start(folder)
                status = self.ask(folder, {"op": "status"})
                self.assertEqual((status["gear"], status["term"]), (gear, 4))
                self.assertEqual(self.generated(driver), self.line["greedy_ids"])
                self.assertTrue(self.ask(folder, {"op": "shift", "gear": 4, "term": 4})["ok"])
                self.end(driver)

    def test_the_control_socket_answers_what_is_wrong(self):
        with tempfile.TemporaryDirectory(prefix="gearbox-elastic-") as folder:
            self.start(folder)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(60)
                sock.connect(os.path.join(folder, "control.sock"))
                answers = sock.makefile("rb")
                for line, why in ((b"nonsense", "no JSON"), (b"[]", "no object"), (b"{}", "no operation None"),
                                  (b'{"op":"shift","gear":9}', "none of 1 to 6"), (b'{"op":"shift","gear":6}', "4 or 8"),
                                  (b'{"op":"shift","plan":{"replicas":[]}}', "no list of 1"), (b'{"op":"shift","gear":2,"term":-1}', "term")):
                    sock.sendall(line + b"\n")
                    answer = json.loads(answers.readline())
                    self.assertFalse(answer["ok"])
                    self.assertIn(why, answer["why"])
                sock.sendall(b'{"op":"history","id":5}\n')
                self.assertEqual(json.loads(answers.readline()), {"ok": True, "history": [], "id": 5})
                answers.close()
            self.assertEqual(os.stat(os.path.join(folder, "control.sock")).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
