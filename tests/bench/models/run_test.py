"""bench/models/run with the echo, one client, one second: it works and writes its names. How fast anything was is not looked at."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "bench/models/run"


class Run(unittest.TestCase):
    def bench(self, *words, **environment):
        return subprocess.run([str(RUN), "--build", os.environ.get("GEARBOX_BUILD", str(ROOT / "build/dev")), *words], capture_output=True,
                              text=True, timeout=240, env={**os.environ, **environment})

    def test_the_echo_writes_its_names_and_a_peer_that_cannot_be_had_is_said(self):
        if len(os.sched_getaffinity(0)) < 2:
            print("NOT RUN: the bench needs two cores", flush=True)
            self.skipTest("one core")
        with tempfile.TemporaryDirectory(prefix="gearbox-bench-") as folder:
            file = Path(folder, "out.json")
            done = self.bench("--json", str(file), "--models", "echo", "--peers", "mosec", "--envs", folder, "--rounds", "1", "--seconds", "2", "--warm-up", "0.5",
                              "--clients", "1", "--python", "/usr/bin/python3", PIP_NO_INDEX="1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("NOT RUN: mosec: it cannot be installed", done.stdout)
            found = json.loads(file.read_text())
        wanted = {f"models.echo_{name}" for name in ("broker_cost", "worker_busy", "worker_cpu_over_direct", "saturated_at_clients")}
        wanted |= {f"models.echo_{arm}_1_{figure}" for arm in ("direct", "gearbox") for figure in ("per_s", "p50_ms", "p99_ms")}
        self.assertEqual(set(found), wanted)
        self.assertTrue(all(isinstance(value, (int, float)) for value in found.values()), found)
        self.assertTrue(0 < found["models.echo_worker_busy"] <= 1, found)

    def test_wrong_words_are_refused(self):
        for words in (("--models", "nosuch"), ("--peers", "nosuch"), ("--clients", "0"), ("--rounds", "0"), ("--python", "/nosuch")):
            with self.subTest(words):
                self.assertEqual(self.bench(*words).returncode, 2)


if __name__ == "__main__":
    unittest.main()
