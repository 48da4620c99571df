"""`broker drain` and SIGTERM under load: says so first, takes nothing new, finishes what was accepted, leaves nothing."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import support
from cluster import Cluster, echo_configs, jpeg, wait_until
from test_streams import npy, story

REQUESTS = 16
STREAMS = 3
WORDS = 600  # of each: about three seconds
# Under way, not whole, when the link holds it.
UPLOAD_BYTES = 4_000_000
HELD_AFTER = 1_000_000


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        pipe.close()


class HoldingLink:
    """Passes bytes on to a port of this host; not more than HELD_AFTER from a device before let_go()."""

    def __init__(self, port):
        self.port, self.holds, self.may_go = port, threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        self.ends = [self.listener]
        self.accepting = threading.Thread(target=self.accept)
        self.accepting.start()

    def accept(self):
        threads = []
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                break
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # nobody serves there just now
                near.close()
                continue
            self.ends += [near, far]
            for words in ((near, far, HELD_AFTER), (far, near, 1 << 62)):
                threads.append(threading.Thread(target=self.pump, args=words))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def pump(self, one, other, most):
        try:
            while data := one.recv(65536):
                most -= len(data)
                if most < 0:
                    self.holds.set()
                    self.may_go.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            other.close()

    def let_go(self):
        self.may_go.set()

    def close(self):
        self.let_go()
        for end_of in self.ends:
            try:
                end_of.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end_of.close()
        self.accepting.join()


def echo_and_story(folder, workers):
    """The echo, and the example of a streamed answer, which may be told once more from any place."""
    echo_configs(folder, workers)
    for part in ("models/story", "tasks/story.toml"):
        copy = shutil.copytree if part.startswith("models") else shutil.copy
        copy(support.ROOT / "examples/stream" / part, folder / part)
    record = folder / "models/story/model.toml"
    record.write_text(record.read_text().replace("stream = true", "repeatable = true\nstream = true"))
    main = folder / "gearbox.toml"
    main.write_text(main.read_text() + '\n[[worker]]\nmodel = "story"\nenv = "plain"\n')


class Drain(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(configs=echo_and_story, workers=2)
        self.addCleanup(self.cluster.__exit__)
        self.main = self.cluster.configs / "gearbox.toml"

    def begin(self, port=False):
        if port:  # devices find the next central at the same address
            self.main.write_text(self.main.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)

    def files(self, count, order):
        made = []
        for number in range(count):
            made.append(self.cluster.scratch / f"{number}.jpg")
            made[-1].write_bytes(jpeg(30_000, order))
        return made

    def counters(self):
        node = self.cluster.status()["node"]
        return node["counters"] if node else None

    def start_drain(self, *words):
        drain = subprocess.Popen([self.cluster.broker, "drain", "--state", self.cluster.state, *words],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, drain)
        return drain

    def local_slow(self, how_long):
        """A request from this host, which is running when this returns."""
        slow = self.cluster.scratch / "slow.bin"
        slow.write_bytes(f"sleep {how_long}".encode().ljust(16))
        sender = subprocess.Popen([self.cluster.broker, "submit", "--task", "echo", slow, "--json", "--state", self.cluster.state],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, sender)
        wait_until("a running request", lambda: (self.counters() or {"accepted": 0})["accepted"] > 0, 60, 0.05)
        return sender

    def nothing_left(self, code=0):
        self.assertEqual(self.cluster.supervisor.wait(40), code)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_under_load_all_that_was_accepted_is_answered_and_the_rest_comes_again(self):
        self.begin(port=True)
        sender = self.cluster.start_send(self.files(REQUESTS, "sleep 0.4"), keys=self.keys, central=self.central)
        self.addCleanup(end, sender)
        wait_until("some open requests", lambda: self.counters()["accepted"] - self.counters()["answered"] > 2, 60, 0.02)
        drain = self.start_drain("--within", "60")
        out, err = drain.communicate(timeout=90)
        self.assertEqual(drain.returncode, 0, out + err + self.cluster.log())
        self.assertIn("drained: no request was cut off", out)
        self.assertIn("draining: ", out)
        self.nothing_left()
        # What was not accepted any more goes to the next process, and nothing was refused for good.
        self.cluster.start()
        self.cluster.wait_ready()
        said, errors = sender.communicate(timeout=90)
        self.assertEqual((sender.returncode, said.count('"ok":true')), (0, REQUESTS), errors)
        self.assertEqual(self.counters()["recovered"], 0, "the first one had finished all that it had accepted")
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_while_it_drains_everybody_is_told_so(self):
        self.begin()
        sender = self.local_slow(4)
        drain = self.start_drain("--json")

        def all_say_so():  # the roles are asked one after the other
            status = self.cluster.status()
            return status if status["supervisor"]["stopping"] and status["node"] and status["node"]["draining"] else None
        status = wait_until("draining", all_say_so, 20)
        self.assertFalse(status["node"]["ready"])
        self.assertEqual(status["supervisor"]["stop"]["within_ms"], 60_000)
        self.assertRegex(self.cluster.run("status").stdout, r"node +draining")
        wait_until("central knows", lambda: [node["state"] for node in self.cluster.status()["central"]["nodes"]] == ["draining"], 10)
        file = self.cluster.scratch / "more.bin"
        file.write_bytes(b"more")
        refused = self.cluster.run("submit", "--task", "echo", file, ok=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("takes no new requests", refused.stderr)
        out, err = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 0, out + err)
        self.assertEqual(json.loads(out), {"in_order": True, "failed": 0, "kept": 0, "killed": [], "hurried": False, "node_lost": False})
        said, errors = sender.communicate(timeout=20)
        self.assertIn('"ok":true', said, errors)
        self.nothing_left()

    def test_past_the_bound_it_ends_all_the_same_and_says_that_it_was_not_in_order(self):
        self.begin()
        sender = self.local_slow(60)
        drain = self.start_drain("--within", "1")
        out, err = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 1, out + err)
        self.assertIn("stopped, but not in order", out)
        self.assertIn("1 request", out)
        self.assertNotEqual(sender.wait(20), 0)
        self.nothing_left()

    def test_what_was_acknowledged_and_not_finished_is_finished_by_the_next_process(self):
        self.main.write_text(self.main.read_text().replace("[node]", "[node]\ndrain_ms = 500"))
        self.begin(port=True)
        sender = self.cluster.start_send(self.files(4, "sleep 3"), keys=self.keys, central=self.central)
        self.addCleanup(end, sender)
        wait_until("all acknowledged", lambda: self.counters()["accepted"] == 4, 60, 0.02)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])
        self.assertRegex(self.cluster.log(), r"the node ended with 0 requests failed and [1-4] kept in its journal")
        self.cluster.start()
        self.cluster.wait_ready()
        said, errors = sender.communicate(timeout=90)
        self.assertEqual((sender.returncode, said.count('"ok":true')), (0, 4), errors)
        self.assertGreater(self.counters()["recovered"], 0)
        self.assertEqual(self.counters()["announced"], 0, "nothing was uploaded again")
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_without_a_journal_it_fails_and_says_why(self):
        self.main.write_text(self.main.read_text().replace("[node]", "[node]\ndrain_ms = 500") +
                             '\n[node.journal]\nlevel = "none"\n')
        self.begin(port=True)
        sender = self.cluster.start_send(self.files(1, "sleep 60"), keys=self.keys, central=self.central)
        self.addCleanup(end, sender)
        wait_until("it is acknowledged", lambda: self.counters()["accepted"] == 1, 60, 0.02)
        self.assertEqual(self.cluster.stop(), 0)
        said, errors = sender.communicate(timeout=60)
        self.assertEqual(sender.returncode, 1, errors)
        answer = json.loads(said)
        self.assertEqual((answer["ok"], answer["error"]["name"]), (False, "shutting_down"), said)
        self.assertRegex(answer["error"]["detail"], "was stopped before it was done; it keeps no journal")
        self.assertIn("the node ended with 1 requests failed and 0 kept", self.cluster.log())
        self.assertEqual(self.cluster.leftovers(), [])

    def begin_with_link(self, more=""):
        """Devices reach the node through a link; streams are being told, and an upload is under way, when this returns."""
        port = support.free_port()
        self.link = HoldingLink(port)
        self.addCleanup(self.link.close)
        self.main.write_text(self.main.read_text().replace(
            '[node]\nlisten = "tcp://127.0.0.1:0"',
            f'[node]\nlisten = "tcp://127.0.0.1:{port}"\nadvertise = "tcp://127.0.0.1:{self.link.own_port}"\n{more}'))
        self.begin(port=True)
        prompt = npy(self.cluster.scratch, f"words={WORDS} pause_ms=4")
        self.streams = [self.cluster.start_send([], task="story", keys=self.keys, central=self.central,
                                                more=["--stream", "--input", f"prompt={prompt}"]) for _ in range(STREAMS)]
        readers = ThreadPoolExecutor(STREAMS)  # what nobody reads stops its stream
        self.addCleanup(readers.shutdown)
        for stream in self.streams:
            self.addCleanup(end, stream)
        self.told = [readers.submit(stream.communicate) for stream in self.streams]
        large = self.cluster.scratch / "large.jpg"
        large.write_bytes(jpeg(UPLOAD_BYTES))
        self.upload = self.cluster.start_send([large], keys=self.keys, central=self.central)
        self.addCleanup(end, self.upload)
        wait_until("the streams", lambda: self.counters()["accepted"] == STREAMS, 60, 0.02)
        self.assertTrue(self.link.holds.wait(60), "the upload is under way")

    def all_told(self):
        """Each stream was told once, whole, in order, and the upload was answered."""
        texts = []
        for stream, told in zip(self.streams, self.told):
            said, errors = told.result(90)
            self.assertEqual(stream.returncode, 0, said[-500:] + errors)
            lines = [json.loads(line) for line in said.splitlines()]
            self.assertEqual([line["part"] for line in lines[:-1]], list(range(lines[-1]["parts"])))
            texts.append(bytes(byte for part in lines[:-1] for byte in part["outputs"]["text"]["data"]).decode())
        self.assertEqual(texts, [story(WORDS)] * STREAMS)
        said, errors = self.upload.communicate(timeout=90)
        self.assertEqual((self.upload.returncode, said.count('"ok":true')), (0, 1), errors)

    def test_streams_and_an_upload_that_are_open_come_to_their_end(self):
        self.begin_with_link()
        drain = self.start_drain("--within", "60")
        wait_until("the drain", lambda: (self.cluster.status()["node"] or {}).get("draining"), 20, 0.02)
        self.assertGreaterEqual(self.counters()["open"], 1)
        self.link.let_go()
        out, err = drain.communicate(timeout=90)
        self.assertEqual(drain.returncode, 0, out + err + self.cluster.log())
        self.nothing_left()
        self.all_told()  # there is no next process

    def test_past_the_bound_streams_go_on_with_the_next_process_and_an_upload_begins_anew(self):
        self.begin_with_link("drain_ms = 300")
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])
        told = re.search(r"the node ended with (\d+) requests failed and (\d+) kept in its journal", self.cluster.log())
        self.assertEqual((told[1], int(told[2]) > 0), ("1", True), self.cluster.log())
        self.link.let_go()
        self.cluster.start()
        self.cluster.wait_ready()
        self.all_told()
        self.assertEqual(self.counters()["recovered"], int(told[2]))
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_a_signal_hurries_a_drain(self):
        self.begin()
        sender = self.local_slow(60)
        drain = self.start_drain("--within", "600")
        wait_until("draining", lambda: self.cluster.status()["supervisor"]["stopping"], 20)
        self.cluster.supervisor.send_signal(signal.SIGTERM)
        out, err = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 1, out + err)
        self.assertIn("a signal hurried it", out)
        self.assertNotEqual(sender.wait(20), 0)
        self.nothing_left()

    def test_a_second_drain_gives_another_bound(self):
        self.begin()
        sender = self.local_slow(60)
        first = self.start_drain("--within", "600")
        wait_until("draining", lambda: self.cluster.status()["supervisor"]["stopping"], 20)
        second = self.start_drain("--within", "1")
        for drain in (second, first):
            out, err = drain.communicate(timeout=60)
            self.assertEqual(drain.returncode, 1, out + err)
            self.assertNotIn("a signal hurried it", out)
        self.assertNotEqual(sender.wait(20), 0)
        self.nothing_left()

    def test_without_anything_to_drain(self):
        done = self.cluster.run("drain", ok=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing runs on the state folder", done.stderr)
        self.assertEqual(self.cluster.run("drain", "--within", "-1", ok=False).returncode, 2)
        self.assertEqual(self.cluster.run("drain", "--within", "86401", ok=False).returncode, 2)

    def test_a_supervisor_that_is_killed_meanwhile_has_not_said_how_it_went(self):
        self.begin()
        self.local_slow(60)
        drain = self.start_drain("--within", "600")
        wait_until("draining", lambda: self.cluster.status()["supervisor"]["stopping"], 20)
        os.kill(self.cluster.supervisor.pid, signal.SIGKILL)
        self.cluster.supervisor.wait(20)
        out, err = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 1, out + err)
        self.assertIn("did not say how", err)


if __name__ == "__main__":
    unittest.main()
