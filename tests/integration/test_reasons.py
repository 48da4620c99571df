"""What people are told when something does not go: the reason that the broker knows, at each place where they may look."""
import json
import os
import signal
import subprocess
import unittest

import support  # noqa: F401
import cluster
from cluster import jpeg, one_step_task, wait_until

LINES_RECORD = '''
name = "lines"
version = "1"
framework = "numpy"

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]
probe_shape = [16]

[[output]]
name = "lines"
dtype = "UINT8"
shape = [-1]
list = true
'''

# As many lines as the image has bytes, no two neighbours of one length.
LINES_CODE = '''
import numpy


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        return [{"lines": [numpy.zeros(1 + i % 2, numpy.uint8) for i in range(len(item["image"]))]} for item in batch]
'''

TWICE_TASK = one_step_task("lines", ["lines"]).replace(
    "[result]", '[[step]]\nname = "again"\nmodel = "lines"\ninputs = {image = "request.image"}\n\n[result]\n'
                'more = "again.lines"')


def add_lines(folder, with_worker):
    (folder / "models/lines").mkdir()
    (folder / "models/lines/model.toml").write_text(LINES_RECORD)
    (folder / "models/lines/model.py").write_text(LINES_CODE)
    (folder / "tasks/lines.toml").write_text(one_step_task("lines", ["lines"]))
    if with_worker:
        main = folder / "gearbox.toml"
        main.write_text(main.read_text() + '\n[[worker]]\nmodel = "lines"\nenv = "plain"\n')


class Reasons(unittest.TestCase):
    def begin(self, lines=None, replace=()):
        self.site = cluster.Cluster()
        self.addCleanup(self.site.__exit__)
        if lines is not None:
            add_lines(self.site.configs, with_worker=lines)
        main = self.site.configs / "gearbox.toml"
        for old, new in replace:
            self.assertIn(old, main.read_text())
            main.write_text(main.read_text().replace(old, new, 1))
        self.file = self.site.scratch / "file.bin"

    def submit(self, task, content, *more):
        self.file.write_bytes(content)
        done = self.site.run("submit", "--task", task, self.file, "--json", *more, ok=False)
        return json.loads(done.stdout)[0]

    def start_submit(self, order, *more):
        self.file.write_bytes(jpeg(100, order))
        return subprocess.Popen([self.site.broker, "submit", "--task", "echo", *more, self.file, "--state", self.site.state],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop_whole(self):
        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])

    def test_a_task_without_a_worker_is_told_of_everywhere(self):
        self.begin(lines=False)
        reason = "no [[worker]] names model 'lines'"
        checked = subprocess.run([self.site.broker, "config", "check", "--config", self.site.configs],
                                 capture_output=True, text=True, check=True).stdout
        self.assertIn(f"warning: task 'lines' cannot run here: {reason}", checked)
        self.assertNotIn("task 'echo'", checked)
        checked = json.loads(subprocess.run([self.site.broker, "config", "check", "--json", "--config", self.site.configs],
                                            capture_output=True, text=True, check=True).stdout)
        self.assertEqual((checked["ok"], len(checked["warnings"])), (True, 1))
        doctor = json.loads(self.site.run("doctor", "--json", "--config", self.site.configs, ok=False).stdout)
        found = [each for each in doctor["findings"] if each["check"] == "task lines"]
        self.assertEqual([(each["verdict"], reason in each["what"]) for each in found], [("warn", True)])

        self.site.start()
        wait_until("its log says why it is not ready",
                   lambda: f"node is not ready" in self.site.log() and f"lines ({reason})" in self.site.log(), 60)
        self.assertTrue(self.submit("echo", b"hello")["ok"], "the other task is served")
        page = self.site.run("status").stdout
        self.assertRegex(page, rf"lines +latest +0 +0 +no worker +{reason.replace('[', chr(92) + '[')}")
        error = self.submit("lines", b"12")["error"]
        self.assertEqual(error["name"], "model_unavailable")
        self.stop_whole()

    def test_a_list_may_be_long_and_one_that_is_too_long_is_named(self):
        self.begin(lines=True)
        (self.site.configs / "tasks/twice.toml").write_text(TWICE_TASK)
        self.site.start()
        self.site.wait_ready()
        answer = self.submit("lines", b"x" * 65)
        self.assertTrue(answer["ok"], answer)
        self.assertEqual([each["name"] for each in answer["tensors"]], [f"lines.{i}" for i in range(65)])
        self.assertEqual(len(self.submit("lines", b"x" * 128)["tensors"]), 128)
        error = self.submit("lines", b"x" * 129)["error"]
        self.assertEqual(error["name"], "result_too_large")
        self.assertIn("output 'lines': 129 tensors; one answer holds at most 128", error["detail"])
        error = self.submit("twice", b"x" * 80)["error"]
        self.assertEqual(error["name"], "result_too_large")
        self.assertIn("the result has 160 tensors; 'lines' has 80 of them; one answer holds at most 128", error["detail"])
        self.stop_whole()

    def test_submit_says_what_its_own_end_means_for_the_request(self):
        self.begin()
        self.site.start()
        self.site.wait_ready()
        late = self.start_submit("sleep 3", "--timeout-ms", "700")
        said = late.communicate(timeout=30)[1]
        self.assertEqual(late.returncode, 1)
        self.assertRegex(said, r"timeout: no answer in 700 ms; request [0-9a-f]{12} has no more time than that|deadline_exceeded")
        goes_on = (r"unless journal.level is none, its next process goes on with request [0-9a-f]{12}: "
                   r"see `broker results list`")
        for more, meaning in ([], goes_on), (["--stream"], "nobody takes the parts of request [0-9a-f]{12} any more: send it again"):
            before = self.site.status()["node"]["counters"]["accepted"]
            sender = self.start_submit("sleep 2", *more)
            wait_until("the node answers for it", lambda: self.site.status()["node"]["counters"]["accepted"] > before, 20, 0.02)
            os.kill(self.site.record("node")["pid"], signal.SIGKILL)
            said = sender.communicate(timeout=30)[1]
            self.assertEqual(sender.returncode, 1)
            self.assertRegex(said, r"closed: the node ended \(.*\); " + meaning)
            if not more:
                request = said.split("request ")[1][:12]
                done = wait_until("the next node has it done", lambda: [
                    line for line in self.site.run("results", "list").stdout.splitlines() if line.startswith(request)], 30)
                self.assertIn(" done ", done[0])
            self.site.wait_ready()
        self.stop_whole()

    def test_each_command_that_needs_a_node_says_so_in_the_same_words(self):
        self.begin()
        self.file.write_bytes(b"x")
        for words in (["submit", "--task", "echo", self.file], ["quarantine", "list"], ["quarantine", "release", "abcdef"],
                      ["shm"], ["explain", "abcdef"]):
            done = self.site.run(*words, ok=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("no node runs here", done.stderr, words)


if __name__ == "__main__":
    unittest.main()
