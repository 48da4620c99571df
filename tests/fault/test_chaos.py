"""Random kills under load, short and long; and that the chaos run's own book sees what it is there to see."""
import collections
import contextlib
import os
import sqlite3
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import chaos  # noqa: E402
import chaos_left  # noqa: E402
import chaos_load  # noqa: E402


class Book(unittest.TestCase):
    """A run that finds nothing is worth as much as its book."""

    def setUp(self):
        self.book = chaos_load.Book()

    def request(self, expected="right"):
        return self.book.open(chaos_load.Request("picture", "1.jpg", expected))

    def faults(self):
        counts, reasons, _ = self.book.counts()
        return {name: counts[name] for name in ("lost", "doubled", "wrong") if counts[name]}, counts, reasons

    def test_an_answer_and_a_failure_are_no_faults(self):
        self.book.end(self.request(), answer="right")
        self.book.end(self.request(), "quarantined")
        found, counts, reasons = self.faults()
        self.assertEqual((found, counts["submitted"], counts["answered"], counts["failed"]), ({}, 2, 1, 1))
        self.assertEqual(reasons, {"picture: quarantined": 1})

    def test_no_end_and_a_sender_that_gave_up_are_lost(self):
        self.request()
        self.book.end(self.request(), "timeout")
        self.book.end(self.request(), "closed")
        self.assertEqual(self.faults()[0], {"lost": 3})

    def test_who_tries_once_may_be_told_that_nobody_is_there(self):
        self.book.end(self.book.open(chaos_load.Request("local", "1.jpg", "right")), "unreachable")
        self.assertEqual(self.faults()[0], {})

    def test_a_second_end_is_doubled(self):
        request = self.request()
        self.book.end(request, answer="right")
        self.book.end(request, answer="right")
        self.assertEqual(self.faults()[0], {"doubled": 1})

    def test_a_part_that_comes_twice_is_doubled_and_one_that_is_missing_wrong(self):
        for parts in ([0, 1, 1], [0, 2]):
            request = self.request(b"abc")
            request.parts, request.said = parts, b"abc"
            self.book.end(request, answer=b"abc")
        self.assertEqual(self.faults()[0], {"doubled": 1, "wrong": 1})

    def test_another_answer_is_wrong_and_so_are_other_parts_before_a_failure(self):
        self.book.end(self.request(), answer="left")
        request = self.request(b"abc")
        request.parts, request.said = [0], b"ac"
        self.book.end(request, "stream_broken")
        self.assertEqual(self.faults()[0], {"wrong": 2})

    def test_a_run_long_after_the_answer_is_seen(self):
        request = self.request()
        request.token = "abcd"
        self.book.end(request, answer="right")
        with tempfile.NamedTemporaryFile("w") as ledger:
            for after in (-1, 1, 9):
                ledger.write(f"{time.monotonic_ns() + after * 1_000_000_000} abcd\n")
            ledger.flush()
            runs, late = chaos_left.late_runs(self.book, Path(ledger.name), 6)
        self.assertEqual((runs, len(late)), (3, 1))

    def test_a_request_without_an_end_is_owed_unless_it_is_a_stream_that_was_heard(self):
        heard = self.book.open(chaos_load.Request("story", "1.npy", b""))
        heard.id = "aa"
        self.book.end(heard, answer=b"")
        self.book.open(chaos_load.Request("story", "2.npy", b"")).id = "bb"
        picture = self.request()
        picture.id = "cc"
        self.book.end(picture, answer="right")
        with tempfile.TemporaryDirectory() as folder:
            site = types.SimpleNamespace(state=Path(folder))
            (site.state / "journal").mkdir()
            with contextlib.closing(sqlite3.connect(site.state / "journal/journal.db")) as journal:
                journal.execute("CREATE TABLE requests(request BLOB, settled INTEGER)")
                journal.executemany("INSERT INTO requests VALUES(?, ?)", [(b"\xaa", 0), (b"\xbb", 0), (b"\xcc", 0), (b"\xdd", 1)])
                journal.commit()
            self.assertEqual(chaos_left.without_end(site, self.book), (["bb", "cc"], 1))

    def test_an_answer_beside_a_failure_in_the_store_is_doubled_but_for_a_stream_that_was_not_heard(self):
        for number, kind in enumerate(("picture", "story", "story")):
            request = self.book.open(chaos_load.Request(kind, f"{number}.jpg", "right"))
            request.id = f"a{number}"
            self.book.end(request, answer="right")
        with tempfile.TemporaryDirectory() as folder:
            site = types.SimpleNamespace(state=Path(folder))
            (site.state / "store").mkdir()
            with contextlib.closing(sqlite3.connect(site.state / "store/index.db")) as store:
                store.execute("CREATE TABLE results(request TEXT, ok INTEGER, error TEXT)")
                store.executemany("INSERT INTO results VALUES(?, ?, ?)", [
                    ("a0", 0, "deadline_exceeded: late"), ("a1", 0, "deadline_exceeded: late"), ("a2", 0, "model_failed: it raised"),
                    ("ff", 0, "of another device")])
                store.commit()
            lines, unheard = chaos_left.two_ends(site, self.book)
        self.assertEqual((len(lines), unheard), (2, 1))

    def test_more_descriptors_are_seen_by_their_kind(self):
        before = {"node": collections.Counter({"socket": 3, "anon_inode": 2})}
        after = {"node": collections.Counter({"socket": 4, "anon_inode": 1})}
        self.assertEqual(chaos_left.grown(before, after), ["descriptors: node holds 1 more of socket"])


class Kills(unittest.TestCase):
    def run_chaos(self, seconds, seed, every, most=1_000_000):
        build = os.environ.get("GEARBOX_BUILD", chaos.chaos_site.ROOT / "build/dev")
        figures, faults, strikes, log = chaos.chaos(build, seconds, seed, every, most, lambda text: print(text, flush=True))
        print(chaos.table(figures), flush=True)
        self.assertEqual(faults, [], "\n".join([*strikes, log[-100_000:]]))
        return figures


class Short(Kills):
    def test_nothing_is_lost_doubled_wrong_or_leaked(self):
        figures = self.run_chaos(seconds=15, seed=5, every=0.6)
        self.assertEqual(set(figures["chaos.kills_by_role"]) | set(figures["chaos.stops_by_role"]), {"worker", "node", "central"})
        self.assertGreater(figures["chaos.kills"], 8)
        self.assertGreater(figures["chaos.answered"], 100)


class Long(Kills):
    def test_a_thousand_kills(self):
        figures = self.run_chaos(seconds=2400, seed=7, every=0.8, most=1000)
        self.assertEqual(figures["chaos.kills"], 1000)
        self.assertGreater(figures["chaos.kills_by_role"]["node"], 10)
        self.assertGreater(figures["chaos.kills_by_role"]["central"], 10)


if __name__ == "__main__":
    unittest.main()
