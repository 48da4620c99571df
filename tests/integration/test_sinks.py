"""Results go out to other systems at least once, whatever is slow, away or killed, and requests do not notice."""
import http.server
import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

import support
from cluster import Cluster, jpeg, wait_until

POSTGRES = support.ROOT / "tests/support/postgres"


class Receiver:
    """A web server whose manners a test changes while it runs. Away: nothing listens."""

    def __init__(self):
        self.port = support.free_port()
        self.status = 200
        self.slow = 0
        self.events = []  # those that it took, in their order
        self.posts = 0
        self.server = None

    def come(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts += 1
                time.sleep(receiver.slow)
                if receiver.status == 200:
                    receiver.events.extend(json.loads(body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def leave(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def requests(self):
        return {event["request"] for event in self.events}

    def sink(self, more=""):
        return f'''
[[node.sinks]]
name = "hook"
plugin = "http"
retry_max_ms = 300
timeout_ms = 5000
{more}
[node.sinks.options]
url = "http://127.0.0.1:{self.port}/events"
'''


class Sinks(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.main = self.cluster.configs / "gearbox.toml"
        # Central stays where it is when the node is killed.
        self.main.write_text(self.main.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.receiver = Receiver()
        self.addCleanup(self.receiver.leave)
        self.sent = set()

    def begin(self, sinks):
        self.main.write_text(self.main.read_text() + sinks)
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)

    def files(self, count, order=""):
        files = []
        for number in range(count):
            files.append(self.cluster.scratch / f"{len(self.sent)}-{number}.jpg")
            files[-1].write_bytes(jpeg(3000, order))
        return files

    def send(self, count, order="", ok=True):
        """Sends so many; each is answered. Remembers their ids."""
        code, answers, err = self.cluster.send(self.files(count, order), keys=self.keys, central=self.central)
        self.assertEqual([answer["ok"] for answer in answers], [ok] * count, err)
        ids = [answer["request"] for answer in answers]
        self.sent.update(ids)
        return ids

    def facts(self, name):
        sinks = (self.cluster.status()["node"] or {}).get("sinks")
        return next((each for each in sinks["list"] if each["name"] == name), None) if sinks else None

    def wait_for_all(self, seconds=60):
        wait_until("each request at the receiver", lambda: self.receiver.requests() >= self.sent, seconds)
        self.assertEqual(self.receiver.requests(), self.sent, "and nothing else")

    def kill_node(self):
        before = self.cluster.record("node")["pid"]
        os.kill(before, signal.SIGKILL)

        def another():
            node = self.cluster.status()["node"]
            return node and node["ready"] and node["pid"] != before
        wait_until("the next node", another, 60)

    def ends_clean(self):
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_each_request_is_a_row_of_a_sqlite_file(self):
        self.begin('[[node.sinks]]\nname = "archive"\n')
        done = self.send(5)
        failed = self.send(1, "raise", ok=False)
        wait_until("6 rows", lambda: self.facts("archive")["delivered"] == 6, 20)
        with sqlite3.connect(self.cluster.state / "sinks/archive/results.db") as database:
            rows = database.execute("SELECT request, state, user, task, error, result, output_bytes FROM results").fetchall()
        database.close()
        self.assertEqual({row[0]: row[1] for row in rows}, {**{one: "done" for one in done}, failed[0]: "failed"})
        for request, state, user, task, error, result, size in rows:
            self.assertEqual((user, task), ("anna", "echo"))
            if state == "failed":
                self.assertIn("model_failed: ", error)
                continue
            tensors = {each["name"]: each for each in json.loads(result)["tensors"]}
            self.assertEqual(len(tensors["text"]["values"][0]), 64, "a small output is there with its values")
            self.assertGreater(size, 3000)
        # What waits is counted apart from what has been delivered: a moment later.
        wait_until("all of it in the status", lambda: re.search(r"archive +sqlite +idle +0 +6 +0 +0", self.cluster.run("status").stdout), 20)
        kinds = json.loads(self.cluster.run("plugins", "list", "--json").stdout)
        self.assertIn(("sink", "sqlite"), {(each["kind"], each["name"]) for each in kinds})
        self.ends_clean()

    def test_a_receiver_that_is_slow_away_or_broken_gets_all_in_the_end(self):
        self.receiver.come()
        self.begin(self.receiver.sink())
        self.send(4)
        self.wait_for_all()

        self.receiver.slow = 1
        self.send(8)
        self.assertLess(len(self.receiver.requests()), len(self.sent), "requests did not wait for it")
        self.receiver.slow = 0
        self.wait_for_all()

        self.receiver.status = 500
        self.send(8)
        posts = self.receiver.posts
        wait_until("another try", lambda: self.receiver.posts > posts + 1, 20)
        self.assertEqual(len(self.receiver.requests()), len(self.sent) - 8)
        self.assertEqual(self.facts("hook")["last_error"], "HTTP 500")
        self.receiver.status = 401  # a token that has run out: people mend that
        wait_until("a refusal", lambda: self.facts("hook")["last_error"] == "HTTP 401", 20)

        self.receiver.leave()
        self.send(8)
        # A device may hear of its answer before the sink's thread has counted it.
        wait_until("all in the queue", lambda: self.facts("hook")["queued"] == 16, 20)
        self.kill_node()
        self.assertEqual(self.facts("hook")["queued"], 16, "it lies on the disk")
        self.send(8)
        wait_until("tries", lambda: self.facts("hook")["retried"] > 1, 20)

        self.receiver.status = 200
        self.receiver.come()
        self.wait_for_all()
        wait_until("an empty queue", lambda: self.facts("hook")["queued"] == 0, 20)
        self.assertEqual(self.facts("hook")["dead_letters"], 0)
        self.assertEqual({event["state"] for event in self.receiver.events}, {"done"})
        self.ends_clean()

    def test_kills_in_the_middle_of_requests_lose_no_event(self):
        self.receiver.come()
        self.begin(self.receiver.sink())
        # A sender of its own for each kill: one that has met several waits for long.
        for _ in range(3):
            before = len(self.receiver.requests())
            sender = self.cluster.start_send(self.files(12, "sleep 0.1"), keys=self.keys, central=self.central)
            wait_until("some events", lambda: len(self.receiver.requests()) >= before + 3, 60, 0.01)
            self.kill_node()
            out, err = sender.communicate(timeout=120)
            answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            self.assertEqual((sender.returncode, len(answers)), (0, 12), err)
            self.sent.update(answer["request"] for answer in answers)
        self.wait_for_all()
        keys = [event["key"] for event in self.receiver.events]
        print(f"36 requests, 3 kills: {len(keys)} events, {len(keys) - len(set(keys))} of them repeats", flush=True)
        self.ends_clean()

    def test_a_full_queue_and_a_refusal_make_dead_letters(self):
        self.begin(self.receiver.sink("max_events = 4\nbatch = 2"))
        self.send(10)
        wait_until("dead letters", lambda: self.facts("hook")["dead_letters"] == 6, 20)
        wait_until("4 in the queue", lambda: self.facts("hook")["queued"] == 4, 20)
        file = self.cluster.state / "sinks/hook/dead.ndjson"
        letters = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual({letter["why"] for letter in letters}, {"the queue of this sink was full"})
        self.receiver.status = 400
        self.receiver.come()
        wait_until("the rest", lambda: self.facts("hook")["dead_letters"] == 10, 20)
        letters = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual({letter["event"]["request"] for letter in letters}, self.sent)
        self.assertEqual([letter["why"] for letter in letters[6:]], ["HTTP 400"] * 4)
        self.assertEqual(self.facts("hook")["queued"], 0)
        self.ends_clean()

    def test_its_options_change_live_and_faults_are_told_with_their_place(self):
        self.receiver.come()
        self.begin(self.receiver.sink())
        self.send(1)
        self.wait_for_all()
        whole = self.main.read_text()
        other = Receiver()
        self.addCleanup(other.leave)
        other.come()
        self.main.write_text(whole.replace(f":{self.receiver.port}/", f":{other.port}/"))
        wait_until("the other address in force",
                   lambda: self.cluster.run("config", "diff", "--config", self.cluster.configs, ok=False).returncode == 0, 20)
        ids = self.send(1)
        wait_until("an event at the other one", lambda: other.requests() == set(ids), 20)

        def refused(text):
            self.main.write_text(text)
            return self.cluster.run("config", "check", "--config", self.cluster.configs, ok=False)
        wrong = refused(whole.replace('name = "hook"', 'name = "hook"\ntasks = ["ecko"]'))
        line = 1 + whole[:whole.index('name = "hook"')].count("\n") + 1
        self.assertEqual(wrong.returncode, 2)
        self.assertIn(f"gearbox.toml:{line}:", wrong.stdout + wrong.stderr)
        self.assertIn("did you mean 'echo'?", wrong.stdout + wrong.stderr)
        wrong = refused(whole.replace("url = ", "uri = "))
        self.assertIn("gearbox.toml: node.sinks[hook]: ", wrong.stdout + wrong.stderr)
        self.assertIn("did you mean 'url'?", wrong.stdout + wrong.stderr)
        wrong = refused(whole + '\n[[node.sinks]]\nname = "hook"\nbatches = 3\n')
        self.assertIn("there is a sink called 'hook' already", wrong.stdout + wrong.stderr)
        self.assertIn("did you mean 'batch'?", wrong.stdout + wrong.stderr)
        self.main.write_text(whole.replace("url = ", "uri = "))
        told = wait_until("the refusal", lambda: next(
            (text for text in [self.cluster.run("config", "diff", "--config", self.cluster.configs, ok=False).stdout]
             if "refused" in text), None), 20)
        self.assertIn("node.sinks[hook]", told)
        self.assertIn("did you mean 'url'?", told)
        self.main.write_text(whole)
        self.ends_clean()

    def test_rows_in_postgres(self):
        folder = tempfile.mkdtemp(prefix="gearbox-postgres-")
        self.addCleanup(subprocess.run, ["rm", "-rf", folder])
        started = subprocess.run([POSTGRES, "start", folder], capture_output=True, text=True)
        if started.returncode == 3:
            print(f"NOT RUN: {started.stdout.strip()}", flush=True)
            self.skipTest(started.stdout.strip())
        if not (self.cluster.build / "lib/gearbox/plugins/sink_postgres.so").exists():
            print("NOT RUN: built without libpqxx", flush=True)
            self.skipTest("built without libpqxx")
        self.assertEqual(started.returncode, 0, started.stderr)
        self.addCleanup(subprocess.run, [POSTGRES, "stop", folder], capture_output=True)
        connection = started.stdout.strip()
        self.begin(f'''
[[node.sinks]]
name = "pg"
plugin = "postgres"
retry_max_ms = 300
[node.sinks.options]
connection = "{connection}"
''')
        self.send(3)
        wait_until("3 rows", lambda: self.facts("pg")["delivered"] == 3, 20)
        subprocess.run([POSTGRES, "stop", folder], check=True)
        self.send(3)
        wait_until("3 in the queue", lambda: self.facts("pg")["queued"] == 3, 20)
        self.kill_node()
        subprocess.run([POSTGRES, "restart", folder], check=True, capture_output=True)
        wait_until("the others", lambda: self.facts("pg")["queued"] == 0, 30)
        rows = subprocess.run(["psql", connection, "-Atc", "SELECT request FROM gearbox_results WHERE state = 'done' AND "
                               "result->'tensors'->0->>'name' IS NOT NULL"], capture_output=True, text=True, check=True)
        self.assertEqual(sorted(rows.stdout.split()), sorted(self.sent))
        whole = self.main.read_text()
        self.main.write_text(whole.replace("user=gearbox", "user=gearbox password=s3cret"))
        for command in ("check", "show", "diff"):
            ran = self.cluster.run("config", command, "--config", self.cluster.configs, ok=False)
            self.assertNotIn("s3cret", ran.stdout + ran.stderr)
            if command == "check":
                self.assertEqual(ran.returncode, 2)
                self.assertRegex(ran.stdout + ran.stderr, r"node\.sinks\[pg\]: .*connection: holds a password")
                self.assertIn("~/.pgpass", ran.stdout + ran.stderr)
        self.main.write_text(whole)
        self.ends_clean()


if __name__ == "__main__":
    unittest.main()
