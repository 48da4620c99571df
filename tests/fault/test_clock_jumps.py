"""The host's wall clock jumps by years, to and fro, while requests run: nothing ends, nobody is sent away, no time is absurd.

Every process of the installation is given its wall clock by skewed_clock.c, and that one is told by a file.
"""
import json
import os
import pathlib
import re
import struct
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("integration", "support")]
from cluster import Cluster, jpeg, wait_until

LIBRARY = os.environ["GEARBOX_SKEWED_CLOCK"]
YEARS = 3 * 365 * 86400
JUMPS = (YEARS, -YEARS, 0, 90, -90)  # seconds beside the true time
HOUR_MS = 3_600_000


def numbers(value, name=""):
    """Every (name, number) of a JSON value, with its key."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from numbers(each, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


class ClockJumps(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.addCleanup(self.cluster.__exit__)
        self.clock = self.cluster.scratch / "clock"
        self.set_clock(0)
        self.cluster.start({"LD_PRELOAD": LIBRARY, "GEARBOX_SKEW_FILE": str(self.clock)})
        self.cluster.wait_ready()
        self.cluster.add_user()

    def set_clock(self, seconds):
        with open(self.clock, "r+b" if self.clock.exists() else "w+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", seconds))

    def accepted(self):
        return self.cluster.status()["node"]["counters"]["accepted"]

    def test_nothing_ends_or_waits_when_the_clock_is_set(self):
        pictures = []
        for number in range(4):
            pictures.append(self.cluster.scratch / f"{number}.jpg")
            pictures[-1].write_bytes(jpeg(20_000, "sleep 0.4"))
        keys = self.cluster.enrol()
        pids = {role: self.cluster.record(role)["pid"] for role in ("central", "node")}
        seen = []
        for jump in JUMPS:
            before = self.accepted()
            sender = self.cluster.start_send(pictures, keys=keys)
            try:
                wait_until("a request", lambda: self.accepted() > before, 30, 0.02)
                self.set_clock(jump)
                self.cluster.enrol(device=f"after-{jump}")  # passwords and new keys, too
                out, err = sender.communicate(timeout=60)
            except BaseException:
                sender.kill()
                sender.communicate()
                raise
            self.assertEqual(sender.returncode, 0, err + self.cluster.log())
            answers = [json.loads(line) for line in out.splitlines()]
            self.assertEqual([answer["ok"] for answer in answers], [True] * len(pictures), out)
            self.assertRegex(self.cluster.log(), rf"{time.localtime(time.time() + jump).tm_year}-.*enrolled user=anna device=after-{jump} ")
            seen.append(self.cluster.status())
        status = seen[-1]
        self.assertEqual({role: self.cluster.record(role)["pid"] for role in pids}, pids, "nobody was started again")
        log = self.cluster.log()
        self.assertEqual(len({year for year in re.findall(r"\[(\d{4})-", log)}), 3, "it is the log that tells the jumps")
        for words in ("node_disconnected", "worker ended", "frozen", "is started again"):
            self.assertNotIn(words, log)
        for each in seen:
            for name, value in numbers(each):
                if name.endswith("_ms") and "unix" not in name:
                    self.assertTrue(0 <= value <= HOUR_MS * 24 * 400, f"{name} is {value}")
        self.assertLess(status["node"]["uptime_ms"], HOUR_MS)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])


if __name__ == "__main__":
    unittest.main()
