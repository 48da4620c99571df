"""bench/replay/calibration.py with the simulator itself: a cluster file is found again from the times that it gives.

Usage: calibration_test.py BROKER"""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench/replay"))
try:
    import calibration
    import recordings
    import traffic
    from simulation import Simulation
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(0)

BROKER = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path()
TRUE = {"host_step_ms": 3.5, "token_us": 260.0, "position_ns": 1600.0, "mixed_us": 2500.0, "tflops": 0.08, "broker_ms": 1.4, "full_speed_replicas": 1.25, "reduce_start_us": 130.0, "bus_gb_s": 1.0}


def rows_of(asked):
    return [recordings.Row(each.at_us, each.input_tokens, each.output_tokens, 0, 0, "") for each in asked]


def traces():
    found = {}
    for gear in (1, 2):
        for count in (1, 2, 8, 32):
            found[gear, "decode", count] = rows_of(traffic.together(count, calibration.PROMPT, 40))
        for count in (2, 16):
            found[gear, "deep", count] = rows_of(traffic.together(count, 320, 20))
        for count in (2, 16):
            found[gear, "mixed", count] = rows_of(traffic.beside(traffic.together(count, calibration.PROMPT, 100), 20, 0.03))
        for length in (8, 128, 480):
            found[gear, "prompt", length] = rows_of(traffic.one_by_one(3, length, 2, 5))
    return found


class Calibration(unittest.TestCase):
    def test_a_cluster_file_is_found_again(self):
        with tempfile.TemporaryDirectory(prefix="gearbox-calibration-test-") as folder:
            simulation = Simulation(BROKER.parent.parent, Path(folder))
            true = simulation.write_cluster(TRUE, "true")
            wanted = {key: value for gear in (1, 2) for key, value in calibration.simulated(traces(), gear, true, simulation).items()}
            found = calibration.fitted(wanted, traces(), simulation)
            self.assertLess(found.mean_error(), 0.01, found)
            for name in ("host_step_ms", "token_us", "mixed_us", "full_speed_replicas"):
                self.assertAlmostEqual(found.values[name] / TRUE[name], 1, delta=0.1, msg=(name, found))
            # Of traffic that it was not fitted to it tells the same as the true one.
            other = rows_of(traffic.poisson(20, 20, 9))
            cluster = simulation.write_cluster(found.values)
            for gear in (1, 2):
                both = [recordings.figures(simulation.rows(each, gear, other)) for each in (true, cluster)]
                for error in recordings.errors(*both).values():
                    self.assertAlmostEqual(error, 0, delta=0.03)


if __name__ == "__main__":
    unittest.main()
