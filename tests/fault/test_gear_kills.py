"""The kill matrix of shifts: each process killed at each stop point of a shift, under load. Afterwards the group is whole in one gear, the
recorded one, the next shift works, each request has been answered once and right, and nothing is left over.

Rows are points (gearbox_elastic/stop_point.py), columns those who die (VICTIMS): the worker, a rank, the node; and executor, scheduler and observer, with shifts that
the executor orders. The model is repeatable, so every answer goes on, whoever dies: each part comes once, and the text is whole.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/integration"), str(ROOT / "worker_shim/python")]
import test_elastic  # noqa: E402
from cluster import Cluster, wait_until  # noqa: E402
from gearbox_elastic.stop_point import NAMES  # noqa: E402

POINTS = [(point, process) for point, processes in NAMES.items() for process in processes]
BEFORE, AFTER = "before", "after"   # the gear that the group has to end in: the one before the shift or the one after it
ENDS = {  # point → where it ends when (the worker, a rank) dies there: from the moment the record is durable there is no way back
    "shift.price": (BEFORE, BEFORE), "shift.prepare": (BEFORE, BEFORE), "shift.record": (BEFORE, AFTER), "shift.switch": (AFTER, AFTER),
    "shift.copy": (AFTER, AFTER), "shift.release": (AFTER, AFTER),
}
CONTROL = ("executor", "scheduler", "observer")
CONTROL_ENDS = {point: AFTER for point in ENDS}  # the engine needs none of them for a shift that it was told to do ...
EXECUTOR_ENDS = {**CONTROL_ENDS, "shift.price": BEFORE}  # ... and the executor asks for the price first
GEARS = """
[gears]
enabled = true
policy = "fixed"
interval_ms = 500

[plugins.fixed]
gear = 0                             # nothing is decided: shifts are ordered by hand
"""
TOKENS = 300
WHOLE, STREAMED = 3, 2


def state_of(pid):
    """The letter of /proc: R, S, T (stopped), Z ...; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def memory_files(pid):
    """How many descriptors of anonymous memory a process has."""
    found = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            found += "memfd:" in os.readlink(entry.path)
        except FileNotFoundError:
            continue
    return found


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return sorted(found)


def configs(folder, trained):
    """The example, with the tokens in its results, and with those who decide on gears."""
    test_elastic.configs(folder, trained)
    file = folder / "gearbox.toml"
    file.write_text(file.read_text() + GEARS)
    file = folder / "tasks/tell.toml"
    file.write_text(file.read_text().rstrip() + '\ntokens = "tell.tokens"\n')


class Site(unittest.TestCase):
    """An installation with one group of four ranks; each test kills in it and leaves it whole."""

    @classmethod
    def setUpClass(cls):
        if cls is Site:
            raise unittest.SkipTest("the base of the others")
        if not test_elastic.has_torch():
            print("NOT RUN: /usr/bin/python3 has no PyTorch", flush=True)
            raise unittest.SkipTest("no PyTorch")
        golden = test_elastic.DATA / "golden.jsonl"
        lines = [json.loads(line) for line in golden.read_text().splitlines()][1:1 + WHOLE + STREAMED] if golden.exists() else None
        if lines is None:
            print(f"NOT RUN: golden texts: {golden} is not here; a random model against itself instead", flush=True)
        cls.site = Cluster(configs=configs, trained=lines is not None)
        cls.addClassCleanup(cls.site.__exit__)
        cls.stop_file = cls.site.scratch / "stop-at"
        cls.site.start({"GEARBOX_STATE": str(cls.site.state), "GEARBOX_STOP_AT": f"@{cls.stop_file}"})
        cls.site.wait_ready(180)
        wait_until("those who decide on gears", lambda: all(cls.role(role) for role in CONTROL), 60)
        cls.site.add_user()
        cls.central_at = cls.site.central()
        cls.keys = [cls.site.enrol(device=f"device-{number}") for number in range(1 + STREAMED)]
        cls.files = []
        for number in range(WHOLE + STREAMED):
            prompt = lines[number]["prompt"] if lines else f"prompt {number}"
            asked = json.dumps({"prompt": prompt, "max_tokens": TOKENS, "ignore_end": True})
            cls.files.append(cls.site.scratch / f"prompt-{number}.npy")
            np.save(cls.files[-1], np.frombuffer(asked.encode(), np.uint8))
        out, err = cls.sender(cls.keys[0], cls.files).communicate(timeout=120)
        answers = {line["file"]: line for line in map(json.loads, out.splitlines())}
        assert len(answers) == len(cls.files) and all(line["ok"] for line in answers.values()), out + err
        cls.expected = [cls.tokens_of(answers[str(file)]) for file in cls.files]
        for tokens, line in zip(cls.expected, lines or []):
            assert tokens[:len(line["greedy_ids"])] == line["greedy_ids"], line["prompt"]
        cls.shift_to(1)
        cls.shift_to(2)  # so that there is a record
        cls.memory_files = memory_files(cls.driver())

    @classmethod
    def tearDownClass(cls):
        ranks = {*cls.rank_pids(), *children(cls.driver())}
        folder = cls.site.state / "elastic/stories"
        try:
            assert cls.site.stop() == 0, cls.site.log()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the stop takes too long\n{cls.site.log()}") from None
        left = cls.site.leftovers() + [f"rank {pid}" for pid in ranks if state_of(pid)]
        left += [f"file {file.name}" for file in folder.iterdir() if file.name not in ("gear.json", "lock", "random.bin")]
        assert left == [], left

    @staticmethod
    def tokens_of(line):
        return line["outputs"]["tokens"]["data"]

    @classmethod
    def sender(cls, keys, files, *more):
        words = [*cls.site.client_words("send", "anna", keys, cls.central_at), "--task", "tell", "--tensor", "prompt", "--json", "--quiet",
                 "--parallel", len(files), "--timeout-ms", 120000, *more, *files]
        return subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @classmethod
    def open_control(cls):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        try:
            sock.connect(str(cls.site.state / "run/groups/stories.sock"))
        except OSError:
            sock.close()
            raise
        return sock

    @classmethod
    def ask(cls, **command):
        with cls.open_control() as sock:
            sock.sendall(json.dumps(command).encode() + b"\n")
            with sock.makefile("rb") as answers:
                return json.loads(answers.readline())

    @classmethod
    def status(cls):
        """None while nobody serves."""
        try:
            return cls.ask(op="status")
        except (OSError, ValueError):
            return None

    @classmethod
    def running(cls):
        return wait_until("the group runs", lambda: (s := cls.status()) and s["phase"] == "running" and s["shift"] is None and s, 120, 0.05)

    @classmethod
    def shift_to(cls, gear):
        answer = cls.ask(op="shift", gear=gear)
        assert answer["ok"], answer

    @classmethod
    def driver(cls):
        return cls.site.status()["node"]["workers"][0]["pid"]

    @classmethod
    def role(cls, role):
        """Its pid, once it is ready."""
        status = cls.site.status().get(role)
        return status["pid"] if status and status["ready"] else None

    @classmethod
    def rank_pids(cls):
        return [rank["pid"] for rank in cls.running()["ranks"]]

    # -- who dies; each gets the pids of driver and ranks, and who has stopped at the point

    def kill_worker(self, driver, ranks, stopped):
        its_own = children(driver)  # a spare, too
        self.assertLessEqual(set(ranks), set(its_own))
        os.kill(driver, signal.SIGKILL)
        wait_until("its ranks end with it", lambda: all(state_of(pid) in ("", "Z") for pid in its_own), 30, 0.02)
        wait_until("another worker", lambda: (node := self.site.status()["node"]) and (worker := node["workers"][0])["pid"] != driver and
                   worker["state"] == "ready", 180, 0.1)

    def kill_rank(self, driver, ranks, stopped):
        os.kill(stopped if stopped in ranks else ranks[2], signal.SIGKILL)
        if stopped == driver:
            os.kill(driver, signal.SIGCONT)

    def kill_node(self, driver, ranks, stopped):
        node = self.site.record("node")["pid"]
        os.kill(node, signal.SIGKILL)
        os.kill(stopped, signal.SIGCONT)
        wait_until("another node", lambda: (s := self.site.status())["node"] and s["node"]["ready"] and self.site.record("node")["pid"] != node,
                   180, 0.1)

    def kill_control(self, role, driver, stopped):
        pid = self.role(role)
        os.kill(pid, signal.SIGKILL)
        wait_until("its end", lambda: state_of(pid) in ("", "Z"), 10, 0.005)
        os.kill(stopped, signal.SIGCONT)
        wait_until(f"another {role}", lambda: (now := self.role(role)) and now != pid, 60, 0.05)

    def kill_executor(self, driver, ranks, stopped):
        self.kill_control("executor", driver, stopped)

    def kill_scheduler(self, driver, ranks, stopped):
        self.kill_control("scheduler", driver, stopped)

    def kill_observer(self, driver, ranks, stopped):
        self.kill_control("observer", driver, stopped)

    VICTIMS = {"worker": kill_worker, "rank": kill_rank, "node": kill_node, "executor": kill_executor, "scheduler": kill_scheduler,
               "observer": kill_observer}

    @contextlib.contextmanager
    def ordered(self, gear, victim):
        """A shift is under way: by the driver's own socket, or by the executor where one of those is to die. Yields the command, or None."""
        if victim not in CONTROL:
            with self.open_control() as control:
                control.sendall(json.dumps({"op": "shift", "gear": gear}).encode() + b"\n")
                yield None
            return
        words = [self.site.broker, "gear", "set", "stories", gear, "--state", self.site.state]
        command = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield command
        finally:
            command.kill()
            command.communicate()

    def check_order(self, command, point, victim, old, new):
        """What those who decide know of it afterwards."""
        out, err = command.communicate(timeout=60)
        if victim == "executor" and EXECUTOR_ENDS[point] == BEFORE:  # it had written nothing down yet
            self.assertNotEqual(command.returncode, 0, out)
            return
        if victim != "executor" or command.returncode == 0:  # the next executor may be there in time to tell of it
            self.assertEqual(command.returncode, 0, out + err)
            self.assertIn(f"gear {old} → {new}", out)
        rows = wait_until("the record is completed", lambda: [
            row for row in json.loads(self.site.run("gear", "history", "stories", "--json").stdout)[:1] if row["to"] == new], 60)
        self.assertEqual((rows[0]["from"], rows[0]["ok"], rows[0]["recovered"]), (old, True, victim == "executor"), rows)

    def cell(self, point, process, victim):
        with self.subTest(point=point, at=process, dies=victim):
            before = self.running()
            old, new = before["gear"], before["gear"] % 6 + 1
            driver, ranks = self.driver(), [rank["pid"] for rank in before["ranks"]]
            whole = self.sender(self.keys[0], self.files[:WHOLE])
            streams = [self.sender(keys, [file], "--stream") for keys, file in zip(self.keys[1:], self.files[WHOLE:])]
            try:
                wait_until("tokens", lambda: self.ask(op="status")["tokens"] > before["tokens"] + 60, 60, 0.01)
                named = self.stop_file.with_suffix(".new")
                named.write_text(point if process == "driver" else f"rank1.{point}")
                named.rename(self.stop_file)
                with self.ordered(new, victim) as command:
                    stops = driver if process == "driver" else ranks[1]
                    wait_until(f"{point} is reached", lambda: state_of(stops) == "T", 30, 0.005)
                    self.VICTIMS[victim](self, driver, ranks, stops)
                    if command is not None:
                        self.check_order(command, point, victim, old, new)
                self.check_whole(whole)
                for stream, expected in zip(streams, self.expected[WHOLE:]):
                    self.check_stream(stream, expected)
            finally:
                self.stop_file.unlink(missing_ok=True)
                for pid in (driver, *ranks):
                    if state_of(pid) == "T":  # a cell that has failed leaves nobody standing still
                        os.kill(pid, signal.SIGCONT)
                for sender in (whole, *streams):
                    sender.kill()
                    sender.communicate()
            self.check_group(old, new, {"worker": ENDS[point][0], "rank": ENDS[point][1], "executor": EXECUTOR_ENDS[point],
                                        "scheduler": CONTROL_ENDS[point], "observer": CONTROL_ENDS[point]}.get(victim))

    def check_whole(self, sender):
        out, err = sender.communicate(timeout=180)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(sorted(line["file"] for line in lines), sorted(map(str, self.files[:WHOLE])), err)
        for line in lines:
            self.assertTrue(line["ok"], line)
            self.assertEqual(self.tokens_of(line), self.expected[self.files.index(Path(line["file"]))])

    def check_stream(self, sender, expected):
        out, err = sender.communicate(timeout=180)
        lines = [json.loads(line) for line in out.splitlines()]
        parts, last = lines[:-1], lines[-1]
        self.assertEqual([part["part"] for part in parts], list(range(len(parts))), err)  # each once
        tokens = [token for part in parts for token in self.tokens_of(part)]
        self.assertTrue(last["ok"], last)
        self.assertEqual(tokens, expected)

    def check_group(self, old, new, end):
        status = self.running()
        recorded = json.loads((self.site.state / "elastic/stories/gear.json").read_text())
        self.assertEqual(status["plan"], recorded["plan"])
        self.assertIn(status["gear"], (old, new))
        if end is not None:
            self.assertEqual(status["gear"], {BEFORE: old, AFTER: new}[end])
        self.shift_to(status["gear"] % 6 + 1)
        figures = self.ask(op="figures")["ranks"]
        self.assertEqual([rank["free_units"] for rank in figures], [rank["units"] for rank in figures])
        driver = self.driver()
        ranks, all_of_it = set(self.rank_pids()), set(children(driver))
        self.assertLessEqual(ranks, all_of_it)
        self.assertLessEqual(len(all_of_it - ranks), 1)  # a spare
        self.assertEqual(memory_files(driver), self.memory_files)


class GearDeaths(Site):
    def test_a_rank_dies_at_each_point(self):
        for point, process in POINTS:
            self.cell(point, process, "rank")

    def test_the_worker_dies_at_the_switch(self):
        self.cell("shift.switch", "driver", "worker")

    def test_the_node_dies_while_the_record_is_written(self):
        self.cell("shift.record", "driver", "node")


    def test_those_who_decide_die_during_a_shift(self):
        for point, process, role in (("shift.price", "driver", "executor"), ("shift.prepare", "driver", "observer"),
                                     ("shift.copy", "rank", "scheduler"), ("shift.record", "driver", "executor")):
            self.cell(point, process, role)


class GearDeathsLong(Site):
    def test_those_who_decide_die_at_each_point(self):
        for point, process in POINTS:
            for role in CONTROL:
                self.cell(point, process, role)

    def test_the_worker_dies_at_each_point(self):
        for point, process in POINTS:
            self.cell(point, process, "worker")

    def test_the_node_dies_at_each_point(self):
        for point, process in POINTS:
            self.cell(point, process, "node")


class GearPoints(unittest.TestCase):
    def test_every_point_has_a_row_and_is_in_the_source(self):
        self.assertEqual(set(ENDS), set(NAMES))
        source = "".join(file.read_text() for file in (ROOT / "worker_shim/python/gearbox_elastic").glob("*.py"))
        for point, process in POINTS:
            self.assertIn(f'stop_point("{point}"' + (")" if process == "driver" else ", self.rank)"), source)


if __name__ == "__main__":
    unittest.main()
