"""Workers of two Python versions side by side: scripts/build-shim makes the second shim, scripts/make-env its environment.

Needs another interpreter with headers and a shared libpython: $GEARBOX_SECOND_PYTHON, else what is found at the usual places.
"""
import glob
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import support
from cluster import Cluster

VERSIONS = ("3.12", "3.13")    # that configs/envs/numpy.txt has files for, and that are not Debian 12's
PLACES = ("/usr/bin/python3.1?", "/usr/local/bin/python3.1?", "/opt/*/bin/python3", "/usr/local/*/bin/python3",
          "~/.pyenv/versions/*/bin/python3", "~/miniconda3/bin/python3", "~/.local/share/uv/python/*/bin/python3")
USABLE = ("import os, sys, sysconfig\n"
          "get = sysconfig.get_config_var\n"
          "whole = get('Py_ENABLE_SHARED') and os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h'))\n"
          "print('%d.%d' % sys.version_info[:2] if whole else '')")

CODE = '''
import sys
import numpy


class Model:
    def load(self, record, device):
        self.told = f"{sys.version_info[0]}.{sys.version_info[1]} {sys.prefix}"

    def infer(self, batch):
        return [{"python": self.told, "sum": numpy.array([item["image"].sum(dtype="u8")], "u8")} for item in batch]
'''
RECORD = '''
name = "NAME"
version = "1"
load_timeout_ms = 20000

[[input]]
name = "image"
dtype = "UINT8"
probe_shape = [16]

[[output]]
name = "python"
dtype = "BYTES"
shape = [1]

[[output]]
name = "sum"
dtype = "UINT64"
shape = [1]
'''
TASK = '''
[[input]]
name = "image"
dtype = "UINT8"

[[step]]
name = "ours"
model = "ours"
inputs = { image = "request.image" }

[[step]]
name = "other"
model = "other"
inputs = { image = "request.image" }

[result]
ours = "ours.python"
other = "other.python"
ours_sum = "ours.sum"
other_sum = "other.sum"
'''


def second_python():
    """(interpreter, version) of the first usable one, else None."""
    named = os.environ.get("GEARBOX_SECOND_PYTHON")
    found = [named] if named else [path for place in PLACES for path in sorted(glob.glob(os.path.expanduser(place)))]
    for path in found:
        told = subprocess.run([path, "-I", "-c", USABLE], capture_output=True, text=True).stdout.strip()
        if told in VERSIONS:
            return path, told
    return None


def two_pythons(folder, python):
    """One model twice, in an environment of each version."""
    for name in ("ours", "other"):
        (folder / "models" / name).mkdir(parents=True)
        (folder / "models" / name / "model.toml").write_text(RECORD.replace("NAME", name))
        (folder / "models" / name / "model.py").write_text(CODE)
    (folder / "tasks").mkdir()
    (folder / "plugins").mkdir()
    (folder / "tasks/both.toml").write_text(TASK)
    (folder / "gearbox.toml").write_text(
        '[central]\nlisten = "tcp://127.0.0.1:0"\n[node]\nlisten = "tcp://127.0.0.1:0"\n[node.limits]\ninput_arena_mb = 64\n'
        'max_upload_mb = 16\noutput_arena_mb = 8\n'
        f'[env.ours]\npython = "/usr/bin/python3"\n[env.other]\npython = "{python}"\n'
        '[[worker]]\nmodel = "ours"\nenv = "ours"\n[[worker]]\nmodel = "other"\nenv = "other"\n')


class SecondPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = second_python()
        if found is None:
            print(f"NOT RUN: no Python {' or '.join(VERSIONS)} with headers and a shared libpython is on this machine", flush=True)
            raise unittest.SkipTest("no second Python")
        cls.interpreter, cls.version = found
        cls.scratch = Path(tempfile.mkdtemp(prefix="gearbox-python-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.environment = cls.scratch / "env"
        done = subprocess.run([support.ROOT / "scripts/make-env", "--python", cls.interpreter, "numpy", cls.environment],
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0 and "not reachable" in done.stderr:
            print("NOT RUN: numpy for the second Python cannot be fetched", flush=True)
            raise unittest.SkipTest("no package index")
        assert done.returncode == 0, done.stderr
        cls.cluster = Cluster(configs=two_pythons, python=cls.environment / "bin/python")
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.shim = cls.cluster.build / f"bin/worker_shim-{cls.version}"

    def shim_alone(self):
        """Runs the shim of the build on the second environment, with no node there; returns its exit code and its words."""
        done = subprocess.run(
            [self.cluster.build / "bin/worker_shim", "--model", self.cluster.configs / "models/other", "--env", "other", "--python",
             self.environment / "bin/python", "--node", self.scratch / "no-node.sock"], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_both_versions_in_one_task(self):
        if not self.shim.exists():
            self.addCleanup(self.shim.unlink, missing_ok=True)
            code, words = self.shim_alone()
            self.assertEqual(code, 4, words)
            self.assertIn(f"environment 'other' has Python {self.version}", words)
            self.assertIn("scripts/build-shim", words)
            shutil.copy(self.cluster.build / "bin/worker_shim", self.shim)   # one for our version under the other's name
            code, words = self.shim_alone()
            self.assertEqual(code, 4, words)
        done = subprocess.run([support.ROOT / "scripts/build-shim", self.interpreter, self.cluster.build / "bin"], capture_output=True,
                              text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"for Python {self.version}", done.stdout)

        cluster = self.cluster
        cluster.start()
        cluster.wait_ready(60)
        cluster.add_user()
        picture = support.ROOT / "docs/examples/pictures/ear_tag.jpg"
        code, answers, err = cluster.send([picture], task="both", keys=cluster.enrol())
        self.assertEqual(code, 0, f"{err}{answers}")
        told = {name: answers[0]["outputs"][name]["data"][0] for name in ("ours", "other", "ours_sum", "other_sum")}
        self.assertEqual(told["other"], f"{self.version} {self.environment}")
        self.assertRegex(told["ours"], r"3\.\d+ /usr$")
        self.assertEqual(told["ours_sum"], sum(picture.read_bytes()))
        self.assertEqual(told["other_sum"], told["ours_sum"])
        self.assertEqual(cluster.stop(), 0)
        self.assertEqual(cluster.leftovers(), [])

    def test_what_is_missing_is_said(self):
        script = support.ROOT / "scripts/build-shim"
        for words, code, reason in (((), 2, "usage:"), (("/no/python3", self.cluster.build / "bin"), 1, "no Python at /no/python3"),
                                    ((self.interpreter, self.scratch), 1, "holds no worker_shim"),
                                    (("/bin/true", self.cluster.build / "bin"), 1, "is no working Python")):
            done = subprocess.run([script, *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, words)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
