"""Streamed answers through a whole installation: the example of examples/stream, and devices that are slow, cut off or called off."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import support
from cluster import Cluster, wait_until

WORDS = "Es war einmal ein schöner Käfer, der aß Bärlauch in 東京 und in Łódź – naïve 🐞! ".split(" ")[:-1]


def story(words):
    return "".join(WORDS[number % len(WORDS)] + " " for number in range(words))


def npy(folder, text):
    """A file that pi_client sends as a tensor of the text's bytes."""
    file = folder / f"{text.replace(' ', '-')}.npy"
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text)},), }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + text.encode())
    return file


class Cutter:
    """Passes bytes on to a port of this host, until it is told to cut all connections."""

    def __init__(self, port):
        self.port, self.pairs, self.cuts = port, [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # nobody serves there just now
                near.close()
                continue
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    @staticmethod
    def pump(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        self.cuts += 1
        for pair in self.pairs:
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()
        self.pairs.clear()

    def close(self):
        self.cut()
        self.listener.close()


def configs(folder, node_port, told_port):
    shutil.copytree(support.ROOT / "examples/stream", folder)
    (folder / "plugins").mkdir()
    file = folder / "gearbox.toml"
    text = file.read_text().replace("127.0.0.1:7600", "127.0.0.1:0")
    file.write_text(re.sub(r'listen = "tcp://127\.0\.0\.1:7601"',
                           f'listen = "tcp://127.0.0.1:{node_port}"\nadvertise = "tcp://127.0.0.1:{told_port}"', text))


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        port = support.free_port()
        cls.cutter = Cutter(port)
        cls.addClassCleanup(cls.cutter.close)
        cls.site = Cluster(configs=configs, node_port=port, told_port=cls.cutter.own_port)
        cls.addClassCleanup(cls.site.__exit__)
        cls.site.start()
        cls.site.wait_ready()
        cls.site.add_user()
        cls.keys = cls.site.enrol()

    @classmethod
    def tearDownClass(cls):
        code = cls.site.stop()
        assert code == 0, cls.site.log()
        assert cls.site.leftovers() == [], cls.site.leftovers()

    def send(self, prompt, *more):
        words = self.site.client_words("send", "anna", self.keys)
        return subprocess.Popen([*words, "--task", "story", "--input", f"prompt={npy(self.site.scratch, prompt)}", *more],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def finish(self, sender, seconds=60):
        try:
            out, err = sender.communicate(timeout=seconds)
        finally:
            sender.kill()
        return sender.returncode, out.decode("utf-8"), err.decode("utf-8")

    def worker(self):
        return self.site.status()["node"]["workers"][0]

    def test_thousands_of_parts_make_one_text(self):
        code, out, err = self.finish(self.send("words=2000", "--stream"))
        self.assertEqual((code, out), (0, story(2000) + "\n"), err)
        parts = int(re.search(r"parts +(\d+)", err)[1])
        self.assertEqual(parts, -(-len(story(2000).encode()) // 5))
        self.assertGreater(parts, 2000)

    def test_each_part_is_a_line_of_json(self):
        code, out, err = self.finish(self.send("words=300", "--stream", "--json"))
        self.assertEqual(code, 0, err)
        lines = [json.loads(line) for line in out.splitlines()]
        parts, report = lines[:-1], lines[-1]
        self.assertEqual([part["part"] for part in parts], list(range(len(parts))))
        self.assertEqual(bytes(byte for part in parts for byte in part["outputs"]["text"]["data"]).decode(), story(300))
        self.assertEqual((report["ok"], report["parts"], report["outputs"]), (True, len(parts), {}))
        facts = json.loads(self.site.run("explain", report["request"], "--json").stdout)
        call = facts["steps"][0]["kept"][0]
        self.assertEqual(call["parts"], len(parts))
        self.assertLess(call["first_part_us"], facts["times"]["total_us"])
        self.assertIn(f"{len(parts)} parts, the first after", self.site.run("explain", report["request"]).stdout)

    def submit(self, prompt, *more):
        """broker submit, on the node's own host: the file is the prompt as it is."""
        file = self.site.scratch / f"{prompt.replace(' ', '_')}.txt"
        file.write_text(prompt)
        return self.site.run("submit", "--task", "story", "--tensor", "prompt", file, *more, ok=False)

    def test_the_brokers_own_command_prints_parts_too(self):
        done = self.submit("words=500", "--stream")
        self.assertEqual((done.returncode, done.stdout), (0, story(500) + "\n"), done.stderr)
        done = self.submit("words=300", "--stream", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        parts, report = lines[:-1], lines[-1]
        self.assertGreater(len(parts), 100)
        self.assertEqual([part["part"] for part in parts], list(range(len(parts))))
        self.assertEqual(bytes(byte for part in parts for byte in part["tensors"][0]["values"]).decode(), story(300))
        self.assertEqual((report["ok"], report["parts"], report["tensors"]), (True, len(parts), []))
        self.assertEqual({part["request"] for part in parts}, {report["request"]})
        whole = json.loads(self.submit("words=300", "--json").stdout)
        self.assertEqual(whole[0]["tensors"][0]["bytes"], len(story(300).encode()))

    def test_the_brokers_own_command_prints_them_as_they_come(self):
        file = self.site.scratch / "slow.txt"
        file.write_text("words=100000 pause_ms=5")
        words = [self.site.broker, "submit", "--state", self.site.state, "--task", "story", "--tensor", "prompt", file, "--stream"]
        sender = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        try:
            self.assertEqual(sender.stdout.read(1), story(1).encode()[:1])
            os.kill(self.worker()["pid"], signal.SIGKILL)
            _, err = sender.communicate(timeout=60)
        finally:
            sender.kill()
        self.assertEqual(sender.returncode, 1)
        self.assertIn(b"stream_broken", err)
        wait_until("another worker", lambda: self.worker()["state"] == "ready", 30)

    def test_who_takes_no_parts_gets_the_whole(self):
        code, out, err = self.finish(self.send("words=500", "--json"))
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        self.assertEqual(bytes(report["outputs"]["text"]["data"]).decode(), story(500))
        self.assertNotIn("parts", report)
        kept = wait_until("a kept result", lambda: [
            row for row in json.loads(self.site.run("results", "list", "--json").stdout) if row["request"] == report["request"]], 20)
        self.assertEqual((kept[0]["ok"], kept[0]["error"]), (True, ""))

    def test_text_comes_while_the_model_makes_it(self):
        sender = self.send("words=100 pause_ms=20", "--stream", "--quiet")
        started = time.monotonic()
        first = os.read(sender.stdout.fileno(), 5)
        seen = time.monotonic() - started
        code, out, err = self.finish(sender)
        took = time.monotonic() - started
        self.assertEqual((code, first.decode() + out), (0, story(100) + "\n"), err)
        self.assertLess(seen, took / 2)

    def test_an_interrupt_ends_the_generator(self):
        sender = self.send("words=100000 pause_ms=5", "--stream")
        first = os.read(sender.stdout.fileno(), 5).decode()
        self.assertEqual(self.worker()["running"], 1)
        sender.send_signal(signal.SIGINT)
        code, out, err = self.finish(sender, 20)
        self.assertEqual(code, 1)
        self.assertIn("cancelled", err)
        self.assertTrue(story(2000).startswith(first + out.removesuffix("\n").split("\\x")[0]), first + out)
        wait_until("an idle worker", lambda: self.worker()["running"] == 0, 5)

    def test_who_reads_on_no_more_ends_the_generator(self):
        """As in `pi_client send --stream ... | head -c 5`."""
        file = self.site.scratch / "closed.txt"
        file.write_text("words=100000 pause_ms=5")
        words = [self.site.broker, "submit", "--state", self.site.state, "--task", "story", "--tensor", "prompt", file, "--stream"]
        for start in (lambda: self.send("words=100000 pause_ms=5", "--stream"),
                      lambda: subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)):
            sender = start()
            with self.subTest(program=sender.args[0]):
                self.assertEqual(len(os.read(sender.stdout.fileno(), 5)), 5)
                sender.stdout.close()
                err = sender.stderr.read().decode()
                self.assertEqual(sender.wait(20), 1)
                sender.stderr.close()
                self.assertIn("standard output: Broken pipe", err)
                wait_until("an idle worker", lambda: self.worker()["running"] == 0, 20)

    def test_a_process_of_this_host_that_is_killed_with_parts_unread_ends_the_generator(self):
        file = self.site.scratch / "killed.txt"
        file.write_text("words=100000 pause_ms=5")
        words = [self.site.broker, "submit", "--state", self.site.state, "--task", "story", "--tensor", "prompt", file, "--stream", "--json"]
        sender = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        first = json.loads(sender.stdout.readline())
        os.kill(sender.pid, signal.SIGSTOP)

        def made():
            facts = json.loads(self.site.run("explain", first["request"], "--json").stdout)
            return facts["steps"][0]["kept"][0].get("parts", 0)
        stopped_at = made()
        wait_until("parts that are not read", lambda: made() > stopped_at + 10, 20)
        sender.kill()
        sender.wait(20)
        sender.stdout.close()
        wait_until("an idle worker", lambda: self.worker()["running"] == 0, 20)

    def test_a_device_that_stands_still_stops_the_model_and_nobody_else(self):
        sender = self.send("words=20000", "--stream", "--json", "--timeout-ms", "120000")
        first = json.loads(sender.stdout.readline())
        os.kill(sender.pid, signal.SIGSTOP)

        def made():
            facts = json.loads(self.site.run("explain", first["request"], "--json").stdout)
            return facts["steps"][0]["kept"][0].get("parts", 0)
        seen = []
        before = wait_until("a model that waits", lambda: (seen.append(made()), seen[-1] if seen[-3:] == [seen[-1]] * 3 else 0)[1], 20)
        self.assertLess(before, len(story(20000).encode()) // 5)
        self.assertEqual(self.worker()["state"], "ready")
        code, out, err = self.finish(self.send("words=100", "--stream"))
        self.assertEqual((code, out), (0, story(100) + "\n"), err)
        self.assertEqual(made(), before)
        os.kill(sender.pid, signal.SIGCONT)
        code, out, err = self.finish(sender)
        lines = [first] + [json.loads(line) for line in out.splitlines()]
        self.assertEqual(code, 0, err)
        self.assertEqual([part["part"] for part in lines[:-1]], list(range(len(lines) - 1)))
        self.assertEqual(bytes(byte for part in lines[:-1] for byte in part["outputs"]["text"]["data"]).decode(), story(20000))

    def test_a_connection_that_is_cut_costs_no_part_and_doubles_none(self):
        sender = self.send("words=400 pause_ms=3", "--stream", "--json")
        lines = []
        for line in sender.stdout:
            lines.append(json.loads(line))
            if len(lines) in (20, 150, 290):
                self.cutter.cut()
        code, _, err = self.finish(sender)
        self.assertEqual(code, 0, err)
        parts, report = lines[:-1], lines[-1]
        self.assertEqual([part["part"] for part in parts], list(range(len(parts))))
        self.assertEqual(bytes(byte for part in parts for byte in part["outputs"]["text"]["data"]).decode(), story(400))
        self.assertEqual(report["parts"], len(parts))
        facts = json.loads(self.site.run("explain", report["request"], "--json").stdout)
        self.assertEqual(facts["steps"][0]["calls"]["made"], 1)

    def test_a_killed_worker_breaks_the_stream_in_words(self):
        sender = self.send("words=100000 pause_ms=5", "--stream", "--json")
        first = json.loads(sender.stdout.readline())
        os.kill(self.worker()["pid"], signal.SIGKILL)
        code, out, err = self.finish(sender)
        lines = [first] + [json.loads(line) for line in out.splitlines()]
        self.assertEqual(code, 1)
        self.assertEqual([part["part"] for part in lines[:-1]], list(range(len(lines) - 1)))
        self.assertEqual((lines[-1]["ok"], lines[-1]["error"]["name"]), (False, "stream_broken"))
        self.assertEqual(lines[-1]["parts"], len(lines) - 1)
        self.site.wait_ready()

    def test_a_killed_node_breaks_the_stream_in_words(self):
        sender = self.send("words=100000 pause_ms=5", "--stream", "--json")
        first = json.loads(sender.stdout.readline())
        os.kill(self.site.record("node")["pid"], signal.SIGKILL)
        code, out, err = self.finish(sender)
        lines = [first] + [json.loads(line) for line in out.splitlines()]
        self.assertEqual((code, lines[-1]["error"]["name"]), (1, "stream_broken"), lines[-1])
        self.assertEqual([part["part"] for part in lines[:-1]], list(range(len(lines) - 1)))
        self.site.wait_ready()


if __name__ == "__main__":
    unittest.main()
