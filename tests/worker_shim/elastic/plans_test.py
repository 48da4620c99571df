"""Plans: which gears can be made of how many ranks, what a wrong plan is told, and who owns what."""
import copy
import unittest

from support import elastic


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()

    def setUp(self):
        from gearbox_elastic import gears, plan, role
        from gearbox_elastic.shape import ModelShape
        self.gears, self.plan, self.role = gears, plan, role
        self.stories = ModelShape(dim=64, hidden=172, layers=5, heads=8, kv_heads=4, vocab=512, positions=512)
        self.smol = ModelShape(dim=576, hidden=1536, layers=30, heads=9, kv_heads=3, vocab=49152, positions=2048)

    def every_plan(self):
        for shape in (self.stories, self.smol):
            for ranks in (1, 2, 3, 4, 8):
                for gear in range(1, 7):
                    for shares in (None, [1 + n % 3 for n in range(ranks)]):
                        try:
                            yield shape, ranks, gear, self.gears.plan_of_gear(gear, ranks, shape, shares)
                        except self.plan.PlanError:
                            continue

    def test_a_plan_survives_its_json(self):
        count = 0
        for shape, _, _, made in self.every_plan():
            self.assertEqual(self.plan.plan_of_dict(made.as_dict(), shape), made)
            count += 1
        self.assertGreater(count, 50)

    def test_each_unit_of_each_sequence_has_one_owner_in_its_replica(self):
        for shape, _, _, made in self.every_plan():
            roles = self.role.roles_of(made, shape)
            for replica in made.replicas:
                mine = [roles[rank] for rank in replica.ranks]
                for blocks in (1, 2, 7, shape.blocks):
                    self.assertEqual(sum(each.units(0, blocks) for each in mine), blocks * shape.layers * shape.kv_heads)
                    for one in mine:
                        for other in mine:
                            if one is not other:
                                self.assertEqual(one.shared_units(other, 0, blocks), 0)

    def test_each_column_of_attention_is_added_once(self):
        for shape, _, _, made in self.every_plan():
            roles = self.role.roles_of(made, shape)
            for replica in made.replicas:
                for stage in replica.stages:
                    columns = []
                    for part in stage.ranks:
                        own = roles[part.rank]
                        at = own.heads[0] * shape.head_size
                        columns += range(at + own.columns[0], at + own.columns[1])
                    self.assertEqual(sorted(columns), list(range(shape.dim)))

    def test_which_gears_can_be_made(self):
        possible = {(gear, ranks): True for shape, ranks, gear, _ in self.every_plan() if shape is self.stories}
        self.assertEqual(sorted(key for key in possible), sorted(
            [(1, n) for n in (1, 2, 3, 4, 8)] + [(2, 2), (2, 4), (2, 8), (3, 4), (3, 8)] + [(4, n) for n in (1, 2, 3, 4, 8)] +
            [(5, n) for n in (1, 2, 3, 4)] + [(6, 4), (6, 8)]))

    def test_a_gear_that_cannot_be_made_says_why(self):
        for gear, ranks, shape, why in ((2, 3, self.stories, "an even number of ranks, not of 3"), (6, 2, self.stories, "4 or 8"),
                                        (7, 4, self.stories, "none of 1 to 6"),
                                        (5, 8, self.stories, "8 ranks cannot share 5 layers")):
            with self.assertRaisesRegex(self.plan.PlanError, why):
                self.gears.plan_of_gear(gear, ranks, shape)

    def test_three_kv_heads_on_two_ranks(self):
        made = self.gears.plan_of_gear(2, 2, self.smol)
        self.assertEqual([part.kv_heads for part in made.replicas[0].stages[0].ranks], [(0, 2), (2, 3)])

    def test_three_kv_heads_on_four_ranks(self):
        """Two of them share the positions of one head: all six gears can be made."""
        parts = self.gears.plan_of_gear(3, 4, self.smol).replicas[0].stages[0].ranks
        self.assertEqual([(part.kv_heads, part.part, len(part.weights)) for part in parts],
                         [((0, 1), 0, 2), ((0, 1), 1, 2), ((1, 2), 0, 1), ((2, 3), 0, 1)])
        self.assertEqual({gear for shape, ranks, gear, _ in self.every_plan() if shape is self.smol and ranks == 4}, set(range(1, 7)))

    def test_shares_make_slices_uneven(self):
        made = self.gears.plan_of_gear(5, 2, self.smol, [4, 1])
        self.assertEqual([stage.layers for stage in made.replicas[0].stages], [(0, 24), (24, 30)])
        made = self.gears.plan_of_gear(4, 2, self.stories, [3, 1])
        owned = [int(self.role.Role(made, rank, self.stories).owned.sum()) for rank in (0, 1)]
        self.assertEqual(owned, [24, 8])

    def test_a_wrong_plan_is_told_the_place(self):
        good = self.gears.plan_of_gear(6, 4, self.stories).as_dict()

        def stage(value):
            return value["replicas"][0]["stages"][1]

        def change(path, new):
            def apply(value):
                *way, last = path
                for key in way:
                    value = value[key]
                value[last] = new
            return apply

        for name, apply, why in (
                ("gap in layers", lambda v: change(("layers",), [4, 5])(stage(v)), r"stages\[1\].layers: begin at 4"),
                ("layers end early", lambda v: change(("layers",), [3, 4])(stage(v)), r"replicas\[0\]: layers 4 to 4"),
                ("heads twice", lambda v: change(("ranks", 1, "kv_heads"), [1, 4])(stage(v)), r"stages\[1\]: kv heads 1 to 1 are held by two"),
                ("hidden short", lambda v: change(("ranks", 1, "hidden"), [86, 100])(stage(v)), r"stages\[1\]: hidden columns 100 to 171"),
                ("vocabulary short", lambda v: change(("ranks", 0, "vocab"), [0, 10])(stage(v)), r"stages\[1\]: vocabulary rows 10"),
                ("rank twice", lambda v: change(("ranks", 1, "rank"), 0)(stage(v)), "rank 0 stands twice"),
                ("no rank", lambda v: stage(v)["ranks"][0].pop("rank"), r"ranks\[0\]: has no 'rank'"),
                ("unknown key", lambda v: change(("speed",), 1)(stage(v)), r"stages\[1\]: has an unknown key 'speed'"),
                ("no number", lambda v: change(("ranks", 0, "rank"), True)(stage(v)), r"ranks\[0\].rank: is no whole number"),
                ("backwards", lambda v: change(("ranks", 0, "hidden"), [9, 3])(stage(v)), r"ranks\[0\].hidden: ends at 3"),
                ("positions not shared out", lambda v: change(("ranks", 0, "positions"), {"part": 0, "weights": [1, 1]})(stage(v)),
                 r"stages\[1\]: the positions of kv heads \[0, 2\] are not shared out"),
                ("too many", lambda v: v.update(replicas=[]), r"plan.replicas: is no list of 1 to")):
            value = copy.deepcopy(good)
            apply(value)
            with self.subTest(name), self.assertRaisesRegex(self.plan.PlanError, why):
                self.plan.plan_of_dict(value, self.stories)

    def test_a_plan_of_anything_at_all_is_an_error_and_no_crash(self):
        for value in (None, 3, "x", [], {}, {"replicas": {}}, {"replicas": [None]}, {"replicas": [{"stages": [{}]}]},
                      {"replicas": [{"stages": [{"layers": [0], "ranks": []}]}]}, {"gear": 9, "replicas": []}):
            with self.subTest(value), self.assertRaises(self.plan.PlanError):
                self.plan.plan_of_dict(value, self.stories)


class Blocks(unittest.TestCase):
    def test_weights_spread_blocks_evenly(self):
        elastic.need_torch()
        from gearbox_elastic.role import pattern
        self.assertEqual(pattern([1, 1]), [0, 1])
        self.assertEqual(sorted(pattern([3, 1])), [0, 0, 0, 1])
        self.assertIn(1, pattern([3, 1])[:3])  # also a short sequence is shared out


if __name__ == "__main__":
    unittest.main()
