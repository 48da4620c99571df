"""The interface is enough for an engine that is none of ours: driver, ranks, shifts and recovery know only that."""
import os
import random
import signal
import unittest

from support import elastic


class AnotherEngine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        from support import summing_engine
        cls.engine = summing_engine
        cls.prompts = [[1, 2, 3], list(range(90)), [5] * 33, [7]]
        cls.expected = [summing_engine.expected(prompt, 120) for prompt in cls.prompts]
        cls.driver = elastic.start("", engine="support.summing_engine:SummingEngine")
        cls.addClassCleanup(cls.driver.close)

    def submit(self):
        from gearbox_elastic.sequences import Request
        return [self.driver.submit(Request(prompt, max_tokens=120)) for prompt in self.prompts]

    def check(self, streams):
        for stream, expected in zip(streams, self.expected):
            self.assertEqual([token for token, _ in stream.all(180)], expected)

    def test_it_shifts_in_flight_through_every_gear(self):
        chance = random.Random(2)
        moved = 0
        for _ in range(5):
            streams = self.submit()
            for gear in chance.sample(range(1, 7), 4):
                answer = self.driver.ask({"op": "shift", "gear": gear, "shares": [chance.randint(1, 3) for _ in range(4)]}, 30)
                self.assertTrue(answer["ok"], answer)
                moved += answer["imported_bytes"] + answer["pause_bytes"]
            self.check(streams)
        self.assertGreater(moved, 0)

    def test_it_outlives_the_death_of_a_rank(self):
        self.assertTrue(self.driver.ask({"op": "shift", "gear": 4}, 120)["ok"])
        streams = self.submit()
        first = [token for token, _ in streams[0].take(10)[0]]
        os.kill(self.driver.ask({"op": "status"}, 60)["ranks"][3]["pid"], signal.SIGKILL)
        self.assertEqual(first + [token for token, _ in streams[0].all(180)], self.expected[0])
        for stream, expected in zip(streams[1:], self.expected[1:]):
            self.assertEqual([token for token, _ in stream.all(180)], expected)
        self.check(self.submit())


if __name__ == "__main__":
    unittest.main()
