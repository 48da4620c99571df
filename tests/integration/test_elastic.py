"""A language model on four ranks as one model of a node: answers in parts, shifts and deaths of ranks meanwhile."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

import support
from cluster import Cluster, wait_until

DATA = support.SHARED / "data/llm"


def has_torch():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode == 0


def configs(folder, trained):
    shutil.copytree(support.ROOT / "examples/gears", folder)
    (folder / "plugins").mkdir(exist_ok=True)
    file = folder / "gearbox.toml"
    file.write_text(re.sub(r'(listen = "tcp://127\.0\.0\.1):\d+"', r'\1:0"', file.read_text()))
    if trained:
        file = folder / "models/stories/engine.toml"
        text = re.sub(r"\[random\].*?\n\n", "", file.read_text(), flags=re.S)
        file.write_text(f'checkpoint = "{DATA}/stories260K.bin"\ntokenizer = "{DATA}/tok512.bin"\n{text}')


class Gears(unittest.TestCase):
    files = 0

    @classmethod
    def setUpClass(cls):
        if not has_torch():
            print("NOT RUN: /usr/bin/python3 has no PyTorch", flush=True)
            raise unittest.SkipTest("no PyTorch")
        cls.lines = None
        if (DATA / "golden.jsonl").exists():
            cls.lines = [json.loads(line) for line in (DATA / "golden.jsonl").read_text().splitlines()]
        else:
            print(f"NOT RUN: golden texts: {DATA} is not here; a random model against itself instead", flush=True)
        cls.site = Cluster(configs=configs, trained=cls.lines is not None)
        cls.addClassCleanup(cls.site.__exit__)
        cls.site.start({"GEARBOX_STATE": str(cls.site.state)})
        cls.site.wait_ready()
        prompts = [line["prompt"] for line in cls.lines[1:13]] if cls.lines else ["one", "two", "three"]
        cls.prompts = [json.dumps({"prompt": prompt, "max_tokens": 96, "ignore_end": True}) for prompt in prompts]
        cls.expected = [line["text"].encode() for line in cls.lines[1:13]] if cls.lines else \
            [cls.finished(cls.submit(prompt)) for prompt in cls.prompts]

    @classmethod
    def tearDownClass(cls):
        ranks = [rank["pid"] for rank in cls.ask({"op": "status"})["ranks"]]
        assert cls.site.stop() == 0, cls.site.log()
        assert cls.site.leftovers() == [], cls.site.leftovers()
        assert not any(Path(f"/proc/{pid}").exists() for pid in ranks), "a rank has outlived its group"

    @classmethod
    def ask(cls, command, name="stories"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(str(cls.site.state / "run/groups" / f"{name}.sock"))
            sock.sendall(json.dumps(command).encode() + b"\n")
            with sock.makefile("rb") as answers:
                return json.loads(answers.readline())

    @classmethod
    def submit(cls, prompt):
        cls.files += 1  # one each: what reads it may run beside who asks the same
        file = cls.site.scratch / f"{cls.files}.json"
        file.write_text(prompt)
        words = [cls.site.broker, "submit", "--state", cls.site.state, "--task", "tell", "--tensor", "prompt", file, "--stream", "--json",
                 "--timeout-ms", 110000]
        return subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @classmethod
    def finished(cls, sender):
        """The text of all its parts."""
        try:
            out, err = sender.communicate(timeout=120)
        finally:
            sender.kill()
        lines = [json.loads(line) for line in out.splitlines()]
        assert sender.returncode == 0, (lines[-1:], err)
        values = [tensor for part in lines[:-1] for tensor in part["tensors"] if tensor["name"] == "text"]
        return bytes(byte for tensor in values for byte in tensor["values"])

    def check(self, senders):
        for prompt, sender, expected in zip(self.prompts, senders, self.expected):
            self.assertEqual(self.finished(sender), expected, prompt)

    def test_texts_go_on_while_the_group_shifts_through_all_gears(self):
        senders = [self.submit(prompt) for prompt in self.prompts]
        for gear in (2, 3, 4, 5, 6, 1):
            answer = self.ask({"op": "shift", "gear": gear})
            self.assertTrue(answer["ok"], answer)
        self.check(senders)
        status = self.ask({"op": "status"})
        self.assertEqual((status["gear"], status["running"], status["waiting"]), (1, 0, 0))

    def test_a_rank_that_is_killed_breaks_no_text(self):
        self.assertTrue(self.ask({"op": "shift", "gear": 3})["ok"])
        tokens = self.ask({"op": "status"})["tokens"]
        senders = [self.submit(prompt) for prompt in self.prompts[:6]]
        status = wait_until("first tokens", lambda: (s := self.ask({"op": "status"}))["tokens"] > tokens and s, 30, 0.01)
        os.kill(status["ranks"][2]["pid"], signal.SIGKILL)
        self.check(senders)
        self.assertEqual(self.ask({"op": "status"})["gear"], 3)

    def test_eight_texts_go_on_when_their_worker_dies(self):
        """None is broken, and each is what it would have been; also one that is drawn by chance, without a seed of its own."""
        drawn = json.dumps({"prompt": "One day", "max_tokens": 96, "temperature": 1.0, "ignore_end": True})
        if self.ask({"op": "status"})["gear"] != 1:  # each one runs alone afterwards: the gear that is quickest on a busy machine
            self.assertTrue(self.ask({"op": "shift", "gear": 1})["ok"])
        before = self.ask({"op": "status"})
        retries = self.site.status()["node"]["counters"]["retries"]
        worker = self.site.status()["node"]["workers"][0]["pid"]
        senders = [self.submit(prompt) for prompt in [*self.prompts[:7], drawn]]
        wait_until("all of them have begun", lambda: (s := self.ask({"op": "status"}))["running"] == 8 and
                   s["tokens"] > before["tokens"] + 160, 30, 0.002)
        os.kill(worker, signal.SIGKILL)
        self.check(senders[:7])
        self.assertGreater(len(self.finished(senders[7])), 0)
        self.assertGreater(self.site.status()["node"]["counters"]["retries"], retries, "it had come too late")

    def test_more_texts_than_before_are_one_batch(self):
        # Long ones: none is over before the last one has been sent.
        longer = [json.dumps(dict(json.loads(prompt), max_tokens=400)) for prompt in self.prompts]
        senders = [self.submit(longer[number % len(longer)]) for number in range(36)]
        wait_until("32 at once", lambda: (s := self.ask({"op": "status"}))["running"] == 32 and s["waiting"] > 0, 60, 0.002)
        texts = [self.finished(sender) for sender in senders]
        for number, text in enumerate(texts):
            self.assertTrue(text.startswith(self.expected[number % len(longer)]), text)
            self.assertEqual(text, texts[number % len(longer)])

    def test_a_recording_tells_how_many_tokens_a_request_had(self):
        for words, most in ((1, 5), (20, 9)):
            prompt = json.dumps({"prompt": " ".join(["dog"] * words), "max_tokens": most, "ignore_end": True})
            self.finished(self.submit(prompt))
        lines = self.site.run("replay", "record", "--last", "1h").stdout.splitlines()
        short, long = [dict(zip(lines[1].split(","), line.split(","))) for line in lines[-2:]]
        self.assertEqual((short["output_tokens"], long["output_tokens"]), ("5", "9"))
        self.assertGreater(int(short["input_tokens"]), 0)
        self.assertGreater(int(long["input_tokens"]), int(short["input_tokens"]) + 18)
        self.assertLess(int(long["first_us"]), int(long["latency_us"]))

    def test_a_request_that_is_called_off_frees_its_cache(self):
        tokens = self.ask({"op": "status"})["tokens"]
        sender = self.submit(json.dumps({"prompt": "Once", "max_tokens": 500, "ignore_end": True}))
        wait_until("first tokens", lambda: self.ask({"op": "status"})["tokens"] > tokens + 3, 30, 0.01)
        sender.send_signal(signal.SIGINT)
        sender.communicate(timeout=30)
        wait_until("no sequence left", lambda: self.ask({"op": "status"})["running"] == 0, 30, 0.02)

    def test_a_request_that_is_wrong_is_the_requests_fault(self):
        for prompt, why in (('{"prompt": 3}', "its prompt is no text"), ('{"prompt": "a", "speed": 1}', "unknown key 'speed'"),
                            ('{"prompt": "a", "max_tokens": 0}', "max_tokens is less than 1")):
            sender = self.submit(prompt)
            out, err = sender.communicate(timeout=30)
            self.assertNotEqual(sender.returncode, 0)
            self.assertIn(why, (out + err).decode())
            self.assertIn("bad_input", (out + err).decode())

    def test_a_group_that_is_started_anew_begins_in_the_recorded_gear(self):
        self.assertTrue(self.ask({"op": "shift", "gear": 6, "term": 9})["ok"])
        worker = self.site.status()["node"]["workers"][0]
        ranks = [rank["pid"] for rank in self.ask({"op": "status"})["ranks"]]
        os.kill(worker["pid"], signal.SIGKILL)
        wait_until("its ranks end, too", lambda: not any(Path(f"/proc/{pid}").exists() for pid in ranks), 30)
        wait_until("another worker", lambda: (w := self.site.status()["node"]["workers"][0])["pid"] != worker["pid"] and w["state"] == "ready", 60)
        status = self.ask({"op": "status"})
        self.assertEqual((status["gear"], status["term"]), (6, 9))
        self.check([self.submit(prompt) for prompt in self.prompts[:3]])


if __name__ == "__main__":
    unittest.main()
