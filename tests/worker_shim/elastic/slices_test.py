"""Ranks hold slices: their own count, what the kernel says, and the bytes that go between them. A hidden replica fails here."""
import unittest

from support import elastic

MB = 1 << 20


def private_bytes(pid):
    """Memory of the process's own and of files it has mapped, without shared memory."""
    found = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("RssAnon", "RssFile"):
                found[name] = int(value.split()[0]) * 1024
    return found


class Slices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        from gearbox_elastic.shape import ModelShape
        # 97 MB of weights: a whole replica cannot hide in what a process takes anyway.
        cls.shape = ModelShape(dim=512, hidden=2048, layers=6, heads=8, kv_heads=4, vocab=600, positions=128, ends=())
        checkpoint = elastic.random_checkpoint(cls.shape)
        cls.path = checkpoint.__enter__()
        cls.addClassCleanup(checkpoint.__exit__, None, None, None)
        from gearbox_elastic.gears import plan_of_gear
        from gearbox_elastic.role import Role
        cls.whole = Role(plan_of_gear(1, 1, cls.shape), 0, cls.shape).weight_bytes()

    def generate(self, driver):
        from gearbox_elastic.sequences import Request
        for stream in [driver.submit(Request([1, 2, 3], max_tokens=20)) for _ in range(4)]:
            stream.all(180)

    def held(self, driver):
        figures = driver.ask({"op": "figures"}, 60)["ranks"]
        status = driver.ask({"op": "status"}, 20)["ranks"]
        return [(rank["weight_bytes"], private_bytes(one["pid"])) for rank, one in zip(figures, status)]

    def test_each_rank_holds_its_part_and_no_more(self):
        from gearbox_elastic.role import roles_of
        whole = {"rank": 0, "kv_heads": [0, 4], "hidden": [0, self.shape.hidden], "vocab": [0, self.shape.vocab]}
        alone = {"replicas": [{"stages": [{"layers": [0, self.shape.layers], "ranks": [whole]}]}]}
        driver = elastic.start(self.path, plan=alone)
        try:
            self.generate(driver)
            idle = self.held(driver)  # ranks 1 to 3 hold nothing yet
            self.assertEqual([weights for weights, _ in idle], [self.whole, 0, 0, 0])
            for gear in (3, 5, 6, 4, 2, 3):
                self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
                self.generate(driver)
                roles = roles_of(driver.group.plan, self.shape)
                for number, ((weights, memory), (_, before)) in enumerate(zip(self.held(driver), idle)):
                    wanted = roles[number].weight_bytes()
                    self.assertEqual(weights, wanted, f"gear {gear}, rank {number}")
                    self.assertLess(wanted, 0.62 * self.whole)
                    self.assertLess(memory["RssFile"] - before["RssFile"], 24 * MB, "the checkpoint stays mapped")
                    if number > 0:  # by the kernel's account, too
                        grown = memory["RssAnon"] - before["RssAnon"]
                        self.assertLess(grown, wanted + 24 * MB, f"gear {gear}, rank {number}")
            self.assertEqual(sum(weights for weights, _ in self.held(driver)) // self.whole, 1)
        finally:
            driver.close()

    def test_bytes_moved_within_steps_are_those_of_the_plan(self):
        """Tensor parallel: two sums a layer and one of the embedding, of rows × dim; pipeline: rows × dim to each next rank."""
        driver = elastic.start(self.path, gear=3)
        try:
            self.generate(driver)
            rows = 4 * (3 + 19)  # of four sequences: the prompt, and each token but the last
            row = self.shape.dim * 4
            moved = [rank["moved_bytes"] for rank in driver.ask({"op": "figures"}, 60)["ranks"]]
            self.assertEqual(moved, [rows * row * (2 * self.shape.layers + 1)] * 4)
            self.assertTrue(driver.ask({"op": "shift", "gear": 5}, 120)["ok"])
            self.generate(driver)
            moved = [rank["moved_bytes"] for rank in driver.ask({"op": "figures"}, 60)["ranks"]]
            self.assertEqual(moved, [rows * row] * 3 + [0])
        finally:
            driver.close()

    def test_a_shift_moves_the_cache_that_changes_owners_and_no_more(self):
        from gearbox_elastic.sequences import Request
        driver = elastic.start(self.path, gear=1)
        try:
            stream = driver.submit(Request(list(range(64)), max_tokens=60))
            got = []
            while len(got) < 5:
                got += stream.take(60)[0]
            answer = driver.ask({"op": "shift", "gear": 3}, 60)
            # One rank had all; three quarters of the heads go to others. At least four full blocks, at most eight.
            block = self.shape.layers * 3 * self.shape.unit_bytes
            self.assertIn((answer["imported_bytes"] + answer["pause_bytes"]) / block, (4, 5, 6, 7, 8))
            self.assertGreaterEqual(answer["imported_bytes"], 4 * block)
            self.assertLessEqual(answer["pause_bytes"], 2 * block)
            moved = sum(rank["cache_moved_bytes"] for rank in driver.ask({"op": "figures"}, 60)["ranks"])
            self.assertEqual(moved, answer["imported_bytes"] + answer["pause_bytes"])
            stream.all(180)
        finally:
            driver.close()


if __name__ == "__main__":
    unittest.main()
