"""Bad input of each kind: a clear error that names what and where, the exit code, and the same processes serve a good request next."""
import os
import re
import struct
import subprocess
import unittest
import zlib

import support
from cluster import Cluster, jpeg, wait_until


def png(width, height, rows=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class BadRequests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.start()
        cls.cluster.wait_ready()
        cls.cluster.add_user()
        cls.central = cls.cluster.central()
        cls.keys = cls.cluster.enrol(central=cls.central)
        cls.good = cls.cluster.scratch / "good.jpg"
        cls.good.write_bytes(jpeg(5000))
        cls.pids = cls.processes()

    @classmethod
    def processes(cls):
        return {role: record["pid"] for role, record in cls.cluster.records().items()}

    def tearDown(self):
        code, answers, err = self.cluster.send([self.good], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True]), f"the good request afterwards: {err}")
        self.assertEqual(self.processes(), self.pids, "a process was replaced")

    def refused(self, files, name, code=1, **options):
        """One request that fails with error `name`; returns its detail."""
        options.setdefault("keys", self.keys)
        options.setdefault("central", self.central)
        got, answers, err = self.cluster.send(files, **options)
        self.assertEqual(got, code, err)
        reasons = [answer["error"] for answer in answers if not answer["ok"]]
        self.assertTrue(reasons or name in err, f"no reason: {answers} {err}")
        for reason in reasons:
            self.assertEqual(reason["name"], name, reason)
        return " ".join(reason["detail"] for reason in reasons) + err

    def file(self, name, content):
        path = self.cluster.scratch / name
        path.write_bytes(content)
        return path

    def test_a_wrong_password(self):
        with self.assertRaises(support.cluster.Failed) as failed:
            self.cluster.enrol(password="not it", device="stranger", central=self.central)
        self.assertIn("exit code 1", str(failed.exception))
        self.assertIn("auth_failed", str(failed.exception))

    def test_an_unknown_user_gets_the_same_answer_as_a_wrong_password(self):
        def answer(user, device):
            with self.assertRaises(support.cluster.Failed) as failed:
                self.cluster.enrol(user=user, password="not it", device=device, central=self.central)
            return str(failed.exception).replace(user, "USER").replace(device, "DEVICE")
        self.assertEqual(answer("anna", "one"), answer("nobody", "two"))

    def test_an_unknown_task(self):
        self.assertIn("no-such-task", self.refused([self.good], "unknown_task", task="no-such-task"))

    def test_a_wrong_server_key(self):
        url, key = self.central
        other = key[:-2] + ("00" if key[-2:] != "00" else "11")
        self.refused([self.good], "wrong_server_key", central=(url, other))

    def test_a_device_that_never_enrolled(self):
        code, _, err = self.cluster.send([self.good], keys=self.cluster.scratch / "no-keys", central=self.central)
        self.assertEqual(code, 2)
        self.assertIn("enrol", err)

    def test_another_device_key_under_the_same_account(self):
        stranger = self.cluster.scratch / "keys-stranger"
        words = [str(self.cluster.client), "key", "show", "--keys", str(stranger)]
        subprocess.run(words, capture_output=True)
        if not stranger.exists():  # `key show` makes none: take a key that another account enrolled
            self.cluster.add_user("bert", "another long password")
            stranger = self.cluster.enrol("bert", "another long password", "berts", self.central)
        self.refused([self.good], "auth_failed", keys=stranger)

    def test_an_empty_file_and_a_missing_file(self):
        empty = self.file("empty.jpg", b"")
        code, _, err = self.cluster.send([empty], keys=self.keys, central=self.central)
        self.assertEqual(code, 1)
        code, _, err = self.cluster.send([self.cluster.scratch / "not-there.jpg"], keys=self.keys, central=self.central)
        self.assertNotEqual(code, 0)

    def test_a_file_that_is_no_picture(self):
        code, answers, err = self.cluster.send([self.file("notes.jpg", b"just words\n" * 20)], keys=self.keys, central=self.central)
        self.assertEqual(code, 1)
        self.assertIn("notes.jpg", err + str(answers))

    def test_a_picture_that_claims_more_pixels_than_allowed(self):
        self.assertIn("100000", self.refused([self.file("huge.png", png(100000, 100000))], "bad_picture"))

    def test_an_upload_over_the_limit_is_refused_before_it_is_sent(self):
        large = self.file("large.jpg", jpeg(17 << 20))
        received = self.cluster.status()["node"]["counters"]["wire_bytes"]
        self.refused([large], "too_large")
        self.assertLess(self.cluster.status()["node"]["counters"]["wire_bytes"] - received, 1 << 20)

    def test_a_model_that_raises(self):
        done = self.cluster.run("submit", "--task", "echo", self.file("raise.bin", b"raise"), ok=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("model_failed", done.stderr)
        self.assertIn("asked to raise", done.stderr)

    def test_local_commands_name_what_is_wrong(self):
        done = self.cluster.run("submit", "--task", "no-such-task", self.good, ok=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown_task", done.stderr)
        done = self.cluster.run("submit", "--task", "../etc", self.good, ok=False)
        self.assertEqual(done.returncode, 2)
        done = self.cluster.run("submit", "--task", "echo", "/no/such/file", ok=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/file", done.stderr)
        self.assertEqual(self.cluster.run("no-such-command", ok=False).returncode, 2)

    def test_garbage_tls_and_http_on_our_ports(self):
        status = self.cluster.status()
        garbage = [os.urandom(4096), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                   b"\xff\xff\xff\xff", b"GBX1\x01\x00\x01\x00" + os.urandom(32) + os.urandom(200), b"GBX1\x09\x00\x09\x00" + bytes(32)]
        for role in ("central", "node"):
            for text in garbage:
                support.say_and_hang_up(status[role]["listen"], text)


class BadConfigurations(unittest.TestCase):
    """What `broker config check` and `broker up` say; nothing is started."""

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.main = self.cluster.configs / "gearbox.toml"

    def refused(self, text, *expected, file=None):
        (file or self.main).write_text(text)
        check = self.cluster.run("config", "check", "--config", self.cluster.configs, ok=False)
        self.assertEqual(check.returncode, 2, check.stdout)
        for pattern in expected:
            self.assertRegex(check.stderr, pattern)
        self.cluster.start()
        self.assertEqual(self.cluster.supervisor.wait(30), 2)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_an_unknown_key_with_the_nearest_name(self):
        self.refused('[central]\nlisten = "tcp://127.0.0.1:0"\nbalanser = "x"\n', r"gearbox\.toml:3:1", "balanser", "balancer")

    def test_a_wrong_type(self):
        self.refused('[node]\nspin_us = "20"\n', r"gearbox\.toml:2", "spin_us")

    def test_a_number_out_of_range(self):
        self.refused("[[worker]]\nmodel = \"echo\"\nenv = \"plain\"\ncount = 1000000000\n", r"gearbox\.toml:4", "count", "64")

    def test_a_key_given_twice(self):
        self.refused('[node]\nname = "a"\nname = "b"\n', r"gearbox\.toml:3")

    def test_400_kb_of_dotted_key(self):
        self.refused(".".join(["a"] * 200_000) + " = 1\n", "gearbox.toml")

    def test_no_such_python_environment(self):
        text = self.main.read_text()
        self.main.write_text(text.replace("/usr/bin/python3", "/no/such/python"))
        doctor = self.cluster.run("doctor", "--config", self.cluster.configs, ok=False)
        self.assertEqual(doctor.returncode, 1)
        self.assertIn("/no/such/python", doctor.stdout)
        self.main.write_text(text.replace("/usr/bin/python3", "/bin/true"))
        doctor = self.cluster.run("doctor", "--config", self.cluster.configs, ok=False)
        self.assertEqual(doctor.returncode, 1)
        self.assertIn("/bin/true is no Python 3", doctor.stdout)
        with open("/dev/full", "w", encoding="utf-8") as full:
            lost = subprocess.run([str(self.cluster.broker), "doctor", "--config", str(self.cluster.configs), "--state",
                                   str(self.cluster.state)], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(lost.returncode, 1)
        self.assertIn("standard output: No space left on device", lost.stderr)

    def test_a_model_that_breaks_while_it_serves_is_told_beside_those_that_serve(self):
        self.cluster.start()
        self.cluster.wait_ready()
        (self.cluster.configs / "models/echo/model.py").write_text('raise RuntimeError("weights are gone")\n')

        def row():
            model = next(each for each in self.cluster.status()["node"]["models"] if each["name"] == "echo")
            return model if "weights are gone" in model["reason"] else None
        model = wait_until("the reason", row, 60)
        self.assertEqual((model["state"], model["ready"]), ("ready", 1), model)
        self.assertIn("weights are gone", self.cluster.run("status").stdout)
        good = self.cluster.scratch / "good.bin"
        good.write_bytes(b"good")
        self.cluster.run("submit", "--task", "echo", good)

    def test_a_model_that_does_not_import_is_named_and_others_serve(self):
        broken = self.cluster.configs / "models/broken"
        broken.mkdir()
        (broken / "model.toml").write_text((self.cluster.configs / "models/echo/model.toml").read_text().replace('"echo"', '"broken"'))
        (broken / "model.py").write_text("import no_such_module\n")
        self.main.write_text(self.main.read_text() + '\n[[worker]]\nmodel = "broken"\nenv = "plain"\n')
        self.cluster.start()

        def reason():
            node = self.cluster.status()["node"] or {}
            return next((model["reason"] for model in node.get("models", []) if model["name"] == "broken" and model["reason"]), None)
        self.assertIn("no_such_module", wait_until("the reason", reason, 60))
        good = self.cluster.scratch / "good.bin"
        good.write_bytes(b"good")
        wait_until("the other model", lambda: self.cluster.run("submit", "--task", "echo", good, ok=False).returncode == 0, 60)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_an_arena_that_cannot_be_had(self):
        self.main.write_text(re.sub(r"input_arena_mb = \d+", "input_arena_mb = 60000", self.main.read_text()))
        self.cluster.start()
        wait_until("the reason", lambda: "no_space" in self.cluster.log() or "no space" in self.cluster.log() or
                   self.cluster.supervisor.poll() is not None, 60)
        self.assertRegex(self.cluster.log(), r"(?i)no.space|memory|arena")

    def test_bad_plugins_are_listed_with_the_reason(self):
        (self.cluster.configs / "plugins/empty.so").write_bytes(b"")
        good = next((self.cluster.build / "lib/gearbox/plugins").glob("*.so")).read_bytes()
        (self.cluster.configs / "plugins/cut.so").write_bytes(good[:-1])
        (self.cluster.configs / "plugins/half.so").write_bytes(good[:len(good) // 2])
        listing = self.cluster.run("plugins", "list", "--config", self.cluster.configs)
        for name in ("empty", "half"):
            self.assertRegex(listing.stdout, rf"{name}.*refused")
        check = self.cluster.run("plugins", "check", self.cluster.configs / "plugins/cut.so", ok=False)
        self.assertEqual(check.returncode, 1)
        self.cluster.start()
        self.cluster.wait_ready()
        self.assertEqual(self.cluster.stop(), 0)


if __name__ == "__main__":
    unittest.main()
