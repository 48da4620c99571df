"""Every gear, even and uneven, prints the golden answers; and so do random models with heads that do not split evenly."""
import unittest

from support import elastic

GEARS = (1, 2, 3, 4, 5, 6)
# What each of four ranks carries beside the others.
UNEVEN = {1: [4, 2, 1, 1], 2: [3, 1, 1, 2], 3: [1, 3, 2, 1], 4: [5, 2, 3, 1], 5: [2, 1, 1, 1], 6: [1, 3, 2, 1]}


class Golden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = elastic.golden()
        cls.driver = elastic.start(elastic.DATA / "stories260K.bin")
        cls.addClassCleanup(cls.driver.close)

    def go_to(self, **plan):
        answer = self.driver.ask({"op": "shift", **plan}, 60)
        self.assertTrue(answer["ok"], answer)

    def all_at_once(self, name):
        found = elastic.Differences(self)
        streams = [self.driver.submit(elastic.request(line)) for line in self.lines]
        for line, stream in zip(self.lines, streams):
            found.compare(f"{name} {line['prompt']!r}", stream.all(180), line["greedy_ids"])
        found.check()

    def test_all_prompts_together_in_every_gear(self):
        for gear in GEARS:
            with self.subTest(gear=gear):
                self.go_to(gear=gear)
                self.all_at_once(f"gear {gear}")

    def test_uneven_plans(self):
        for gear in GEARS:
            with self.subTest(gear=gear):
                self.go_to(gear=gear, shares=UNEVEN[gear])
                self.all_at_once(f"gear {gear} uneven")

    def test_one_prompt_after_another(self):
        found = elastic.Differences(self)
        for gear in (3, 4, 6):
            self.go_to(gear=gear)
            for line in self.lines[:4]:
                found.compare(f"gear {gear} {line['prompt']!r}", self.driver.submit(elastic.request(line)).all(180), line["greedy_ids"])
        found.check()

    def test_uneven_by_hand(self):
        """One rank with three kv heads beside one with one; one of five layers apart; a rank that idles."""
        plan = {"replicas": [{"stages": [
            {"layers": [0, 4], "ranks": [
                {"rank": 2, "kv_heads": [0, 3], "hidden": [0, 150], "vocab": [0, 500]},
                {"rank": 0, "kv_heads": [3, 4], "hidden": [150, 172], "vocab": [500, 512]}]},
            {"layers": [4, 5], "ranks": [{"rank": 3, "kv_heads": [0, 4], "hidden": [0, 172], "vocab": [0, 512]}]}]}]}
        self.go_to(plan=plan)
        self.all_at_once("by hand")


class OtherSizes(unittest.TestCase):
    """Groups of other sizes, on a model of 3 kv heads, against the reference."""

    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        checkpoint = elastic.random_checkpoint(elastic.small_shape())
        cls.path = checkpoint.__enter__()
        cls.addClassCleanup(checkpoint.__exit__, None, None, None)
        cls.prompts = [[1, 5, 9], [7] * 40, [3], list(range(60))]
        reference = elastic.Reference(cls.path)
        cls.expected = [reference.generate(prompt, 40) for prompt in cls.prompts]

    def run_group(self, ranks, gears):
        from gearbox_elastic.sequences import Request
        driver = elastic.start(self.path, ranks=ranks)
        try:
            for gear in gears:
                self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
                found = elastic.Differences(self)
                streams = [driver.submit(Request(prompt, max_tokens=40)) for prompt in self.prompts]
                for number, (stream, expected) in enumerate(zip(streams, self.expected)):
                    found.compare(f"{ranks} ranks, gear {gear}, prompt {number}", stream.all(180), [token for token, _ in expected],
                                  [margin for _, margin in expected])
                found.check()
        finally:
            driver.close()

    def test_one_rank(self):
        self.run_group(1, (1,))

    def test_two_ranks_with_two_and_one_kv_heads(self):
        self.run_group(2, (1, 2, 4, 5))

    def test_three_ranks(self):
        self.run_group(3, (1, 4, 5))

    def test_four_ranks_two_of_which_share_a_kv_head(self):
        self.run_group(4, (3, 1, 3, 6))

    def test_eight_ranks(self):
        self.run_group(8, (2, 4, 6))


if __name__ == "__main__":
    unittest.main()
