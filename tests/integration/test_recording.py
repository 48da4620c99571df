"""`broker replay record`: what a running node kept of its last requests, and a simulation that reads it."""
import csv
import json
import shutil
import unittest

import support  # noqa: F401  (finds the modules of tests/support)
import cluster
from swap_storm import write_by_rename


class Recording(unittest.TestCase):
    def setUp(self):
        self.site = cluster.Cluster(workers=2)
        self.addCleanup(self.site.__exit__)
        self.site.start()
        self.site.wait_ready()
        self.file = self.site.scratch / "hello.bin"
        self.out = self.site.scratch / "last.csv"

    def submit(self, content, ok=True):
        self.file.write_bytes(content)
        done = self.site.run("submit", "--task", "echo", self.file, "--json", ok=ok)
        return json.loads(done.stdout.splitlines()[0])

    def rows(self):
        lines = self.out.read_text().splitlines()
        self.assertEqual(lines[0], "# gearbox-trace 1")
        return list(csv.DictReader(lines[1:]))

    def record(self, *more, ok=True):
        return self.site.run("replay", "record", "--out", self.out, *more, ok=ok)

    def test_all(self):
        said = self.record().stderr
        self.assertIn("0 requests of node", said)
        sizes = [10, 2000, 30]
        for size in sizes:
            self.submit(b"x" * size)
        said = self.record("--last", "1h").stderr
        self.assertIn("3 requests of node", said)
        rows = self.rows()
        print(self.out.read_text(), flush=True)
        self.assertEqual([int(row["bytes"]) for row in rows], sizes)
        times = [int(row["at_us"]) for row in rows]
        self.assertEqual(times[0], 0)
        self.assertEqual(times, sorted(set(times)))
        for row in rows:
            self.assertEqual((row["model"], row["error"]), ("echo", ""))
            self.assertGreater(int(row["latency_us"]), 0)
            self.assertGreaterEqual(int(row["latency_us"]), int(row["upload_us"]))
            self.assertRegex(row["steps"], r"^echo:1:\d+:\d+:\d+$")
        self.assertNotIn("x" * 10, self.out.read_text())
        self.assertTrue(self.submit(b"")[0]["ok"], "an empty file is one, too")
        self.record()
        self.assertEqual(self.rows()[-1]["bytes"], "0")
        sizes.append(0)

        # Without --out it is for the next program, and nothing else is on stdout.
        piped = self.site.run("replay", "record")
        self.assertEqual(piped.stdout, self.out.read_text())

        for words in (["--last", "soon"], ["--last", "0s"], ["--last", "h"]):
            refused = self.record(*words, ok=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("such as 90s, 15m, 1h or 2d", refused.stderr)
        before = self.out.read_text()
        nowhere = self.site.run("replay", "record", "--out", self.site.scratch / "none/there.csv", ok=False)
        self.assertIn("cannot be written", nowhere.stderr)

        # Fewer are kept from now on: the oldest go, and the command says so.
        file = self.site.configs / "gearbox.toml"
        text = file.read_text()
        write_by_rename(file, text.replace("[node]\n", "[node]\nrecorded_requests = 2\n").encode())
        cluster.wait_until("two are kept", lambda: "2 requests of node" in self.record().stderr, 20)
        self.assertIn("2 earlier ones are forgotten", self.record().stderr)
        self.assertEqual([int(row["bytes"]) for row in self.rows()], sizes[2:])
        write_by_rename(file, text.replace("[node]\n", "[node]\nrecorded_requests = 0\nexplain_requests = 0\n").encode())
        cluster.wait_until("none is kept", lambda: "node.recorded_requests is 0" in self.record(ok=False).stderr, 20)
        self.assertEqual([int(row["bytes"]) for row in self.rows()], sizes[2:], "a failure leaves the file as it was")
        self.submit(b"still served")
        # Recorded without being remembered for `broker explain`.
        write_by_rename(file, text.replace("[node]\n", "[node]\nexplain_requests = 0\n").encode())
        cluster.wait_until("an empty recording", lambda: self.record(ok=False).returncode == 0, 20)
        self.submit(b"y" * 77)
        self.record()
        self.assertEqual([int(row["bytes"]) for row in self.rows()], [77])
        self.assertEqual(len(before.splitlines()), 6)

        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])
        gone = self.record(ok=False)
        self.assertEqual(gone.returncode, 1)
        self.assertIn("no node runs here", gone.stderr)

    def test_payloads_only_when_asked(self):
        folder = self.site.scratch / "payloads"
        self.submit(b"kept by nobody")
        said = self.record("--payloads", folder).stderr
        self.assertIn("what was in 0 of them", said)
        self.assertIn("only with node.recorded_payload_mb", said)
        self.assertEqual(list(folder.iterdir()), [])
        self.assertEqual([(row["payload"], row["inputs"]) for row in self.rows()], [("", "")])

        file = self.site.configs / "gearbox.toml"
        text = file.read_text()
        write_by_rename(file, text.replace("[node]\n", "[node]\nrecorded_payload_mb = 1\n").encode())
        cluster.wait_until("in force", lambda: self.site.run("config", "diff", "--config", self.site.configs, ok=False).returncode == 0, 20)
        large = bytes(range(256)) * 4 * 700  # several pieces of a control answer
        contents = [b"first " * 60_000, b"hello", large, b"x" * (2 << 20)]
        for content in contents:
            self.submit(content)
        self.submit(b"")
        said = self.record("--payloads", folder).stderr
        # The first one gave way to the third, and the fourth is larger than all that is kept.
        self.assertIn("6 requests of node", said)
        self.assertIn("what was in 2 of them", said)
        rows = self.rows()
        self.assertEqual([row["inputs"] for row in rows], ["", "", "image:UINT8:5", f"image:UINT8:{len(large)}", "", ""])
        found = [(folder / row["payload"]).read_bytes() for row in rows if row["payload"]]
        self.assertEqual(found, [b"hello", large])
        self.assertEqual({path.name for path in folder.iterdir()}, {row["payload"] for row in rows} - {""})
        self.assertEqual({path.stat().st_mode & 0o777 for path in folder.iterdir()}, {0o600})
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        again = self.record("--payloads", folder, ok=False)
        self.assertIn("is no empty folder", again.stderr)
        # What it names is as private as the rest, and `broker replay` reads it like any other.
        self.record()
        self.assertNotIn("payload", self.out.read_text())

        write_by_rename(file, text.encode())
        cluster.wait_until("nothing is kept", lambda: "what was in 0" in self.record("--payloads", self.empty()).stderr, 20)
        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])

    def empty(self):
        folder = self.site.scratch / "empty"
        shutil.rmtree(folder, ignore_errors=True)
        return folder


if __name__ == "__main__":
    unittest.main()
