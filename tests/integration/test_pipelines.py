"""Pipelines through a whole installation: a join of two branches, versions by range that change live, and a device's own steps."""
import json
import struct
import subprocess
import unittest

import support  # noqa: F401  (finds the modules of tests/support)
from cluster import Cluster, Failed, wait_until

MODEL = '''
name = "NAME"
version = "VERSION"
framework = "numpy"
load_timeout_ms = 20000
'''

TENSOR = '''
[[KIND]]
name = "NAME"
dtype = "UINT8"
shape = [-1]
'''

CODE = '''
import numpy


class Model:
    def load(self, record, device):
        self.calls = 0

    def infer(self, batch):
        return [self.one(item) for item in batch]

    def one(self, item):
        self.calls += 1
BODY
'''

DIAMOND = '''
summary = "adds what two branches give"

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[step]]                        # stands first, runs last
name = "sum"
model = "sum"
inputs = { a = "more.image", b = "twice.image" }

[[step]]
name = "twice"
model = "twice"
inputs = { image = "request.image" }

[[step]]
name = "more"
model = "more"
version = ">=1.2,<2"
inputs = { image = "request.image" }

[result]
image = "sum.image"
'''

CONFIG = '''
[central]
listen = "tcp://127.0.0.1:0"

[node]
listen = "tcp://127.0.0.1:0"

[node.limits]
max_upload_mb = 8
input_arena_mb = 64
output_arena_mb = 16

[env.plain]
python = "/usr/bin/python3"
'''

OWN_STEPS = '''
[[step]]
name = "second"
model = "more"
version = "~1.2"
inputs = { image = "first.image" }
deadline_share = 0.5
retry = 1

[[step]]
name = "first"
model = "twice"
inputs = { image = "request.image" }

[result]
answer = "second.image"
'''


def add_model(configs, name, version, body, inputs=("image",)):
    """A model whose infer() does `body`; readers see it whole or not at all."""
    folder = configs / f"models/.{name}-{version}"
    folder.mkdir(parents=True)
    text = MODEL.replace("NAME", name).replace("VERSION", version)
    for each in inputs:
        text += TENSOR.replace("KIND", "input").replace("NAME", each)
    text += TENSOR.replace("KIND", "output").replace("NAME", "image")
    (folder / "model.toml").write_text(text)
    (folder / "model.py").write_text(CODE.replace("BODY", "        " + body))
    folder.rename(configs / f"models/{name}-{version}")


def add_more(configs, version, by):
    add_model(configs, "more", version, f'return {{"image": item["image"] + numpy.uint8({by})}}')


def pipeline_configs(folder):
    (folder / "tasks").mkdir(parents=True)
    (folder / "plugins").mkdir()
    add_model(folder, "twice", "1", 'return {"image": item["image"] * numpy.uint8(2)}')
    add_model(folder, "sum", "1", 'return {"image": item["a"] + item["b"]}', inputs=("a", "b"))
    add_more(folder, "1.2", 1)
    (folder / "tasks/diamond.toml").write_text(DIAMOND)
    workers = "".join(f'\n[[worker]]\nmodel = "{name}"\nenv = "plain"\n' for name in ("twice", "sum", "more"))
    (folder / "gearbox.toml").write_text(CONFIG + workers)


class Pipelines(unittest.TestCase):
    def setUp(self):
        self.site = Cluster(configs=pipeline_configs)
        self.addCleanup(self.site.__exit__)
        self.site.start()
        self.site.wait_ready()
        self.site.add_user()
        self.keys = self.site.enrol()
        self.file = self.site.scratch / "numbers.npy"
        head = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"
        head += " " * (-(10 + len(head) + 1) % 64) + "\n"
        self.file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes([1, 2, 3]))

    def end(self):
        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])

    def ask(self, *what):
        """Runs pi_client send with `what`; returns (exit code, answer, what it said)."""
        words = self.site.client_words("send", "anna", self.keys)
        done = subprocess.run([*words, *map(str, what), "--json", str(self.file)], capture_output=True, text=True, timeout=60)
        lines = done.stdout.splitlines()
        return done.returncode, json.loads(lines[0]) if lines else None, done.stderr

    def diamond(self):
        code, answer, said = self.ask("--task", "diamond")
        self.assertEqual(code, 0, (answer, said))
        return answer

    def version_of(self, step):
        return next(each["version"] for each in self.diamond()["timing"]["steps"] if each["step"] == step)

    def wait_for_model(self, name, version):
        def ready():
            models = (self.site.status()["node"] or {}).get("models", [])
            return any(each["name"] == name and each["version"] == version and each["ready"] for each in models)
        try:
            wait_until(f"{name} {version} ready", ready, 30)
        except Failed as failed:
            raise Failed(f"{failed}\n{self.site.log()}") from None

    def test_a_diamond_whose_versions_change_live(self):
        answer = self.diamond()
        self.assertEqual(answer["outputs"]["image"]["data"], [2 + 2, 3 + 4, 4 + 6])
        self.assertEqual([each["step"] for each in answer["timing"]["steps"]][-1], "sum")

        add_more(self.site.configs, "2.0", 100)  # outside of the range
        self.wait_for_model("more", "2.0")
        self.assertEqual(self.version_of("more"), "1.2")
        add_more(self.site.configs, "1.10", 10)  # inside
        self.wait_for_model("more", "1.10")
        answer = self.diamond()
        self.assertEqual(answer["outputs"]["image"]["data"], [11 + 2, 12 + 4, 13 + 6])
        self.assertEqual(self.version_of("more"), "1.10")

        explained = self.site.run("explain", answer["request"]).stdout
        self.assertIn(">=1.2,<2 was asked for; the newest that the task's range admits; the newest is 2.0", explained)
        self.end()

    def test_a_wrong_graph_changes_nothing_and_is_told_with_its_place(self):
        task = self.site.configs / "tasks/diamond.toml"
        text = task.read_text()
        task.write_text(text.replace('inputs = { image = "request.image" }', 'inputs = { image = "sum.image" }', 1))
        checked = self.site.run("config", "check", "--config", self.site.configs, ok=False)
        self.assertEqual(checked.returncode, 2)
        said = checked.stdout + checked.stderr
        self.assertRegex(said, r"tasks/diamond\.toml:\d+:\d+: step\[\d\]\.inputs\.\w+: the steps feed each other in a circle: ")
        self.assertRegex(said, "sum -> twice -> sum|twice -> sum -> twice")
        self.assertEqual(self.diamond()["outputs"]["image"]["data"], [4, 7, 10])
        self.end()

    def test_a_device_sends_its_own_steps_when_its_account_may(self):
        steps = self.site.scratch / "steps.toml"
        steps.write_text(OWN_STEPS)
        code, answer, _ = self.ask("--steps", steps)
        self.assertEqual(code, 1)
        self.assertEqual(answer["error"]["name"], "not_allowed")

        self.site.run("users", "set", "anna", "--own-steps", "yes")
        listed = json.loads(self.site.run("users", "list", "--json").stdout)
        self.assertEqual([each["own_steps"] for each in listed], [True])
        code, answer, said = self.ask("--steps", steps)
        self.assertEqual(code, 0, (answer, said))
        self.assertEqual(answer["outputs"]["answer"]["data"], [3, 5, 7])
        self.assertEqual([each["step"] for each in answer["timing"]["steps"]], ["first", "second"])
        self.assertIn("(own steps)", self.site.run("explain", answer["request"]).stdout)

        # The same through the node's own socket, and what is wrong with its place.
        local = self.site.run("submit", "--steps", steps, "--json", self.file, ok=False)
        self.assertEqual(json.loads(local.stdout)[0]["ok"], True, local.stdout)
        steps.write_text(OWN_STEPS.replace("second.image", "first.image"))
        code, answer, _ = self.ask("--steps", steps)
        self.assertEqual((code, answer["error"]["name"]), (1, "bad_input"))
        self.assertIn("step 1 'second', name: step 'second' feeds nothing and is no result", answer["error"]["detail"])
        steps.write_text(OWN_STEPS.replace('"twice"', '"thrice"'))
        code, answer, _ = self.ask("--steps", steps)
        self.assertEqual((code, answer["error"]["name"]), (1, "not_found"))
        self.assertIn("no node has a model 'thrice'", answer["error"]["detail"])
        steps.write_text(OWN_STEPS.replace("retry = 1", "retry = 9"))
        code, answer, said = self.ask("--steps", steps)
        self.assertEqual((code, answer), (2, None))
        self.assertIn("steps.toml:8:9: step[1].retry: 9 is out of range (0 to 5)", said)

        self.site.run("users", "set", "anna", "--own-steps", "no")
        steps.write_text(OWN_STEPS)
        code, answer, _ = self.ask("--steps", steps)
        self.assertEqual((code, answer["error"]["name"]), (1, "not_allowed"))
        self.end()


if __name__ == "__main__":
    unittest.main()
