"""Models that misbehave in each way that is known from the field, side by side with one that behaves: each harms its own
task only, each request ends once, and nothing is left when the broker stops."""
import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import support
import cluster
from cluster import wait_until

# What a body lacks to be a model: it is run when the module is imported, and its infer() is asked item by item.
WRAPPER = '''
import pathlib
import numpy

BODY = {}
exec(compile(pathlib.Path(__file__).with_name("body.py").read_text(), "body.py", "exec"), BODY)


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        answers = []
        for item in batch:
            with open(RUNS, "a") as runs:
                runs.write("run\\n")
            given = BODY["infer"]({"image": item["image"]})
            given = given.get("echo", given) if isinstance(given, dict) else given
            answers.append({name: numpy.asarray(value) if name == "score" else value for name, value in given.items()})
        return answers
'''

RECORD = '''
name = "NAME"
version = "1"
call_timeout_ms = 20000

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[output]]
OUTPUT
'''

IMAGE = 'name = "image"\ndtype = "UINT8"\nshape = [-1]'
LABEL = 'name = "label"\ndtype = "BYTES"\nshape = [1]'
SCORE = 'name = "score"\ndtype = "FP32"\nshape = [-1]'
ECHO = "def infer(inputs): return inputs\n"

# name: (body, output, deadline)
BODIES = {
    "killed-in-init": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n" + ECHO, IMAGE, 60000),
    "aborts-in-init": ("import os\nos.abort()\n" + ECHO, IMAGE, 60000),
    "killed-mid-request": ("import os, signal\n"
                           "def infer(inputs):\n"
                           "    if inputs['image'].size == 1: return inputs\n"  # the probe
                           "    os.kill(os.getpid(), signal.SIGKILL)\n", IMAGE, 60000),
    "segfault": ("import ctypes\n"
                 "def infer(inputs):\n"
                 "    if inputs['image'].size == 1: return inputs\n"
                 "    ctypes.string_at(8)\n", IMAGE, 60000),
    "exits-mid-request": ("import sys\n"
                          "def infer(inputs):\n"
                          "    if inputs['image'].size == 1: return inputs\n"
                          "    sys.exit('enough')\n", IMAGE, 60000),
    "import-error": ("import a_module_that_is_not_there\n" + ECHO, IMAGE, 60000),
    "syntax-error": ("def infer(inputs: return inputs\n", IMAGE, 60000),
    "system-exit": ("import sys\nsys.exit('bad weights')\n" + ECHO, IMAGE, 60000),
    "thread-left-running": ("import threading\n"
                            "threading.Thread(target=threading.Event().wait).start()\n" + ECHO, IMAGE, 60000),
    "non-utf8-reply": ("def infer(inputs): return {'label': b'\\xff\\xfe\\x80caf\\xe9'}\n", LABEL, 60000),
    "nan-reply": ("import array\n"
                  "def infer(inputs): return {'score': array.array('f', [1.0, float('nan'), float('inf'), float('-inf'), -0.0,"
                  " 1e-45])}\n", SCORE, 60000),
    "answers-late": ("def infer(inputs):\n"
                     "    if inputs['image'].size > 1: open(GATE).read()\n"
                     "    return inputs\n", IMAGE, 1000),
}
# What must become of each body in ../shared/cases/workers: (how its reason ends when it cannot get ready, Python's own
# last line or how it died; what a request gets when it can). The probe is a call: those that kill in a request do not get ready either.
HELLO = b"hello, hello"
FIELD = {
    "c01-killed-in-init": ("its process ended: killed by signal 9 (SIGKILL)", None),
    "c01-killed-mid-request": ("its process ended: killed by signal 9 (SIGKILL)", None),
    "c01-segfault": ("its process ended: killed by signal 11 (SIGSEGV)", None),
    "c06-import-error": ("model_failed: ModuleNotFoundError: No module named 'a_module_that_is_not_there'", None),
    "c06-system-exit": ("model_failed: SystemExit: bad weights", None),
    "c40-thread-left-running": (None, HELLO),
    "c41-non-utf8-reply": (None, b"\x07\0\0\0\xff\xfe\x80caf\xe9"),
    "c53-nan-reply": (None, bytes.fromhex("0000803f" "0000c07f" "0000807f" "000080ff")),
    "c78-answers-late": (None, HELLO),
}
NEVER_READY = {"killed-in-init": "", "aborts-in-init": "", "import-error": "a_module_that_is_not_there",
               "syntax-error": "SyntaxError", "system-exit": "bad weights"}


def gate_path(folder):
    return folder.parent / "gate"


def configs_of(bodies):
    def write(folder):
        cluster.echo_configs(folder, 1)
        workers = ""
        for name, (body, output, deadline) in bodies.items():
            model = folder / "models" / name
            model.mkdir()
            field = output.split('"')[1]
            (model / "model.toml").write_text(RECORD.replace("NAME", name).replace("OUTPUT", output))
            runs = folder.parent / f"runs-{name}"
            (model / "model.py").write_text(WRAPPER.replace("RUNS", repr(str(runs))))
            (model / "body.py").write_text(body.replace("GATE", repr(str(gate_path(folder)))))
            (folder / f"tasks/{name}.toml").write_text(
                cluster.one_step_task(name, [field], f"deadline_ms = {deadline}"))
            (folder / f"tasks/{name}-1s.toml").write_text(cluster.one_step_task(name, [field], "deadline_ms = 1000"))
            workers += f'\n[[worker]]\nmodel = "{name}"\nenv = "plain"\ncount = 1\n'
        file = folder / "gearbox.toml"
        file.write_text(file.read_text() + workers)
    return write


class Misbehaving(unittest.TestCase):
    def start(self, bodies):
        self.site = cluster.Cluster(configs=configs_of(bodies))
        self.addCleanup(self.site.__exit__)
        self.site.start()
        wait_until("the good task", lambda: self.workers().get("echo", {}).get("state") == "ready", 60)
        self.file = self.site.scratch / "hello.bin"
        self.file.write_bytes(HELLO)

    def workers(self):
        return {worker["model"]: worker for worker in (self.site.status()["node"] or {}).get("workers", [])}

    def wait_for(self, model, *states, seconds=90):
        return wait_until(f"{model} is {' or '.join(states)}", lambda: (
            lambda worker: worker if worker.get("state") in states else None)(self.workers().get(model, {})), seconds)

    def submit(self, task, seconds=60):
        done = self.site.run("submit", "--task", task, self.file, "--json", ok=False, seconds=seconds)
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)[0]

    def runs(self, name):
        file = self.site.configs.parent / f"runs-{name}"
        return len(file.read_text().split()) if file.exists() else 0

    def good_one(self):
        self.assertTrue(self.submit("echo")["ok"])

    def stop_whole(self):
        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])

    def check_never_ready(self, names):
        for name, words in names.items():
            worker = self.wait_for(name, "failed")
            self.assertIn(words, worker["reason"])
            self.assertTrue(worker["reason"], name)
            answer = self.submit(name)
            self.assertEqual(answer["error"]["name"], "model_unavailable", answer)
            self.assertIn(words, answer["error"]["detail"])
            self.good_one()

    def test_a_model_that_never_gets_ready_ends_in_failed_with_its_reason_and_a_new_file_revives_it(self):
        self.start({name: BODIES[name] for name in NEVER_READY})
        self.check_never_ready(NEVER_READY)
        status = self.site.run("status").stdout
        print(status, flush=True)
        for words in NEVER_READY.values():
            self.assertIn(words, status)
        for name in ("killed-in-init", "import-error"):
            file = self.site.configs / "models" / name / "body.py"
            file.write_text(ECHO)
            self.wait_for(name, "ready")
            self.assertTrue(self.submit(name)["ok"])
        self.stop_whole()

    def test_a_request_that_kills_its_workers_is_tried_twice_and_no_more(self):
        names = ("killed-mid-request", "segfault")
        self.start({name: BODIES[name] for name in (*names, "exits-mid-request")})
        for name in names:
            self.wait_for(name, "ready")
            probes = self.runs(name)
            answer = self.submit(name)
            self.assertEqual(answer["error"]["name"], "quarantined", answer)
            self.wait_for(name, "ready")  # replaced
            self.assertGreaterEqual(self.runs(name) - probes, 2)
            self.assertIn(name, self.site.run("quarantine", "list").stdout)
            self.good_one()
        self.wait_for("exits-mid-request", "ready")
        pid = self.workers()["exits-mid-request"]["pid"]
        answer = self.submit("exits-mid-request")
        self.assertEqual(answer["error"]["name"], "model_failed", answer)
        self.assertIn("enough", answer["error"]["detail"])
        self.assertEqual(self.workers()["exits-mid-request"]["pid"], pid, "an exception is no reason to die")
        self.stop_whole()

    def test_odd_values_pass_unchanged_and_odd_threads_delay_no_end(self):
        names = ("thread-left-running", "non-utf8-reply", "nan-reply")
        self.start({name: BODIES[name] for name in names})
        for name in names:
            self.wait_for(name, "ready")
            self.assertTrue(self.submit(name)["ok"])
        self.assertEqual(self.result_of("nan-reply"), bytes.fromhex("0000803f" "0000c07f" "0000807f" "000080ff" "00000080" "01000000"))
        self.assertEqual(self.result_of("non-utf8-reply"), b"\x07\0\0\0\xff\xfe\x80caf\xe9")
        self.assertIn("\\xff\\xfe\\x80caf\\xe9", self.submit("non-utf8-reply")["tensors"][0]["values"][0])
        self.good_one()
        self.stop_whole()

    def result_of(self, task):
        """The kept result's bytes."""
        def kept():
            rows = json.loads(self.site.run("results", "list", "--json", "--task", task, ok=False).stdout or "[]")
            return rows[0]["request"] if rows else None
        request = wait_until("a kept result", kept, 20)
        folder = self.site.scratch / f"kept-{task}"
        self.site.run("results", "get", request, "--out", folder)
        outputs = list(Path(folder).glob("*.out"))
        self.assertEqual(len(outputs), 1)
        return outputs[0].read_bytes()

    def test_a_late_answer_reaches_nobody(self):
        self.start({"answers-late": BODIES["answers-late"]})
        gate = cluster.Gate(gate_path(self.site.configs))
        self.addCleanup(gate.open)
        pid = self.wait_for("answers-late", "ready")["pid"]
        before = self.runs("answers-late")
        for _ in range(2):
            answer = self.submit("answers-late")
            self.assertEqual(answer["error"]["name"], "deadline_exceeded", answer)
        self.good_one()
        self.assertTrue(gate.is_reached(), "the first one is still there")
        gate.open()
        wait_until("both calls to end", lambda: self.workers()["answers-late"]["running"] == 0, 30)
        self.assertEqual(self.workers()["answers-late"]["pid"], pid, "a late answer is no fault against the contract")
        self.assertEqual(self.runs("answers-late") - before, 1, "the second was late before it could be run")
        self.stop_whole()

    def test_the_field_s_own_bodies(self):
        folder = support.needs(support.SHARED / "cases/workers", "the collection of misbehaving workers")
        bodies = {}
        for file in sorted(folder.glob("*.py")):
            code = file.read_text()
            output = LABEL if "label" in code else SCORE if "score" in code else IMAGE
            bodies[file.stem.replace("_", "-")] = (code, output, 60000)
        self.assertEqual(set(bodies), set(FIELD), "each has an outcome that must be")
        self.start(bodies)
        for name, (reason, content) in FIELD.items():
            with self.subTest(name):
                worker = self.wait_for(name, "ready", "failed")
                print(name, worker["state"], worker["reason"], flush=True)
                if reason is not None:
                    self.assertEqual(worker["state"], "failed")
                    self.assertRegex(worker["reason"], re.escape(reason) + r"( \(model\.py:\d+\))?$")
                    self.assertIn(reason, self.site.run("status").stdout)
                    self.assertEqual(self.submit(name)["error"]["name"], "model_unavailable")
                else:
                    self.assertEqual(worker["state"], "ready")
                    if name == "c78-answers-late":  # in five seconds
                        self.file.write_bytes(b"nobody waits for this")
                        late = self.submit(f"{name}-1s")
                        self.assertEqual(late["error"]["name"], "deadline_exceeded", late)
                        self.file.write_bytes(HELLO)
                    self.assertTrue(self.submit(name)["ok"])
                    self.assertEqual(self.result_of(name), content)
                    self.assertEqual(self.workers()[name]["pid"], worker["pid"], "there is no reason to replace it")
                self.good_one()
        self.stop_whole()


if __name__ == "__main__":
    unittest.main()
