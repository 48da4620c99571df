"""`broker metrics`: once, and served to a scraper, beside who does not scrape in order."""
import os
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

import support  # noqa: F401  (finds the modules of tests/support)
import cluster


def samples(text):
    """{"name{labels}": value}; fails on what is no exposition format."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert line.split()[1] in ("HELP", "TYPE"), line
            continue
        name, value = line.rsplit(" ", 1)
        assert name not in found, line
        found[name] = float(value)
    return found


class Metrics(unittest.TestCase):
    def setUp(self):
        self.site = cluster.Cluster(workers=1)
        self.addCleanup(self.site.__exit__)

    def serve(self, *more):
        server = subprocess.Popen([self.site.broker, "metrics", "--state", self.site.state, "--listen", "127.0.0.1:0", *more], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.kill(), server.communicate()))
        line = server.stdout.readline()
        self.assertRegex(line, r"^metrics at http://127\.0\.0\.1:\d+/metrics$")
        return server, line.split()[-1]

    def test_of_a_node_that_works(self):
        self.site.start()
        self.site.wait_ready()
        file = self.site.scratch / "hello.bin"
        file.write_bytes(b"x" * 100)
        for _ in range(3):
            self.site.run("submit", "--task", "echo", file)
        once = samples(self.site.run("metrics").stdout)
        _, url = self.serve()
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            served = samples(answer.read().decode())
        self.assertEqual(set(once), set(served))
        for page in (once, served):
            for role in ("supervisor", "central", "node"):
                self.assertEqual(page[f'gearbox_up{{role="{role}"}}'], 1)
            self.assertEqual(page["gearbox_node_requests_answered_total"], 3)
            self.assertEqual(page['gearbox_task_ready{task="echo"}'], 1)
            self.assertGreaterEqual(page["gearbox_central_node_reports_total"], 1)
            self.assertNotIn('gearbox_up{role="observer"}', page)
        # One that was killed is told as down, whoever asks first.
        pid = self.site.status()["central"]["pid"]
        os.kill(self.site.supervisor.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, self.site.supervisor.pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
        with urllib.request.urlopen(url, timeout=30) as answer:
            page = samples(answer.read().decode())
        self.assertEqual(page['gearbox_up{role="central"}'], 0)
        self.assertEqual(page["gearbox_node_requests_answered_total"], 3)
        os.kill(self.site.supervisor.pid, signal.SIGCONT)

    def test_where_nothing_runs_that_is_told(self):
        self.assertEqual(samples(self.site.run("metrics").stdout), {'gearbox_up{role="supervisor"}': 0})

    def test_those_who_do_not_scrape_in_order_hold_nobody_up(self):
        server, url = self.serve()
        address = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        silent = [socket.create_connection(address) for _ in range(10)]
        slow = socket.create_connection(address)
        slow.sendall(b"GET /metr")
        for garbage in (b"\x16\x03\x01\x02\x00\x01\x00" * 40, b"GET " + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"):
            with socket.create_connection(address) as sock:
                sock.settimeout(30)
                try:
                    sock.sendall(garbage)
                    while sock.recv(65536):
                        pass
                except ConnectionError:
                    pass
        for path, method, status in (("/metrics", "GET", 200), ("/metrics?a=b", "GET", 200), ("/", "GET", 404), ("/metrics", "POST", 405)):
            request = urllib.request.Request(url.replace("/metrics", path), method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    got = answer.status
            except urllib.error.HTTPError as error:
                got = error.code
                self.assertNotEqual(error.read(), b"")
                error.close()
            self.assertEqual(got, status, (method, path))
        # The silent ones are sent away after their time.
        for sock in [*silent, slow]:
            sock.settimeout(60)
            self.assertEqual(sock.recv(1), b"")
            sock.close()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(30), 0)

    def test_an_address_that_is_none_is_told(self):
        for address, words in (("localhost:9464", "is no address to listen at"), ("127.0.0.1", "is no address to listen at"),
                               ("127.0.0.1:99999", "is no address to listen at"), ("192.0.2.1:9464", "cannot listen at 192.0.2.1:9464: ")):
            done = self.site.run("metrics", "--listen", address, ok=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
