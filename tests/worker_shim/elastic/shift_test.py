"""Shifts while sequences run: the tokens stay the same, nobody is refused, and a shift that does not come about changes nothing."""
import os
import random
import signal
import tempfile
import threading
import unittest

from support import elastic

STREAMS = 32
SHIFTS = 200 if elastic.LONG else 40


class InFlight(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = elastic.golden()
        cls.driver = elastic.start(elastic.DATA / "stories260K.bin")
        cls.addClassCleanup(cls.driver.close)

    def shift(self, **plan):
        answer = self.driver.ask({"op": "shift", **plan}, 60)
        self.assertTrue(answer["ok"], answer)
        return answer

    def assert_nothing_is_left(self):
        figures = self.driver.ask({"op": "figures"}, 60)["ranks"]
        self.assertEqual([rank["free_units"] for rank in figures], [rank["units"] for rank in figures])
        self.assertEqual((self.driver.group.used, self.driver.group.extra), ([0] * 4, [0] * 4))

    def test_a_shift_at_every_eighth_token(self):
        chance = random.Random(8)
        found = elastic.Differences(self)
        streams = [self.driver.submit(elastic.request(line)) for line in self.lines]
        got = [[] for _ in streams]
        shifts, over = 0, False
        while not over:
            wanted = len(got[0]) + 8
            while len(got[0]) < wanted and not over:
                more, over = streams[0].take(60)
                self.assertTrue(more or over, "no token within 30 s")
                got[0] += more
            if not over:
                self.shift(gear=chance.randint(1, 6))
                shifts += 1
        for place in range(1, len(streams)):
            got[place] = streams[place].all(180)
        for line, tokens in zip(self.lines, got):
            found.compare(repr(line["prompt"]), tokens, line["greedy_ids"])
        found.check()
        self.assertGreaterEqual(shifts, 3)
        self.assert_nothing_is_left()

    def test_many_streams_and_random_shifts(self):
        """32 streams all the time; each answer is golden, none fails, none is lost."""
        chance = random.Random(1)
        found, lock, stop, done, failed = elastic.Differences(self), threading.Lock(), threading.Event(), [0], []

        def client(number):
            own = random.Random(number)
            while not stop.is_set():
                line = own.choice(self.lines)
                try:
                    tokens = self.driver.submit(elastic.request(line)).all(120)
                except Exception as error:
                    failed.append(f"{type(error).__name__}: {error}")
                    return
                with lock:
                    done[0] += 1
                    found.compare(repr(line["prompt"]), tokens, line["greedy_ids"])

        threads = [threading.Thread(target=client, args=(number,)) for number in range(STREAMS)]
        for thread in threads:
            thread.start()
        pauses, imported, copied = [], 0, []
        try:
            for _ in range(SHIFTS):
                answer = self.shift(gear=chance.randint(1, 6))
                pauses.append(answer["pause_ms"])
                imported += answer["imported_bytes"]
                copied.append(answer["pause_bytes"])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        pauses.sort()
        print(f"{SHIFTS} shifts under {STREAMS} streams: {done[0]} answers, pause p50 {pauses[len(pauses) // 2]:.1f} ms, "
              f"p99 {pauses[int(len(pauses) * 0.99)]:.1f} ms; cache copied beside steps {imported >> 10} KiB, in pauses {sum(copied) >> 10} KiB")
        self.assertEqual(failed, [])
        self.assertGreaterEqual(done[0], STREAMS)
        found.check()
        # What is full is there before the switch: in the pause go open blocks and a few that have filled meanwhile, of up to seven.
        block = self.driver.group.shape.layers * self.driver.group.shape.kv_heads * self.driver.group.shape.unit_bytes
        self.assertGreater(imported, 0)
        self.assertLessEqual(max(copied), 2.5 * block * STREAMS)
        self.assert_nothing_is_left()

    def test_uneven_plans_in_flight(self):
        chance = random.Random(5)
        found = elastic.Differences(self)
        streams = [self.driver.submit(elastic.request(line)) for line in self.lines]
        for gear in (6, 4, 5, 2, 3, 1, 4, 2):
            self.shift(gear=gear, shares=[chance.randint(1, 4) for _ in range(4)])
        for line, stream in zip(self.lines, streams):
            found.compare(repr(line["prompt"]), stream.all(180), line["greedy_ids"])
        found.check()
        self.assert_nothing_is_left()

    def test_requests_that_come_during_a_shift_wait_and_are_served(self):
        stop, streams = threading.Event(), []

        def arrive():
            while not stop.is_set():
                if len(streams) < 200:
                    streams.append(self.driver.submit(elastic.request(self.lines[1], )))
                stop.wait(0.005)

        thread = threading.Thread(target=arrive)
        thread.start()
        for gear in (2, 3, 4):
            self.shift(gear=gear)
        stop.set()
        thread.join()
        found = elastic.Differences(self)
        for number, stream in enumerate(streams):
            found.compare(f"arrival {number}", stream.all(180), self.lines[1]["greedy_ids"])
        found.check()

    def test_an_abort_leaves_nothing(self):
        """Called off while it is priced, prepared or copied to; what was copied must not be taken for cache by the next shift."""
        from gearbox_elastic.sequences import Request
        requests = [Request((line["prompt_ids"] + line["greedy_ids"]) * 3, max_tokens=100) for line in self.lines]
        expected = [[token for token, _ in stream.all(180)] for stream in [self.driver.submit(request) for request in requests]]
        before = self.driver.ask({"op": "status"}, 60)
        streams = [self.driver.submit(request) for request in requests]
        got = []
        while not got:
            got += streams[-1].take(60)[0]
        aborted = []
        for wanted in ("importing", "pricing", "importing", "preparing", "importing", "importing"):
            answers = []
            self.driver._post(lambda: self.driver.command({"op": "shift", "gear": 1 + (before["gear"] + len(aborted)) % 6}, answers.append))
            state = ""
            while not answers and state != wanted:
                state = self.driver.ask({"op": "status"}, 30)["shift"]
            if self.driver.ask({"op": "abort"}, 120)["ok"]:
                aborted.append(state)
                self.assertEqual(answers[0]["why"], "aborted")
                used = [rank["units"] - rank["free_units"] for rank in self.driver.ask({"op": "figures"}, 60)["ranks"]]
                self.assertTrue(all(mine <= counted for mine, counted in zip(used, self.driver.group.used)), (used, self.driver.group.used))
        self.assertIn("importing", aborted)
        self.shift(gear=1 + before["gear"] % 6)  # with the same sequences
        found = elastic.Differences(self)
        for number, (stream, want) in enumerate(zip(streams, expected)):
            found.compare(f"sequence {number}", (got if stream is streams[-1] else []) + stream.all(180), want)
        found.check()
        self.assert_nothing_is_left()

    def test_the_old_way_drains_and_starts_again(self):
        streams = [self.driver.submit(elastic.request(line)) for line in self.lines[:4]]
        answer = self.driver.ask({"op": "drain", "gear": 3}, 120)
        print(f"drain: {answer['pause_ms']:.0f} ms")
        self.assertTrue(answer["ok"], answer)
        found = elastic.Differences(self)
        streams += [self.driver.submit(elastic.request(line)) for line in self.lines[4:8]]
        for line, stream in zip(self.lines, streams):
            found.compare(repr(line["prompt"]), stream.all(180), line["greedy_ids"])
        found.check()


class Refused(unittest.TestCase):
    """Shifts that do not come about."""

    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        checkpoint = elastic.random_checkpoint(elastic.small_shape())
        cls.path = checkpoint.__enter__()
        cls.addClassCleanup(checkpoint.__exit__, None, None, None)
        from gearbox_elastic.sequences import Request
        cls.request = Request([1, 2, 3], max_tokens=150)
        cls.expected = elastic.Reference(cls.path).generate([1, 2, 3], 150)

    def check(self, stream):
        found = elastic.Differences(self)
        found.compare("the stream", stream.all(180), [token for token, _ in self.expected], [margin for _, margin in self.expected])
        found.check()

    def test_a_price_that_is_too_high_changes_nothing(self):
        from gearbox_elastic.shape import ModelShape
        shape = ModelShape(dim=128, hidden=512, layers=4, heads=8, kv_heads=4, vocab=300, positions=128, ends=())
        with elastic.random_checkpoint(shape) as path:
            driver = elastic.start(path, gear=3, memory_mb=5)  # a quarter is 1.0 MB, the whole 4.1 MB, buffers 1.8 MB
            try:
                before = driver.ask({"op": "status"}, 60)
                priced = driver.ask({"op": "price", "gear": 1}, 10)
                self.assertFalse(priced["ok"])
                self.assertRegex(priced["why"], r"rank \d: weights of \d+ bytes and \d+ more with buffers of \d+ do not fit into 5242880")
                refused = driver.ask({"op": "shift", "gear": 1}, 10)
                self.assertFalse(refused["ok"])
                after = driver.ask({"op": "status"}, 60)
                self.assertEqual((after["plan"], after["epoch"]), (before["plan"], before["epoch"]))
                affordable = driver.ask({"op": "price", "gear": 2}, 10)
                self.assertTrue(affordable["ok"], affordable)
                self.assertEqual(driver.ask({"op": "status"}, 60)["epoch"], before["epoch"])  # a price is only that
                self.assertTrue(driver.ask({"op": "shift", "gear": 2}, 10)["ok"])
            finally:
                driver.close()

    def test_a_cache_that_lacks_room_for_both_plans_changes_nothing(self):
        import dataclasses
        from gearbox_elastic.sequences import Request
        shape = dataclasses.replace(elastic.small_shape(), positions=2000)
        # Data parallel: 12 units of a block, 119 blocks at the end. By two, each rank needs half of the other's beside its own:
        # from 84 blocks on that is more than 1500.
        with elastic.random_checkpoint(shape) as path:
            driver = elastic.start(path, ranks=2, gear=1, cache_mb=1500 * shape.unit_bytes / (1 << 20))
            try:
                request = Request([1, 2, 3], max_tokens=1900)
                streams = [driver.submit(request), driver.submit(request)]
                # Which replica is ahead, nobody knows; it must not come to its end, which frees its cache, before the other one is there.
                got, stopped = [[], []], None
                try:
                    while min(map(len, got)) < 1360:
                        for tokens, stream in zip(got, streams):
                            if len(tokens) < 1360:
                                tokens += stream.take(120)[0]
                        if stopped is None and max(map(len, got)) >= 1360 > min(map(len, got)):
                            figures = driver.ask({"op": "figures"}, 60)["ranks"]
                            ahead = min(range(2), key=lambda rank: figures[rank]["free_units"])
                            stopped = driver.ask({"op": "status"}, 60)["ranks"][ahead]["pid"]
                            os.kill(stopped, signal.SIGSTOP)
                finally:
                    if stopped is not None:
                        os.kill(stopped, signal.SIGCONT)
                answer = driver.ask({"op": "shift", "gear": 2}, 30)
                self.assertFalse(answer["ok"])
                self.assertRegex(answer["why"], r"rank \d: the cache has \d+ free units, \d+ are needed")
                self.assertEqual(driver.ask({"op": "status"}, 60)["gear"], 1)
                whole = [tokens + stream.all(180) for tokens, stream in zip(got, streams)]
                self.assertEqual(whole[0], whole[1])
            finally:
                driver.close()

    def test_a_late_answer_to_a_refused_shift_is_not_taken_for_one_of_the_next(self):
        """Rank 2 prices the first plan when that has been refused long since."""
        from gearbox_elastic.shape import ModelShape
        shape = ModelShape(dim=128, hidden=512, layers=4, heads=8, kv_heads=4, vocab=300, positions=128, ends=())
        with elastic.random_checkpoint(shape) as path:
            driver = elastic.start(path, gear=3, memory_mb=5)
            try:
                slow = driver.ask({"op": "status"}, 60)["ranks"][2]["pid"]
                os.kill(slow, signal.SIGSTOP)
                try:
                    self.assertFalse(driver.ask({"op": "shift", "gear": 1}, 10)["ok"])
                    answers = []
                    driver._post(lambda: driver.command({"op": "shift", "gear": 2}, answers.append))
                    self.assertEqual(driver.ask({"op": "status"}, 60)["shift"], "pricing")
                finally:
                    os.kill(slow, signal.SIGCONT)
                elastic.wait_for(lambda: answers)
                self.assertTrue(answers[0]["ok"], answers)
            finally:
                driver.close()

    def test_silence_changes_nothing(self):
        driver = elastic.start(self.path, price_limit_s=0.3, step_limit_s=60.0)
        try:
            stream = driver.submit(self.request)
            stopped = driver.ask({"op": "status"}, 60)["ranks"][2]["pid"]
            os.kill(stopped, signal.SIGSTOP)
            try:
                answer = driver.ask({"op": "shift", "gear": 2}, 30)
            finally:
                os.kill(stopped, signal.SIGCONT)
            self.assertEqual((answer["ok"], answer["why"]), (False, "pricing: no answer of rank 2"))
            self.check(stream)
            self.assertTrue(driver.ask({"op": "shift", "gear": 2}, 120)["ok"])
            self.check(driver.submit(self.request))
        finally:
            driver.close()

    def test_weights_that_cannot_be_read_change_nothing(self):
        driver = elastic.start(self.path)
        try:
            stream = driver.submit(self.request)
            os.rename(self.path, self.path + ".away")
            try:
                answer = driver.ask({"op": "shift", "gear": 2}, 30)
            finally:
                os.rename(self.path + ".away", self.path)
            self.assertFalse(answer["ok"])
            self.assertRegex(answer["why"], "rank .: FileNotFoundError")
            self.check(stream)
            self.assertTrue(driver.ask({"op": "shift", "gear": 2}, 120)["ok"])
        finally:
            driver.close()

    def test_an_older_term_is_refused_also_after_a_restart_which_begins_in_the_recorded_plan(self):
        with tempfile.TemporaryDirectory() as state:
            driver = elastic.start(self.path, state=state, ranks=2)
            try:
                self.assertTrue(driver.ask({"op": "shift", "gear": 2, "term": 5}, 120)["ok"])
                self.assertEqual(driver.ask({"op": "shift", "gear": 4, "term": 4}, 30), {"ok": False, "why": "term 4 is older than 5"})
            finally:
                driver.close()
            driver = elastic.start(self.path, state=state, ranks=2)
            try:
                status = driver.ask({"op": "status"}, 60)
                self.assertEqual((status["gear"], status["term"]), (2, 5))
                self.assertFalse(driver.ask({"op": "shift", "gear": 4, "term": 4}, 120)["ok"])
                self.check(driver.submit(self.request))
            finally:
                driver.close()


class Stopping(unittest.TestCase):
    def test_a_record_that_is_written_while_no_step_is_on_its_way_is_followed_by_the_switch_at_once(self):
        """No event would come: it would wait for the loop's next look, with the gate closed."""
        elastic.need_torch()
        import types
        from gearbox_elastic.shift import Shift
        shift, switched = Shift.__new__(Shift), []
        shift.state, shift.recorded, shift.deadline = "recording", True, None
        shift.writer = threading.Thread()  # never started: it does not live
        shift.driver = types.SimpleNamespace(batching=types.SimpleNamespace(steps={}), gate_closed=False)
        shift._switch = lambda: switched.append(shift.driver.gate_closed)
        shift.tick(0.0)
        self.assertEqual(switched, [True])


class Sampled(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        checkpoint = elastic.random_checkpoint(elastic.small_shape())
        cls.path = checkpoint.__enter__()
        cls.addClassCleanup(checkpoint.__exit__, None, None, None)
        cls.driver = elastic.start(cls.path, ranks=4)
        cls.addClassCleanup(cls.driver.close)

    def test_the_same_seed_gives_the_same_tokens_in_every_gear_and_over_shifts(self):
        from gearbox_elastic.sequences import Request
        reference = elastic.Reference(self.path)
        asked = [([1, 2, 3], 0.8, 7), ([1, 2, 3], 0.8, 8), ([50] * 20, 1.5, 2 ** 64 - 1), ([9], 0.0, 0)]
        expected = [reference.generate(prompt, 60, temperature, seed) for prompt, temperature, seed in asked]
        self.assertNotEqual(expected[0], expected[1])
        for gears in ([1], [2], [4], [5], [6], [1, 4, 6, 2, 5, 1]):
            streams = [self.driver.submit(Request(prompt, max_tokens=60, temperature=temperature, seed=seed))
                       for prompt, temperature, seed in asked]
            for gear in gears:
                self.assertTrue(self.driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
            found = elastic.Differences(self)
            for number, (stream, want) in enumerate(zip(streams, expected)):
                found.compare(f"gears {gears} request {number}", stream.all(180), [token for token, _ in want], [margin for _, margin in want])
            found.check()

    def test_top_p_gives_the_same_in_every_gear(self):
        from gearbox_elastic.sequences import Request
        texts = []
        for gear in (1, 2, 4, 5, 6):
            self.assertTrue(self.driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
            texts.append(self.driver.submit(Request([1, 2], max_tokens=40, temperature=1.0, top_p=0.5, seed=3)).all(30))
        found = elastic.Differences(self)
        for number, text in enumerate(texts[1:]):
            found.compare(f"gear {number + 2}", text, [token for token, _ in texts[0]], [margin for _, margin in texts[0]])
        found.check()


if __name__ == "__main__":
    unittest.main()
