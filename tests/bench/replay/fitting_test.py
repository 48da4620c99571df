"""bench/replay/fitting.py: parameters out of times."""
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench/replay"))
try:
    import fitting
except ImportError:
    print("NOT RUN: no numpy")
    sys.exit(0)

SIZES = (1, 2, 4, 8, 16, 32)


def steps(values):
    """Steps of some sizes on one replica, and on two that share cores."""
    alone = [values["fixed"] + values["each"] * size for size in SIZES]
    return alone + [time * 2 / values["full_speed"] for time in alone]


class Fitting(unittest.TestCase):
    TRUE = {"fixed": 2.7e-3, "each": 310e-6, "full_speed": 1.3}
    START = {"fixed": 1e-2, "each": 50e-6, "full_speed": 1.9}

    def test_finds_what_the_times_were_made_of(self):
        found = fitting.fit(self.START, steps, steps(self.TRUE), most_rounds=40)
        for name, value in self.TRUE.items():
            self.assertAlmostEqual(found.values[name] / value, 1, delta=0.01, msg=name)
        self.assertLess(found.mean_error(), 0.005)

    def test_noise_of_a_twentieth_moves_them_by_as_little(self):
        noisy = [time * (1.05 if i % 2 else 1 / 1.05) for i, time in enumerate(steps(self.TRUE))]
        found = fitting.fit(self.START, steps, noisy, most_rounds=40)
        for name, value in self.TRUE.items():
            self.assertAlmostEqual(found.values[name] / value, 1, delta=0.1, msg=name)
        self.assertAlmostEqual(found.mean_error(), 0.05, delta=0.01)

    def test_short_times_count_as_much_as_long_ones(self):
        # Of 1 ms and 1,000 ms, no one value fits both: it lies in the middle by factors.
        found = fitting.fit({"all": 0.5}, lambda values: [values["all"]] * 2, [1e-3, 1.0], most_rounds=40)
        self.assertAlmostEqual(found.values["all"], 1e-3 ** 0.5, delta=1e-3)

    def test_what_changes_nothing_stays_as_it_was(self):
        start = {**self.START, "unused": 7.0}
        found = fitting.fit(start, steps, steps(self.TRUE), most_rounds=40)
        self.assertAlmostEqual(found.values["unused"], 7.0, places=6)

    def test_residuals_tell_which_side(self):
        found = fitting.fit({"all": 1.0}, lambda values: [values["all"], 2 * values["all"]], [1.0, 1.0], most_rounds=40)
        self.assertAlmostEqual(found.residuals[0], 2 ** -0.5 - 1, delta=1e-3)
        self.assertAlmostEqual(found.residuals[1], 2 ** 0.5 - 1, delta=1e-3)

    def test_refuses_what_cannot_be_fitted(self):
        for start, measured in (({"a": 1.0}, []), ({"a": 1.0, "b": 1.0}, [1.0]), ({"a": 0.0}, [1.0]), ({"a": 1.0}, [0.0])):
            with self.assertRaises(ValueError):
                fitting.fit(start, lambda _: measured, measured)


if __name__ == "__main__":
    unittest.main()
