"""bench/replay/recordings.py and traffic.py: what is read of a recording, what is compared, what is sent."""
import json
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench/replay"))
import recordings  # noqa: E402
import traffic  # noqa: E402

TEXT = """# gearbox-trace 1
at_us,model,tenant,input_tokens,output_tokens,bytes,upload_us,first_us,latency_us,result_bytes,error,steps
2000000,tell,,30,1,60,100,40000,40000,1,,tell:1:0:39000:39000
0,tell,,10,5,60,100,10000,50000,5,,tell:1:0:49000:49000
1000000,tell,,20,3,60,100,20000,60000,3,worker_lost,tell:1:0:59000:59000
"""


class Recordings(unittest.TestCase):
    def test_rows_are_read_by_the_names_of_their_columns_in_order_of_arrival(self):
        rows = recordings.read(TEXT)
        self.assertEqual([row.input_tokens for row in rows], [10, 20, 30])
        self.assertEqual(rows[1], recordings.Row(1000000, 20, 3, 20000, 60000, "worker_lost"))

    def test_what_is_no_recording_is_refused(self):
        for text in ("", "at_us,model\n", "# gearbox-trace 2\n"):
            with self.assertRaises(ValueError):
                recordings.read(text)

    def test_figures(self):
        found = recordings.figures(recordings.read(TEXT))
        self.assertAlmostEqual(found["p50_s"], 0.05)
        self.assertAlmostEqual(found["p99_s"], 0.05)  # as the simulator counts: the one at 0.99 × 2, rounded down
        self.assertAlmostEqual(found["requests_per_s"], 3 / 2.04)  # from the first arrival to the last end
        self.assertAlmostEqual(found["output_tokens_per_s"], 9 / 2.04)
        self.assertAlmostEqual(found["per_token_p50_s"], 0.01)  # of 10 and 20 ms; one token alone has none
        self.assertAlmostEqual(found["first_token_p50_s"], 0.02)

    def test_the_trace_has_the_requests_and_nothing_of_their_fate(self):
        rows = recordings.read(TEXT)[1:]
        self.assertEqual(recordings.trace_of(rows).splitlines(), [recordings.HEAD, recordings.COLUMNS, "0,,,20,3,0", "1000000,,,30,1,0"])

    def test_an_error_above_zero_is_a_simulation_that_tells_more(self):
        found = recordings.errors({"p50_s": 2, "p99_s": 4, "requests_per_s": 10}, {"p50_s": 3, "p99_s": 3, "requests_per_s": 10})
        self.assertEqual(found, {"p50": 0.5, "p99": -0.25, "throughput": 0})


class Traffic(unittest.TestCase):
    def test_a_seed_gives_the_same_requests_and_another_one_others(self):
        self.assertEqual(traffic.poisson(20, 10, 1), traffic.poisson(20, 10, 1))
        self.assertNotEqual(traffic.poisson(20, 10, 1), traffic.poisson(20, 10, 2))

    def test_rate_and_mix(self):
        asked = traffic.poisson(50, 200, 3)
        self.assertAlmostEqual(len(asked), 10_000, delta=400)
        self.assertAlmostEqual(sum(each.output_tokens for each in asked) / len(asked), traffic.MEAN_OUT, delta=1.5)
        self.assertEqual([each.at_us for each in asked], sorted(each.at_us for each in asked))

    def test_a_prompt_has_one_token_less_than_letters_for_the_one_that_begins_it(self):
        line = traffic.schedule([traffic.Asked(1500, 9, 4)], 1)
        at, text = line.rstrip("\n").split(" ", 1)
        words = json.loads(text)
        self.assertEqual((at, len(words["prompt"]), words["max_tokens"], words["ignore_end"]), ("1500", 8, 4, True))


if __name__ == "__main__":
    unittest.main()
