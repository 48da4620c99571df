"""The free cache becomes one piece by itself while a generation goes on, and nothing that it says changes."""
import unittest

from support import elastic


class Arena(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()

    def test_a_bounded_move_takes_the_last_units_to_the_first_holes(self):
        import os
        from gearbox_elastic.cache import Arena as Cache, arena_bytes
        shape = elastic.small_shape()
        fd = os.memfd_create("arena")
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, arena_bytes(shape, 2, 64))
        arena = Cache(shape, 2, 64, fd, own=True)
        units = arena.allocate(20)
        arena.by_unit[:20] = [[unit] * arena.by_unit.shape[1] for unit in range(20)]
        arena.release(units[::2])
        arena.table[1, 0, 0, :10] = units[1::2]
        self.assertEqual(arena.defragment(2), 2)
        self.assertEqual(sorted(arena.table[1, 0, 0, :10].tolist()), [0, 1, 2, 3, 5, 7, 9, 11, 13, 15])
        self.assertEqual((arena.free_count, int(arena.free.sum()), arena.largest_run()), (54, 54, 48))
        self.assertEqual([arena.defragment(2), arena.defragment(2), arena.defragment(2)], [2, 1, 0])
        self.assertEqual(arena.largest_run(), 54)
        self.assertEqual(arena.by_unit[arena.table[1, 0, 0, :10], 0].tolist(), list(range(1, 20, 2)))


class Quiet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()

    def test_holes_close_while_a_generation_goes_on(self):
        import dataclasses
        from gearbox_elastic.sequences import Request
        shape = dataclasses.replace(elastic.small_shape(), positions=4000)
        with elastic.random_checkpoint(shape) as path:
            driver = elastic.start(path, ranks=2, gear=2, cache_mb=8, max_running=8)
            self.addCleanup(driver.close)
            long = Request([7, 8, 9], max_tokens=500, temperature=1.0, seed=3)
            expected = driver.submit(long).all(120)
            driver.tidying.every_s = 1e9  # none while the holes are made
            others = [driver.submit(Request([n + 1] * 60, max_tokens=3000, temperature=1.0, seed=n)) for n in range(3)]
            elastic.wait_for(lambda: driver.ask({"op": "status"}, 60)["running"] == 3)
            stream = driver.submit(long)
            found = stream.take(60)[0]
            for other in others:  # what lay before it is free now
                driver.cancel(other)
            elastic.wait_for(lambda: driver.ask({"op": "status"}, 60)["running"] == 1)
            self.assertTrue(all(self.is_torn(rank) for rank in driver.ask({"op": "figures"}, 60)["ranks"]))
            driver.tidying.every_s = 0.02
            elastic.wait_for(lambda: not any(self.is_torn(rank) for rank in driver.ask({"op": "figures"}, 60)["ranks"]))
            status = driver.ask({"op": "status"}, 60)
            self.assertEqual(status["running"], 1, "it had nothing to do with its end")
            self.assertGreater(status["tidied"], 0)
            self.assertTrue(driver.ask({"op": "shift", "gear": 1}, 60)["ok"])
            while True:
                more, over = stream.take(60)
                found += more
                if over:
                    break
            differences = elastic.Differences(self)
            differences.compare("over moves", found, [token for token, _ in expected])
            differences.check()

    @staticmethod
    def is_torn(rank):
        return rank["largest_run"] < rank["free_units"]

    def test_a_busy_time_is_no_time_for_it(self):
        from gearbox_elastic.tidying import Tidying

        class Batching:
            class group:
                class options:
                    max_running = 4
            class load:
                arrived = 5
            waiting, running = [], {0: None}
        tidying = Tidying()
        self.assertFalse(tidying.is_quiet(Batching))  # it does not know yet whether somebody came
        self.assertTrue(tidying.is_quiet(Batching))
        Batching.load.arrived = 6
        self.assertFalse(tidying.is_quiet(Batching))
        Batching.running = {0: None, 1: None, 2: None}
        self.assertFalse(tidying.is_quiet(Batching))
        Batching.running, Batching.waiting = {0: None}, [None]
        self.assertFalse(tidying.is_quiet(Batching))
        Batching.running, Batching.waiting = {}, []
        self.assertFalse(tidying.is_quiet(Batching), "nothing is used")


if __name__ == "__main__":
    unittest.main()
