"""`broker replay` with the shipped plugins. Usage: test_replay_commands.py BROKER EXAMPLES"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLES = Path(sys.argv.pop(2)) if len(sys.argv) > 2 else Path()
BROKER = sys.argv.pop(1) if len(sys.argv) > 1 else ""
TRACE = """# gearbox-trace 1
at_us,model,tenant,input_tokens,output_tokens,bytes
""" + "".join(f"{100_000 * i},,,{200 + 37 * i % 900},{20 + 11 * i % 150},900\n" for i in range(300))


class ReplayCommands(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gearbox-replay-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "t.trace").write_text(TRACE)
        (self.folder / "tmp").mkdir()

    def broker(self, *words, code=0):
        done = subprocess.run([BROKER, "replay", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "TMPDIR": str(self.folder / "tmp")})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "the plugins' copies are gone")
        return done.stdout if code == 0 else done.stdout + done.stderr

    def traffic(self, trace=None):
        return ("--trace", trace or self.folder / "t.trace", "--cluster", EXAMPLES / "a100-8.toml", "--model", EXAMPLES / "llm-7b.toml")

    def configuration(self, name, policy):
        folder = self.folder / name
        folder.mkdir()
        (folder / "gearbox.toml").write_text(f'[gears]\npolicy = "{policy}"\n')
        return folder

    def test_the_same_seed_gives_the_same_figures_through_the_plugins(self):
        first, second = ([contender["figures"] for contender in json.loads(
            self.broker("run", *self.traffic(), "--policy", "cost_model", "--gear", "1", "--json", "-"))["contenders"]] for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(first[0]["done"]["mean"], 300)
        self.assertGreater(first[0]["shifts"]["mean"], 0)
        self.assertLess(first[0]["mean_s"]["mean"], first[1]["mean_s"]["mean"], "at low load wide gears are faster")

    def test_reports_are_written(self):
        html, facts = self.folder / "r.html", self.folder / "r.json"
        text = self.broker("run", *self.traffic(), "--policy", "flexpipe", "--policy", "best-gear", "--seeds", "2", "--html", html, "--json", facts)
        self.assertIn("300 requests", text)
        self.assertIn("best gear (3)", text)
        self.assertTrue(html.read_text(encoding="utf-8").rstrip().endswith("</html>"))
        self.assertEqual(json.loads(facts.read_text())["seeds"], 2)

    def test_each_request_of_a_run_can_be_written_out(self):
        told = self.folder / "r.csv"
        self.broker("run", *self.traffic(), "--gear", "1", "--requests", told)
        lines = [line.split(",") for line in told.read_text().splitlines()]
        self.assertEqual(lines[0], ["number", "at_us", "first_us", "latency_us"])
        self.assertEqual([(int(number), int(at)) for number, at, _, _ in lines[1:]], [(i, 100_000 * i) for i in range(300)])
        self.assertTrue(all(0 < int(first) <= int(latency) for _, _, first, latency in lines[1:]))

    def test_the_gate_lets_pass_what_is_not_worse(self):
        priced, simple = self.configuration("priced", "cost_model"), self.configuration("simple", "flexpipe")
        self.assertIn("not worse", self.broker("gate", *self.traffic(), "--candidate", priced, "--against", simple))
        self.assertIn("does not pass", self.broker("gate", *self.traffic(), "--candidate", simple, "--against", priced, code=1))
        facts = json.loads(self.broker("gate", *self.traffic(), "--candidate", simple, "--against", simple, "--json"))
        self.assertTrue(facts["passes"])

    def test_traces_are_converted_and_read_back(self):
        (self.folder / "azure.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n"
                                               "2023-11-16 18:17:04.0319600,31,8\n")
        text = self.broker("convert", self.folder / "azure.csv")
        self.assertEqual(text.splitlines()[2:], ["0,,,48,10,0", "52000,,,31,8,0"])
        (self.folder / "own.trace").write_text(text)
        self.assertEqual(self.broker("convert", self.folder / "own.trace"), text)

    def test_what_is_wrong_is_told(self):
        self.assertIn("nope", self.broker("run", *self.traffic(), "--policy", "nope", code=1))
        self.assertIn("did you mean 'day'", self.broker("run", *self.traffic("make:dya,rate=1"), code=1))
        self.assertIn("no known trace", self.broker("run", *self.traffic(EXAMPLES / "llm-7b.toml"), code=1))
        (self.folder / "c.toml").write_text("[[nodes]]\nname = 'n'\ncard = 'a100-80g'\ncard_s = 8\n")
        told = self.broker("run", "--trace", self.folder / "t.trace", "--cluster", self.folder / "c.toml", "--model", EXAMPLES / "llm-7b.toml", code=2)
        self.assertIn("c.toml:4", told)


if __name__ == "__main__":
    unittest.main()
