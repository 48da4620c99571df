"""`broker plugins` beside roles that only pretend, and beside none. Usage: test_plugin_commands.py BROKER FAKE_PLUGIN_ROLES"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FAKE = sys.argv.pop(2) if len(sys.argv) > 2 else ""
BROKER = sys.argv.pop(1) if len(sys.argv) > 1 else ""
A, B = "a" * 64, "b" * 64


class PluginCommands(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gearbox-plugins-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"
        self.configs = self.folder / "configs"
        (self.configs / "plugins").mkdir(parents=True)
        (self.configs / "gearbox.toml").write_text('[node]\nname = "node-1"\n')

    def broker(self, *words, code=0):
        done = subprocess.run([BROKER, "plugins", *words, "--state", self.state, "--config", self.configs],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def roles(self, *roles):
        process = subprocess.Popen([FAKE, self.state, *roles], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "serving\n")

    def book(self, *bars):
        def entry(version, checksum):
            return {"kind": "balancer", "name": "moody", "version": version, "checksum": checksum, "since_unix_ms": 1}
        copies = self.state / "plugins"
        copies.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.state.chmod(0o700)
        (copies / f"{A}.so").write_text("")
        (copies / "book.json").write_text(json.dumps({
            "gearbox_book": 1, "builds": [entry("1.0", A), entry("2.0", B)],
            "bars": [{**entry("2.0", B), "reason": reason} for reason in bars]}))

    def bars(self):
        file = self.state / "plugins/book.json"
        return [bar["reason"] for bar in json.loads(file.read_text())["bars"]] if file.exists() else []

    def test_rollback_bars_the_build_in_force_and_says_what_follows(self):
        self.book()
        self.roles("node", "central")
        out = self.broker("rollback", "moody")
        self.assertEqual(out, "moody 2.0 (bbbbbbbb…) → 1.0 (aaaaaaaa…) in node, central\n")
        self.assertEqual(self.bars(), ["rolled back by hand"])

    def test_rollback_says_which_role_has_not_followed(self):
        self.book()
        self.roles("node", "central=stuck")
        out = self.broker("rollback", "moody", code=1)
        self.assertIn("written, but central has not followed within 5 s", out)

    def test_rollback_is_refused_without_a_way_back(self):
        self.roles("node")
        out = self.broker("rollback", "moody", code=1)
        self.assertIn("moody 2.0 (bbbbbbbb…) stays: there is no earlier good build", out)
        self.assertEqual(self.bars(), [])

    def test_an_earlier_build_whose_copy_is_gone_is_no_way_back(self):
        self.book()
        (self.state / f"plugins/{A}.so").unlink()
        self.roles("node")
        self.broker("rollback", "moody", code=1)
        self.assertEqual(self.bars(), [])

    def test_rollback_of_what_is_not_there(self):
        self.book()
        self.roles("node")
        self.assertIn("did you mean 'moody'?", self.broker("rollback", "mody", code=1))
        self.assertIn("no codec called 'moody' is in force", self.broker("rollback", "moody", "--kind", "codec", code=1))

    def test_names_are_checked_before_anything_is_touched(self):
        for words in (["rollback", "../moody"], ["release", "a/b"], ["release", ""], ["rollback", "moody", "--kind", "../x"]):
            self.assertIn("are allowed", self.broker(*words, code=2))
        self.assertFalse(self.state.exists())

    def test_release_takes_the_bars_off_and_says_what_follows(self):
        self.book("crashed node (SIGSEGV in pick)")
        self.roles("node", "central")
        out = self.broker("release", "moody")
        self.assertEqual(out, "1 build of moody released\n"
                              "  2.0 (bbbbbbbb…), was barred because: crashed node (SIGSEGV in pick)\n"
                              "moody 1.0 (aaaaaaaa…) → 2.0 (bbbbbbbb…) in node, central\n")
        self.assertEqual(self.bars(), [])
        self.assertIn("no build of 'moody' is barred", self.broker("release", "moody", code=1))

    def test_release_of_another_kind_takes_nothing_off(self):
        self.book("rolled back by hand")
        self.broker("release", "moody", "--kind", "codec", code=1)
        self.assertEqual(self.bars(), ["rolled back by hand"])

    def test_release_without_roles_holds_at_the_next_start(self):
        self.book("rolled back by hand")
        self.assertIn("no role is running: it holds at the next start", self.broker("release", "moody"))
        self.assertEqual(self.bars(), [])

    def test_rollback_without_roles_goes_by_what_would_be_loaded(self):
        self.broker("list")  # makes the state folder
        out = self.broker("rollback", "least_loaded", code=1)
        self.assertIn("least_loaded", out)
        self.assertIn("stays: there is no earlier good build", out)
        self.assertEqual(self.bars(), [])

    def test_list_shows_what_the_roles_tell(self):
        self.book("rolled back by hand")
        self.roles("node", "central")
        lines = self.broker("list").splitlines()
        self.assertRegex(lines[1], r"^moody +balancer +1\.0 +a{12} +loaded +node, central +20\d\d-\d\d-\d\d [\d:]{8} +24 +2 +1\.5 ms "
                                   r"+drop folder +put back, because 2\.0 is barred$")
        self.assertRegex(lines[2], r"^moody +balancer +2\.0 +b{12} +barred +node, central .*rolled back by hand$")
        told = json.loads(self.broker("list", "--json"))
        self.assertEqual([(row["version"], row["state"], row["roles"], row["calls"], row["p99_us"]) for row in told],
                         [("1.0", "loaded", ["node", "central"], 24, 1500), ("2.0", "barred", ["node", "central"], 24, 1500)])

    def test_list_without_roles_shows_what_would_be_loaded(self):
        out = self.broker("list")
        self.assertRegex(out, r"least_loaded +balancer .* good +shipped")
        (self.configs / "plugins/bad.so").write_text("no library")
        self.assertRegex(self.broker("list"), r"bad\.so .*refused")

    def test_sign_makes_a_key_once_and_a_signature_each_time(self):
        library = self.folder / "x.so"
        library.write_text("a library")
        key = self.folder / "secret/plugin.key"
        first = self.broker("sign", library, "--key", key)
        self.assertRegex(first, r'trusted_keys = \["[0-9a-f]{64}"\]')
        self.assertIn("is a new key", first)
        self.assertEqual(key.stat().st_mode & 0o777, 0o600)
        signature = (self.folder / "x.so.sig").read_bytes()
        self.assertEqual(len(signature), 64)
        second = json.loads(self.broker("sign", library, "--key", key, "--json"))
        self.assertIn(second["public_key"], first)
        self.assertEqual((self.folder / "x.so.sig").read_bytes(), signature)
        library.write_text("another one")
        self.broker("sign", library, "--key", key)
        self.assertNotEqual((self.folder / "x.so.sig").read_bytes(), signature)

    def test_sign_of_a_mistyped_name_makes_no_key(self):
        self.broker("sign", self.folder / "none.so", "--key", self.folder / "plugin.key", code=1)
        self.assertFalse((self.folder / "plugin.key").exists())

    def test_sign_refuses_a_key_that_others_may_read(self):
        library = self.folder / "x.so"
        library.write_text("a library")
        key = self.folder / "plugin.key"
        self.broker("sign", library, "--key", key)
        os.chmod(key, 0o644)
        self.assertIn("may be read by others", self.broker("sign", library, "--key", key, code=2))


if __name__ == "__main__":
    unittest.main()
