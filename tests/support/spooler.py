"""A device that runs `pi_client run`: its spool, its pictures, its answers. For test cases that have self.cluster, self.central, self.keys.

Standard library only.
"""
import json
import os
import signal
import subprocess

from cluster import jpeg, wait_until


class Spooler:
    """Mixed into a TestCase."""

    runner = None

    def make_folders(self, folder):
        self.folder = folder
        self.spool = folder / "spool"
        self.pictures = folder / "pictures"
        self.pictures.mkdir()
        self.addCleanup(self.kill_runner)

    # -- the client

    def run_client(self, *more):
        """`pi_client run` at self.central, as the device with self.keys."""
        words = self.cluster.client_words("run", "anna", self.keys, self.central)
        log = open(self.folder / "run.log", "ab")
        with log:
            self.runner = subprocess.Popen([*words, "--spool", self.spool, "--task", "echo", *map(str, more)],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop_client(self):
        self.runner.send_signal(signal.SIGTERM)
        self.assertEqual(self.runner.wait(20), 0, self.log())

    def kill_runner(self):
        if self.runner is not None and self.runner.poll() is None:
            self.runner.kill()
            self.runner.wait()

    def log(self):
        return (self.folder / "run.log").read_text()

    def spooled(self):
        done = subprocess.run([self.cluster.client, "spool", "list", "--spool", self.spool, "--json"], capture_output=True, text=True,
                              timeout=60)
        if "there is no spool at" in done.stderr:
            return []  # the client that makes it has only just been started
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def answers(self):
        file = self.spool / "answers.jsonl"
        whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
        return [json.loads(line) for line in whole.splitlines()]

    def write(self, first, last, size=30_000, order="sleep 0.2"):
        for number in range(first, last):
            hidden = self.pictures / f".{number}.jpg"
            hidden.write_bytes(jpeg(size if number % 2 else 5 * size, order))
            hidden.rename(self.pictures / f"{number}.jpg")

    def until_answered(self, count, seconds=120):
        try:
            wait_until(f"{count} answers", lambda: len(self.answers()) >= count, seconds, 0.05)
        except Exception as failed:
            raise AssertionError(f"{failed}: {len(self.answers())} answers, {len(self.spooled())} spooled\n{self.log()}") from None

    def each_has_one_answer(self, count):
        wait_until("an empty spool", lambda: not self.spooled(), 30)
        answers = self.answers()
        self.assertEqual([answer for answer in answers if not answer["ok"]], [], self.log())
        self.assertEqual(sorted(os.path.basename(answer["file"]) for answer in answers), sorted(f"{n}.jpg" for n in range(count)))
        self.assertEqual(len({answer["request"] for answer in answers}), count)
        self.assertEqual([file.name for file in self.spool.iterdir() if file.suffix in (".bin", ".new")], [])
