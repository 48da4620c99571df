"""bench/models/figures.py: what counts of a run, and which ratio is which way up."""
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench/models"))
import arms  # noqa: E402
import figures  # noqa: E402


class Percentile(unittest.TestCase):
    def test_is_a_value_that_was_measured(self):
        values = list(range(1, 101))
        self.assertEqual([figures.percentile(values, part) for part in (0.5, 0.99, 1)], [50, 99, 100])
        self.assertEqual(figures.percentile([7], 0.99), 7)
        self.assertEqual(figures.percentile([3, 1, 2], 0.5), 2)
        self.assertNotEqual(figures.percentile([], 0.5), figures.percentile([], 0.5))  # not a number


class Window(unittest.TestCase):
    def test_counts_whole_calls_from_the_end_of_the_warm_up(self):
        # One after the other, 300 ms each, from 0 to 6 s; measured: 1 s to 4 s.
        samples = [[number * 300_000, 300_000, number % 2] for number in range(20)]
        window = figures.Window(samples, 1, 3)
        self.assertEqual(len(window.samples), 10)  # from the answer at 0.9 s to the one at 3.9 s
        self.assertAlmostEqual(window.seconds, 3.0)
        self.assertAlmostEqual(window.per_second(), 1 / 0.3)
        self.assertAlmostEqual(window.took_ms(0.5), 300)

    def test_a_batch_is_in_or_out_as_a_whole(self):
        # Eight answers at once each 500 ms: 16 a second, wherever the window happens to begin.
        samples = [[number * 500_000, 500_000] for number in range(20) for _ in range(8)]
        for warm_up in (1, 1.2, 1.49):
            self.assertAlmostEqual(figures.Window(samples, warm_up, 4).per_second(), 16)

    def test_busy_is_the_share_in_which_the_model_ran(self):
        samples = [[number * 100_000, 250_000, "o", 97_000] for number in range(50)]
        self.assertAlmostEqual(figures.Window(samples, 1, 3).busy(3), 0.97)

    def test_nothing_measured_is_no_throughput(self):
        self.assertEqual(figures.Window([], 1, 3).per_second(), 0)
        self.assertEqual(figures.Window([[0, 100]], 1, 3).samples, [])


def arm(**by_clients):
    return {int(clients[1:]): {"per_s": per_s, "p50_ms": 1.0, "p99_ms": p99, "busy": busy, "cpu_ms": 10.0}
            for clients, (per_s, p99, busy) in by_clients.items()}


class OfRounds(unittest.TestCase):
    FOUND = {"direct": arm(c1=(100, 10, None)), "gearbox": arm(c1=(80, 13, 0.8), c8=(98, 82, 0.98), c64=(96, 660, 0.97)),
             "mosec": arm(c1=(70, 15, None), c8=(90, 123, None), c64=(91, 900, None)),
             "direct_batch": arm(c1=(200, 40, None)), "gearbox_batch": arm(c64=(194, 330, None)), "mosec_batch": arm(c64=(97, 660, None))}

    def test_ratios_are_those_of_the_saturated_arms(self):
        out = figures.of_rounds("resnet18", [self.FOUND], ["mosec"])[0]
        self.assertAlmostEqual(out["broker_cost"], 0.02)
        self.assertEqual((out["worker_busy"], out["saturated_at_clients"]), (0.98, 8))
        self.assertAlmostEqual(out["batch_vs_hand"], 0.97)
        self.assertAlmostEqual(out["vs_mosec_throughput"], 98 / 91)  # each at its own best
        self.assertAlmostEqual(out["vs_mosec_p99"], 123 / 82)  # with as many clients
        self.assertAlmostEqual(out["vs_mosec_batch_throughput"], 2)
        self.assertAlmostEqual(out["vs_mosec_batch_p99"], 2)
        self.assertAlmostEqual(out["mosec_cost"], 0.09)
        self.assertEqual((out["gearbox_64_per_s"], out["direct_batch_1_per_s"]), (96, 200))

    def test_the_echo_has_names_of_its_own(self):
        out = figures.of_rounds("echo", [{name: self.FOUND[name] for name in ("direct", "gearbox")}], ["mosec"])[0]
        self.assertTrue(all(name.startswith("echo_") for name in out), out)
        self.assertNotIn("echo_vs_mosec_throughput", out)  # it did not run
        self.assertAlmostEqual(out["echo_broker_cost"], 0.02)

    def test_the_clients_that_saturate_are_chosen_once_for_all_rounds(self):
        rounds = [{"direct": arm(c1=(100, 10, None)), "gearbox": arm(c8=(low, 80, 0.9), c64=(high, 640, 0.9))}
                  for low, high in ((98, 90), (97, 99), (96, 95))]
        out = figures.of_rounds("resnet18", rounds, [])
        self.assertEqual([each["saturated_at_clients"] for each in out], [8, 8, 8])
        for each, cost in zip(out, (0.02, 0.03, 0.04)):  # also where 64 clients happened to be faster
            self.assertAlmostEqual(each["broker_cost"], cost)

    def test_rounds_come_to_median_and_spread(self):
        found = figures.over_rounds([{"a": 3, "b": 1}, {"a": 1}, {"a": 2}])
        self.assertEqual(found, {"a": (2, 1, 3), "b": (1, 1, 1)})


class Devices(unittest.TestCase):
    def test_no_device_has_more_than_eight_connections_and_all_have_as_many(self):
        self.assertEqual([arms.devices_for(clients) for clients in (1, 8, 9, 11, 16, 64)], [1, 1, 3, 11, 2, 8])


if __name__ == "__main__":
    unittest.main()
