"""Uploads over bad links: all complete, and what was carried twice stays under one chunk for each cut.

By a proxy in user space; with packets that are lost, doubled and out of order where the machine has netem, else NOT RUN.
"""
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tests/support"), str(ROOT / "tests/integration")]
import support  # noqa: E402
from chaos_proxy import ChaosProxy  # noqa: E402
from cluster import Cluster, echo_configs, jpeg, one_step_task, wait_until  # noqa: E402
from spooler import Spooler  # noqa: E402

CHUNK = 384 * 1024
PICTURES = 4
PICTURE_BYTES = 3_000_000
TIMEOUT_MS = 120_000


def configs(folder, node="127.0.0.1:0", told="", central="127.0.0.1:0"):
    """The echo model, which gives back the picture's fingerprint only. `told`: the node's address, as devices are told."""
    echo_configs(folder)
    (folder / "tasks/echo.toml").write_text(one_step_task("echo", ["text"]))
    file = folder / "gearbox.toml"
    text = file.read_text()
    advertise = f'\nadvertise = "tcp://{told}"' if told else ""
    text = text.replace("[node.limits]\n", "[node.limits]\nidle_ms = 30000\n")
    text = text.replace('[node]\nlisten = "tcp://127.0.0.1:0"', f'[node]\nlisten = "tcp://{node}"{advertise}')
    file.write_text(text.replace('[central]\nlisten = "tcp://127.0.0.1:0"', f'[central]\nlisten = "tcp://{central}"'))


class Proxy(unittest.TestCase):
    """That the link is as bad as it is told to be, and that it counts what it carries."""

    def setUp(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.server.close)
        self.link = ChaosProxy(self.server.getsockname()[1], seed=1).__enter__()
        self.addCleanup(self.link.__exit__)

    def pair(self):
        """(the device's end, the server's end) of a connection through the link."""
        device = socket.create_connection(("127.0.0.1", self.link.port), timeout=20)
        self.addCleanup(device.close)
        server, _ = self.server.accept()
        self.addCleanup(server.close)
        server.settimeout(20)
        return device, server

    def all_of(self, end):
        """What comes until the connection ends, and how it ended."""
        got = b""
        try:
            while data := end.recv(65536):
                got += data
        except ConnectionResetError:
            return got, "reset"
        return got, "in order"

    def test_bytes_and_ends_pass_both_ways(self):
        device, server = self.pair()
        sent = os.urandom(300_000)
        device.sendall(sent)
        device.shutdown(socket.SHUT_WR)
        self.assertEqual(self.all_of(server), (sent, "in order"))
        server.sendall(b"answer")
        server.close()
        self.assertEqual(self.all_of(device), (b"answer", "in order"))
        self.assertEqual((self.link.up, self.link.down, self.link.connections, self.link.cuts), (300_000, 6, 1, 0))

    def test_what_was_carried_before_a_cut_arrives_and_no_more(self):
        self.link.cut_every = 200_000
        ends = set()
        for _ in range(6):
            device, server = self.pair()
            before = self.link.up
            sender = threading.Thread(target=self.send_until_cut, args=[device])
            sender.start()
            got, how = self.all_of(server)
            sender.join()
            ends.add(how)
            self.assertEqual(len(got), self.link.up - before)
            self.assertTrue(160_000 <= len(got) <= 260_000, len(got))
        self.assertEqual((ends, self.link.cuts), ({"reset", "in order"}, 6))

    @staticmethod
    def send_until_cut(device):
        try:
            while True:
                device.sendall(bytes(10_000))
        except OSError:
            pass

    def test_delay_and_throttle(self):
        device, server = self.pair()
        self.link.delay_s = 0.3
        began = time.monotonic()
        device.sendall(b"x")
        server.recv(1)
        self.assertGreater(time.monotonic() - began, 0.3)
        self.link.delay_s = 0.0
        self.link.bytes_per_s = 200_000
        began = time.monotonic()
        device.sendall(bytes(100_000))
        device.close()
        self.assertEqual(len(self.all_of(server)[0]), 100_000)
        self.assertGreater(time.monotonic() - began, 0.45)

    def test_frozen_and_half_open(self):
        device, server = self.pair()
        self.link.freeze()
        device.sendall(b"x")
        server.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            server.recv(1)
        self.link.thaw()
        server.settimeout(20)
        self.assertEqual(server.recv(1), b"x")
        self.assertEqual(self.link.half_open(), 1)
        device.sendall(b"x")
        device.shutdown(socket.SHUT_WR)
        server.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            server.recv(1)
        other, another = self.pair()
        other.sendall(b"y")
        self.assertEqual(another.recv(1), b"y")


class Site(unittest.TestCase):
    """A running installation and some large pictures to upload."""

    def begin(self, at_server=(), at_device=(), pictures=PICTURES, order="", **options):
        self.site = Cluster(configs=configs, **options)
        self.addCleanup(self.site.__exit__)
        self.site.at_server, self.site.at_device = list(at_server), list(at_device)
        self.site.start()
        self.site.wait_ready()
        self.site.add_user()
        self.central = self.site.central()
        self.keys = self.site.enrol(central=self.central)
        self.files = []
        for number in range(pictures):
            self.files.append(self.site.scratch / f"{number}.jpg")
            self.files[-1].write_bytes(jpeg(PICTURE_BYTES, order))

    def through_proxy(self):
        """The node is reached through self.link, central directly."""
        port = support.free_port()
        self.link = ChaosProxy(port, seed=11).__enter__()
        self.addCleanup(self.link.__exit__)
        self.begin(node=f"127.0.0.1:{port}", told=f"127.0.0.1:{self.link.port}")

    def start_send(self):
        return self.site.start_send(self.files, keys=self.keys, central=self.central, more=["--timeout-ms", TIMEOUT_MS])

    def end_of(self, sender):
        """Every picture has its own answer."""
        try:
            out, err = sender.communicate(timeout=TIMEOUT_MS / 1000 + 30)
        finally:
            sender.kill()
        answers = {}
        for line in out.splitlines():
            answer = json.loads(line)
            self.assertTrue(answer["ok"], f"{answer} {err}")
            self.assertNotIn(answer["file"], answers)
            answers[answer["file"]] = answer["outputs"]["text"]["data"][0]
        self.assertEqual(answers, {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in self.files}, err)

    def bytes_once(self):
        return sum(file.stat().st_size for file in self.files)

    def carried_twice(self):
        """Bytes beyond the pictures; frames, logins and questions are allowed for."""
        more = self.link.up - self.bytes_once() * 1.002 - 8_000 * self.link.connections
        print(f"{self.link.up:,} bytes for {self.bytes_once():,} in {self.link.connections} connections, {self.link.cuts} cuts: "
              f"{more / max(1, self.link.cuts) / CHUNK:.2f} chunks more for each cut", flush=True)
        return more

    def ends_clean(self):
        """Nothing of an upload that was cut is held any more."""
        wait_until("no open request", lambda: self.site.status()["node"]["counters"]["open"] == 0, 40)
        memory = self.site.status()["node"]["memory"]
        self.assertEqual((memory["input_used"], memory["output_used"]), (0, 0))
        self.assertEqual(self.site.stop(), 0)
        self.assertEqual(self.site.leftovers(), [])


class BadLinks(Site):
    freeze_s = 3.0

    def setUp(self):
        self.through_proxy()

    def uploading(self):
        """Half of the first pictures is through."""
        wait_until("an upload under way", lambda: self.link.up > PICTURE_BYTES // 2, 30, 0.005)

    def test_cuts_every_500_kb(self):
        self.link.cut_every = 500_000
        self.end_of(self.start_send())
        self.assertGreater(self.link.cuts, 10)
        self.assertLess(self.carried_twice(), CHUNK * self.link.cuts)
        self.link.cut_every = float("inf")
        self.ends_clean()

    def test_delay_of_300_ms(self):
        self.link.delay_s = 0.15
        began = time.monotonic()
        self.end_of(self.start_send())
        self.assertGreater(time.monotonic() - began, 1.2, "login, submit and answer take more than 300 ms each: it was not used")
        self.assertLess(self.carried_twice(), 1)
        self.ends_clean()

    def test_delay_and_cuts_on_a_slow_link(self):
        self.link.delay_s = 0.15
        self.link.bytes_per_s = 4_000_000
        self.link.cut_every = 2_000_000
        self.end_of(self.start_send())
        self.assertGreater(self.link.cuts, 3)
        self.assertLess(self.carried_twice(), CHUNK * self.link.cuts)
        self.ends_clean()

    def test_a_link_that_is_frozen(self):
        self.link.bytes_per_s = 6_000_000
        sender = self.start_send()
        self.uploading()
        self.link.freeze()
        timer = threading.Timer(self.freeze_s, self.link.thaw)
        timer.start()
        self.addCleanup(timer.join)
        self.end_of(sender)
        self.assertEqual(self.link.connections, 1, "shorter than its patience: the device keeps its connection")
        self.assertLess(self.carried_twice(), 1)
        self.ends_clean()


class Long(BadLinks):
    freeze_s = 10.0

    def test_a_half_open_connection(self):
        """Nobody is told. The device notices by itself, within 15 s of silence, and goes on where the node is; the node within
        its idle_ms, 30 s here: it asks, and nobody answers."""
        before = self.site.status()["node"]["sessions"]
        self.link.bytes_per_s = 6_000_000
        sender = self.start_send()
        self.uploading()
        began = time.monotonic()
        self.assertEqual(self.link.half_open(), 1)
        wait_until("another connection", lambda: self.link.connections == 2, 40)
        self.assertGreater(time.monotonic() - began, 10, "not by its silence")
        self.end_of(sender)
        self.link.cuts = 1
        self.assertLess(self.carried_twice(), CHUNK)
        wait_until("the node has closed the dead one", lambda: self.site.status()["node"]["sessions"] <= before, 60)
        self.ends_clean()


class AnotherAddress(Site):
    """The node comes back at another port; what it had accepted is finished, and what it had not is uploaded there."""

    def test_the_node_moves_in_the_middle_of_uploads(self):
        self.begin(order="sleep 0.5")
        before = self.site.status()["node"]["listen"]
        sender = self.start_send()

        def under_way():
            node = self.site.status()["node"]
            return node and node["counters"]["announced"] > 0
        wait_until("an upload under way", under_way, 30, 0.005)
        os.kill(self.site.record("node")["pid"], 9)
        self.end_of(sender)
        node = self.site.status()["node"]
        self.assertNotEqual(node["listen"], before)
        self.assertEqual(node["counters"]["recovered"] + node["counters"]["announced"], node["counters"]["answered"])
        self.assertGreater(node["counters"]["answered"], 0, "it moved when all was done")
        self.ends_clean()


class AnotherName(Spooler, unittest.TestCase):
    """Central's name means another address from now on: a client that runs on asks what the name means."""

    NAME = "central.gearbox.test"

    def name_is(self, address):
        self.hosts.write_text(f"127.0.0.1 localhost\n{address} {self.NAME}\n")

    def test_a_client_that_runs_follows_the_name(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.hosts = self.cluster.scratch / "hosts"
        self.name_is("127.0.0.1")
        own_names = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(self.hosts)]
        tried = subprocess.run([*own_names, "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            reason = f"names of its own for a process: {tried.stderr.strip()}"
            print(f"NOT RUN: {reason}", flush=True)
            self.skipTest(reason)
        main = self.cluster.configs / "gearbox.toml"
        main.write_text(main.read_text().replace("[central]\n", "[central]\nticket_ttl_ms = 1000\n"))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        url, key = self.cluster.central()
        self.keys = self.cluster.enrol()
        self.make_folders(self.cluster.scratch)
        self.cluster.at_device = own_names

        with ChaosProxy(int(url.rpartition(":")[2])) as first:
            self.central = (f"tcp://{self.NAME}:{first.port}", key)
            self.run_client("--watch", self.pictures)
            self.write(0, 4, order="sleep 0.4")
            self.until_answered(4)  # more than one ticket
            self.assertGreater(first.up, 0)
        self.name_is("127.0.0.2")
        with ChaosProxy(first.target, near=("127.0.0.2", first.port)) as second:
            self.write(4, 8, order="sleep 0.4")
            self.until_answered(8)
            self.each_has_one_answer(8)
            self.assertGreater(second.up, 0)
            self.stop_client()
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])


class Netem(Site):
    """What only the kernel can do to packets."""

    QDISC = "netem"
    RULES = ["loss 1%", "loss 5%", "loss 20%", "delay 20ms duplicate 10% reorder 25%", "delay 150ms 20ms loss 1%"]

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def shape(self, rule, verb="change"):
        for name in self.spaces:
            subprocess.run(["tc", "-n", name, "qdisc", verb, "dev", "wire", "root", self.QDISC, *rule.split()], check=True,
                           capture_output=True, text=True)

    def setUp(self):
        self.spaces = [f"gearbox-{os.getpid()}-{end}" for end in ("server", "device")]
        self.addCleanup(lambda: [subprocess.run(["ip", "netns", "delete", name], capture_output=True) for name in self.spaces])
        server, device = self.spaces
        try:
            for name in self.spaces:
                self.ip("netns", "add", name)
                self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", server, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", device)
            for host, name in enumerate(self.spaces, 1):
                self.ip("-n", name, "address", "add", f"10.77.3.{host}/24", "dev", "wire")
                self.ip("-n", name, "link", "set", "wire", "up")
            self.shape(self.RULES[0], "add")
        except (OSError, subprocess.CalledProcessError) as failed:
            reason = f"network namespaces with netem: {getattr(failed, 'stderr', None) or failed}".strip()
            print(f"NOT RUN: {reason}", flush=True)
            self.skipTest(reason)

    def test_lost_doubled_delayed_and_disordered_packets(self):
        there = ["ip", "netns", "exec"]
        self.begin([*there, self.spaces[0]], [*there, self.spaces[1]], pictures=2, node="10.77.3.1:0", central="10.77.3.1:0")
        for rule in self.RULES:
            with self.subTest(rule):
                self.shape(rule)
                self.end_of(self.start_send())
        self.ends_clean()


if __name__ == "__main__":
    unittest.main()
