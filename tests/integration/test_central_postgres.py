"""Two hosts, one PostgreSQL database: one central serves, the other stands by. The serving host is lost, the database is away for a
while, the serving central loses its lock: each time one central serves, with the accounts that there were, and never two."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import support
from cluster import Cluster, jpeg, wait_until

POSTGRES = support.ROOT / "tests/support/postgres"
TAKEN_OVER_S = 10  # usually half a second; this machine may be busy
PICTURES = 60


class SharedDatabase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gearbox-postgres-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        started = subprocess.run([POSTGRES, "start", self.folder], capture_output=True, text=True)
        if started.returncode == 3:
            print("NOT RUN:", started.stdout.strip(), flush=True)
            self.skipTest(started.stdout.strip())
        self.assertEqual(started.returncode, 0, started.stderr)
        self.addCleanup(subprocess.run, [POSTGRES, "stop", self.folder], capture_output=True)
        self.database = started.stdout.strip()
        self.hosts = [Cluster(), Cluster()]
        for host in self.hosts:
            self.addCleanup(host.__exit__)
        self.one, self.other = self.hosts
        self.urls = [f"tcp://127.0.0.1:{support.free_port()}" for _ in self.hosts]
        self.key = self.one.run("keys", "show", "--make", "central", "--field", "central").stdout.strip()
        self.other.run("keys", "show")  # makes the folder
        for name in ("central.channel", "central.signing"):
            shutil.copy2(self.one.state / "keys" / name, self.other.state / "keys" / name)
        for number, host in enumerate(self.hosts):
            self.configure(host, number)
        self.one.start()
        wait_until("the first central", lambda: self.serves(self.one), 60)
        self.other.start()
        self.both_nodes_at(self.one, 60)
        wait_until("a standby", lambda: self.stands_by(self.other), 30)
        self.one.add_user()
        self.devices = [self.enrol("kept"), self.enrol("stolen")]
        self.picture = self.one.scratch / "picture.jpg"
        self.picture.write_bytes(jpeg(20_000))

    def configure(self, host, number):
        centrals = json.dumps(self.urls)
        file = host.configs / "gearbox.toml"
        text = file.read_text().replace('"tcp://127.0.0.1:0"', f'"{self.urls[number]}"\ndatabase = "{self.database}"', 1)
        text = text.replace("[node]\n", f'[node]\nname = "node-{number}"\ncentral = {centrals}\ncentral_key = "{self.key}"\n')
        file.write_text(text)

    # -- who serves

    def central_of(self, host):
        if host.supervisor is not None:
            self.assertIsNone(host.supervisor.poll(), host.log())
        return host.status()["central"] or {}

    def serves(self, host):
        central = self.central_of(host)
        return central if central.get("ready") and not central.get("standby") else None

    def stands_by(self, host):
        central = self.central_of(host)
        return central if central.get("ready") and central.get("standby") else None

    def both_nodes_at(self, host, seconds):
        def there():
            return sum(node["state"] == "alive" for node in self.central_of(host).get("nodes", [])) == 2
        wait_until("both nodes", there, seconds)

    def one_of_them_serves(self, seconds, not_pid=0):
        def only_one():
            serving = [(host, self.serves(host)) for host in self.hosts]
            serving = [(host, central) for host, central in serving if central and central["pid"] != not_pid]
            self.assertLessEqual(len(serving), 1, "two centrals serve")
            return serving and serving[0]
        return wait_until("a central that serves", only_one, seconds, 0.05)

    def term(self):
        return int(self.sql("SELECT term FROM gearbox.central"))

    def sql(self, statement):
        done = subprocess.run(["psql", "-XAtq", self.database, "-c", statement], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    # -- devices

    def enrol(self, device):
        return self.one.enrol(device=device, central=(self.urls[0], self.key))

    def send(self, keys, files=None, more=(), seconds=60, patience_ms=30000):
        more = ("--central", self.urls[1], "--first-contact-ms", str(patience_ms), *more)
        return self.one.send(files or [self.picture], keys=keys, central=(self.urls[0], self.key), more=more, seconds=seconds)

    def is_answered(self, keys):
        code, answers, err = self.send(keys)
        self.assertEqual((code, len(answers)), (0, 1), err)

    def ends_clean(self):
        for host in self.hosts:
            self.assertEqual(host.stop(), 0, host.log())
        for host in self.hosts:
            self.assertEqual([line for line in host.leftovers() if "shared memory" not in line], [])
        self.assertEqual([line for line in self.one.leftovers() if "shared memory" in line], [])

    # -- the tests

    def test_the_serving_host_is_lost(self):
        kept, stolen = self.devices
        self.is_answered(kept)
        self.one.run("keys", "revoke", "anna/stolen")
        self.one.run("device", "send", "kept", "status")
        users = self.one.run("users", "list", "--json").stdout
        term = self.term()
        lost = time.monotonic()
        self.one.kill()
        wait_until("the other central", lambda: self.serves(self.other), TAKEN_OVER_S, 0.02)
        took = time.monotonic() - lost
        self.assertEqual(self.term(), term + 1)
        self.is_answered(kept)
        print(f"taken over after {took:.2f} s, a device answered after {time.monotonic() - lost:.2f} s", flush=True)
        code, answers, err = self.send(stolen, patience_ms=2000)
        self.assertNotEqual(code, 0)
        self.assertIn("revoked", str(answers) + err)
        self.assertEqual(self.other.run("users", "list", "--json").stdout, users)
        done = [command for device in json.loads(self.other.run("device", "list", "--json").stdout) for command in device["commands"]]
        self.assertEqual([(command["words"], command["state"]) for command in done], [(["status"], "done")])
        self.one.start()
        wait_until("the first one stands by", lambda: self.stands_by(self.one), 60)
        self.both_nodes_at(self.other, 60)
        self.assertTrue(self.serves(self.other))
        self.assertEqual(self.term(), term + 1)
        # What one host's command line changes is true at once for the central of the other.
        self.one.run("users", "disable", "anna")
        code, answers, err = self.send(kept, patience_ms=2000)
        self.assertNotEqual(code, 0)
        self.assertIn("disabled", str(answers) + err)
        self.ends_clean()

    def test_the_database_is_away_for_a_while(self):
        kept, _ = self.devices
        pids = [host.supervisor.pid for host in self.hosts]
        files = []
        for number in range(PICTURES):
            files.append(self.one.scratch / f"{number}.jpg")
            files[-1].write_bytes(jpeg(20_000, "sleep 0.1"))

        def answered():
            return sum((host.status()["node"] or {"counters": {"answered": 0}})["counters"]["answered"] for host in self.hosts)
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.send, kept, files=files, more=("--parallel", "1"), seconds=100)
            wait_until("load", lambda: answered() > 2, 30, 0.05)
            subprocess.run([POSTGRES, "stop", self.folder], check=True, capture_output=True)
            for host in self.hosts:
                wait_until("it says so", lambda: self.central_of(host).get("database_answers") is False, 30)
                self.assertIn("the database is away", host.run("status").stdout)
            before = answered()
            wait_until("answers without a database", lambda: answered() > before + 3, 20)
            self.assertFalse(sending.done(), "the load ended while the database was away")
            refused = self.one.run("users", "list", ok=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("away", refused.stderr)
            subprocess.run([POSTGRES, "restart", self.folder], check=True, capture_output=True)
            back = time.monotonic()
            host, _ = self.one_of_them_serves(TAKEN_OVER_S + 30)  # the pauses between two starts of a role have grown
            print(f"served again {time.monotonic() - back:.2f} s after the database was back", flush=True)
            code, answers, err = sending.result()
            self.assertEqual((code, len(answers)), (0, PICTURES), err)
        self.both_nodes_at(host, 60)
        self.is_answered(kept)
        self.assertEqual([host.supervisor.pid for host in self.hosts], pids)
        for host in self.hosts:
            self.assertIsNone(host.supervisor.poll())
            self.assertNotIn("signal", "".join(line for line in host.log().splitlines() if "central" in line and "ended" in line))
        self.ends_clean()

    def test_it_may_be_started_before_its_database(self):
        for host in self.hosts:
            self.assertEqual(host.stop(), 0, host.log())
        self.sql("DROP SCHEMA gearbox CASCADE")
        (self.one.state / "accounts").unlink()  # a new installation: with the note of the old one it would refuse the empty database
        subprocess.run([POSTGRES, "stop", self.folder], check=True, capture_output=True)
        self.one.start()
        wait_until("it says so", lambda: self.central_of(self.one).get("database_answers") is False, 60)
        subprocess.run([POSTGRES, "restart", self.folder], check=True, capture_output=True)
        wait_until("a central that serves", lambda: self.serves(self.one), 30)
        # This host's own node is registered all the same.
        wait_until("its node", lambda: [each["state"] for each in self.central_of(self.one).get("nodes", [])] == ["alive"], 60)
        self.assertEqual(self.one.stop(), 0, self.one.log())
        self.assertEqual(self.one.leftovers(), [])

    def test_a_database_that_has_lost_its_accounts_is_not_taken_for_a_new_one(self):
        self.sql("DROP SCHEMA gearbox CASCADE")

        def refused():
            return any("the database has no accounts" in host.log() for host in self.hosts)
        wait_until("a word of what to do", refused, 30)
        self.assertFalse(any(self.serves(host) for host in self.hosts))
        self.assertEqual(self.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'gearbox'"), "0", "nothing was made in its place")
        for host in self.hosts:
            self.assertEqual(host.stop(), 0, host.log())

    def test_the_serving_central_loses_its_lock(self):
        """It stands still meanwhile, as a machine does that is paused: when it wakes up another one serves, and it ends at once."""
        kept, _ = self.devices
        pid = self.central_of(self.one)["pid"]
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        cut = time.monotonic()
        self.assertEqual(self.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'"), "1")
        wait_until("the other central", lambda: self.serves(self.other), TAKEN_OVER_S, 0.02)
        print(f"taken over {time.monotonic() - cut:.2f} s after the lock was cut", flush=True)
        self.is_answered(kept)
        os.kill(pid, signal.SIGCONT)
        woken = time.monotonic()
        wait_until("the first one's end", lambda: not os.path.exists(f"/proc/{pid}"), 5, 0.01)
        print(f"the former one ended {(time.monotonic() - woken) * 1000:.0f} ms after it woke up", flush=True)
        wait_until("the first one stands by", lambda: self.stands_by(self.one), 30)
        self.assertIn("event=lead_lost", self.one.log() + (self.one.state / "log/central.log").read_text())
        self.assertTrue(self.serves(self.other))
        self.is_answered(kept)
        self.ends_clean()

    def test_one_that_hears_of_its_cut_lock_ends_and_another_one_serves(self):
        pid = self.central_of(self.one)["pid"]
        term = self.term()
        self.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'")
        wait_until("its end", lambda: not os.path.exists(f"/proc/{pid}"), 5, 0.01)
        self.one_of_them_serves(TAKEN_OVER_S, not_pid=pid)
        self.assertGreater(self.term(), term)
        self.is_answered(self.devices[0])
        self.ends_clean()

    def test_a_host_with_other_keys_is_refused(self):
        stranger = Cluster()
        self.addCleanup(stranger.__exit__)
        self.configure(stranger, 0)
        words = [stranger.broker, "central", "--config", stranger.configs, "--state", stranger.state]
        for kind in ("has none yet", "copy keys/central.channel"):
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(kind, done.stdout + done.stderr)
            stranger.run("keys", "show", "--make", "central")
        self.assertTrue(self.serves(self.one))
        self.ends_clean()

    def test_a_password_is_refused_and_not_repeated(self):
        file = self.one.configs / "gearbox.toml"
        secret = file.read_text().replace(self.database, self.database + " password=s3cret")
        file.write_text(secret)
        for words in (("config", "check"), ("config", "show"), ("users", "list")):
            done = self.one.run(*words, "--config", self.one.configs, ok=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(".pgpass", done.stderr)
            self.assertNotIn("s3cret", done.stdout + done.stderr)
        self.ends_clean()
        self.assertNotIn("s3cret", self.one.log())


if __name__ == "__main__":
    unittest.main()
