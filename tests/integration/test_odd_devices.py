"""Devices that lie: old and stolen tickets, compressed bombs, strange bytes. And a thousand that only hold their connection."""
import json
import subprocess
import unittest

import support
from cluster import Cluster, jpeg, wait_until

DEVICES = 125
EACH = 8  # connections that a node lets one device have


class OddDevices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.__exit__)
        file = cls.cluster.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("[central]\n", "[central]\nticket_ttl_ms = 3000\n"))
        cls.cluster.start()
        cls.cluster.wait_ready()
        cls.cluster.add_user()
        cls.central = cls.cluster.central()
        cls.keys = cls.cluster.enrol(central=cls.central)
        cls.good = cls.cluster.scratch / "good.jpg"
        cls.good.write_bytes(jpeg(5000))
        cls.pids = {role: record["pid"] for role, record in cls.cluster.records().items()}

    def tearDown(self):
        code, answers, err = self.cluster.send([self.good], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True]), f"the good request afterwards: {err}")
        now = {role: record["pid"] for role, record in self.cluster.records().items()}
        self.assertEqual(now, self.pids, "a process was replaced")

    def odd(self, *words, located="", seconds=120):
        done = subprocess.run([self.cluster.build / "bin/odd_device", *map(str, words)], input=located + "\n", capture_output=True,
                              text=True, timeout=seconds)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def ticket(self, keys=None):
        return self.odd("ticket", *self.central, "anna", keys or self.keys, "echo")

    def resident_kb(self):
        with open(f"/proc/{self.pids['node']}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def test_a_ticket_serves_until_it_expires(self):
        located = self.ticket()
        self.assertEqual(self.odd("use", self.keys, located=located), "ok: logged in")
        refusal = wait_until("expiry", lambda: next((text for text in [self.odd("use", self.keys, located=located)]
                                                     if not text.startswith("ok")), None), 15)
        self.assertRegex(refusal, r"^expired_ticket: expired \d+ ms ago")

    def test_a_stolen_ticket_is_of_no_use_to_another_device(self):
        thief = self.cluster.enrol(device="thief", central=self.central)
        refusal = self.odd("use", thief, located=self.ticket())
        self.assertEqual(refusal, "bad_ticket: it belongs to another device")

    def test_a_ticket_with_a_changed_letter_is_refused(self):
        located = self.ticket()
        ticket = json.loads(located)["ticket"]
        dot = ticket.index(".")
        for at in (20, dot - 4, dot + 1, len(ticket) - 1):
            changed = ticket[:at] + ("0" if ticket[at] != "0" else "1") + ticket[at + 1:]
            with self.subTest(at=at):
                self.assertRegex(self.odd("use", self.keys, located=located.replace(ticket, changed)), "^bad_ticket: ")

    def bomb(self, name, plain_bytes):
        file = support.needs(support.SHARED / "cases" / name, "the compressed bomb")
        before = self.resident_kb()
        answer = self.odd("upload", self.keys, "echo", file, plain_bytes, "zstd", located=self.ticket())
        self.assertLess(self.resident_kb() - before, 8000, "memory grew with what the sender claims")
        return answer

    def test_a_bomb_is_stopped_at_the_declared_size(self):
        for name in ("c44_bomb_64MiB_declared.zst", "c44_bomb_1GiB.zst", "c44_bomb_nested.zst.zst"):
            with self.subTest(name):
                self.assertRegex(self.bomb(name, 200_000), "^corrupt_data: .*image")

    def test_a_declared_size_over_the_limit_is_refused_before_anything_is_sent(self):
        self.assertRegex(self.bomb("c44_bomb_1GiB.zst", 1 << 30), "^too_large: ")
        self.assertRegex(self.bomb("c45_declares_1TiB_holds_4B.zst", 1 << 40), "^too_large: ")

    def test_damaged_compression_is_named(self):
        for name in ("c45_declares_1TiB_holds_4B.zst", "c45_declares_2pow63.zst", "c47_cut_mid_block.zst", "c47_bad_checksum.zst",
                     "c47_cut_in_header.zst"):
            with self.subTest(name):
                self.assertRegex(self.bomb(name, 2000), "^corrupt_data: .*image")

    def test_an_unknown_codec_is_named(self):
        answer = self.odd("upload", self.keys, "echo", self.good, 5000, "no_such_codec", located=self.ticket())
        self.assertIn("no_such_codec", answer)

    def test_strange_bytes_on_both_ports(self):
        folder = support.needs(support.SHARED / "cases", "the strange bytes")
        files = sorted(folder.glob("c74_*.bin"))
        self.assertGreaterEqual(len(files), 8)
        status = self.cluster.status()
        for role in ("central", "node"):
            for file in files:
                with self.subTest(role=role, file=file.name):
                    support.say_and_hang_up(status[role]["listen"], file.read_bytes())

    def test_1000_logged_in_connections_are_held_while_requests_go_on(self):
        held = DEVICES * EACH
        keys = [self.cluster.enrol(device=f"holder-{number}", central=self.central) for number in range(DEVICES)]
        before = self.resident_kb()
        with subprocess.Popen([self.cluster.build / "bin/odd_device", "hold", *self.central, "anna", "echo", str(EACH), *keys], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as holder:
            self.addCleanup(holder.kill)
            self.assertEqual(holder.stdout.readline().strip(), f"holding {held}")
            print(f"memory for each logged-in connection: {(self.resident_kb() - before) / held:.2f} KB", flush=True)
            self.assertGreaterEqual(self.cluster.status()["node"]["sessions"], held)
            pictures = []
            for number in range(20):
                pictures.append(self.cluster.scratch / f"meanwhile-{number}.jpg")
                pictures[-1].write_bytes(jpeg(30_000))
            code, answers, err = self.cluster.send(pictures, keys=self.keys, central=self.central)
            self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * 20), err)
            holder.stdin.close()
            self.assertEqual(holder.stdout.readline().strip(), "lost 0")
        wait_until("the node to let them go", lambda: self.cluster.status()["node"]["sessions"] < 5, 60)


if __name__ == "__main__":
    unittest.main()
