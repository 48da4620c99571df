"""How many threads numeric libraries may use is the broker's to say: in the environment before Python starts."""
import json
import subprocess
import unittest

import support  # noqa: F401
from cluster import ECHO_CONFIG, Cluster, one_step_task

NAMES = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
         "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"]

MODEL = '''
name = "NAME"
version = "1"
framework = "numpy"
MORE

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]
probe_shape = [16]

[[output]]
name = "text"
dtype = "BYTES"
shape = [1]
'''

# As a framework does it: the environment is read when the module is imported.
CODE = '''
import json
import os

NAMES = %r
FIRST = {name: os.environ.get(name) for name in NAMES}
with open("/proc/self/environ", "rb") as file:  # as it was when the process began
    BEGUN = dict(entry.split(b"=", 1) for entry in file.read().split(b"\\0") if b"=" in entry)
try:
    import torch
except ImportError:
    torch = None


class Model:
    def load(self, record, device):
        self.threads = record.threads

    def infer(self, batch):
        facts = {"record": self.threads, "variables": FIRST, "torch": torch.get_num_threads() if torch else None,
                 "begun": BEGUN.get(b"OMP_NUM_THREADS", b"").decode()}
        return [{"text": json.dumps(facts)} for item in batch]
''' % NAMES


def configs(folder):
    (folder / "tasks").mkdir(parents=True)
    (folder / "plugins").mkdir()
    text = ECHO_CONFIG[:ECHO_CONFIG.index("[[worker]]")]
    for name, more in (("usual", ""), ("three", "threads = 3")):
        model = folder / "models" / name
        model.mkdir(parents=True)
        (model / "model.toml").write_text(MODEL.replace("NAME", name).replace("MORE", more))
        (model / "model.py").write_text(CODE)
        (folder / f"tasks/{name}.toml").write_text(one_step_task(name, ["text"]))
        text += f'[[worker]]\nmodel = "{name}"\nenv = "plain"\n\n'
    (folder / "gearbox.toml").write_text(text)


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = Cluster(configs=configs)
        cls.addClassCleanup(cls.site.__exit__)
        # What the administrator's shell says does not reach the workers.
        cls.site.start({"OMP_NUM_THREADS": "7", "MKL_NUM_THREADS": "7"})
        cls.site.wait_ready()

    def facts(self, task):
        file = self.site.scratch / "any.txt"
        file.write_bytes(b"x" * 16)
        answers = json.loads(self.site.run("submit", "--task", task, "--json", file).stdout)
        return json.loads(answers[0]["tensors"][0]["values"][0])

    def test_one_by_default(self):
        facts = self.facts("usual")
        self.assertEqual(facts["variables"], {name: "1" for name in NAMES})
        self.assertEqual((facts["record"], facts["begun"]), (1, "1"))

    def test_as_many_as_the_model_says(self):
        facts = self.facts("three")
        self.assertEqual(facts["variables"], {name: "3" for name in NAMES})
        self.assertEqual((facts["record"], facts["begun"]), (3, "3"))

    def test_pytorch_heeds_them(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode != 0:
            print("NOT RUN: /usr/bin/python3 has no torch (Debian's python3-torch)", flush=True)
            self.skipTest("no torch")
        self.assertEqual(self.facts("usual")["torch"], 1)
        self.assertEqual(self.facts("three")["torch"], 3)


if __name__ == "__main__":
    unittest.main()
