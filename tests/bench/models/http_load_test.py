"""bench/models/http_load.py against a server that answers well, wrongly, with an error, or hangs up."""
import json
import subprocess
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HTTP_LOAD = Path(__file__).resolve().parents[3] / "bench/models/http_load.py"
SIZE, PIECES = 300_000, 4


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.seen.append((self.path, self.headers["X-More"], body[:4], self.client_address))
            number = len(self.server.seen)
        answer, status = b"front" + body[4:][::-1], 200
        if self.server.mode == "wrong" and number == 3:
            answer = b"front" + body[4:]
        if self.server.mode == "error" and number == 3:
            answer, status = b"out of order", 500
        if self.server.mode == "hang up" and number == 3:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class HttpLoad(unittest.TestCase):
    def ask(self, mode, clients=3, seconds=0.3):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.mode, server.seen, server.lock = mode, [], threading.Lock()
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            with tempfile.TemporaryDirectory(prefix="gearbox-http-") as folder:
                payloads, answers = Path(folder, "payloads"), Path(folder, "answers")
                pieces = [bytes((number + at) % 251 for at in range(SIZE)) for number in range(PIECES)]
                payloads.write_bytes(b"".join(pieces))
                answers.write_bytes(b"".join(piece[::-1] for piece in pieces))
                words = [sys.executable, "-B", HTTP_LOAD, server.server_address[1], "/there", '{"X-More": 7}', "{1}\n", payloads, SIZE, answers,
                         clients, seconds]
                done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60)
        finally:
            server.shutdown()
            serving.join()
            server.server_close()
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), server.seen

    def test_each_client_keeps_its_connection_and_asks_again(self):
        tally, seen = self.ask("well")
        self.assertEqual((tally["failed"], tally["wrong"]), (0, 0), tally["reasons"])
        self.assertEqual({(path, more, front) for path, more, front, _ in seen}, {("/there", "7", b"{1}\n")})
        self.assertEqual(len({address for *_, address in seen}), 3)
        self.assertEqual(tally["requests"], len(seen))
        self.assertGreaterEqual(len(seen), 3)
        self.assertEqual(len(tally["samples"]), len(seen))
        for start, took in tally["samples"]:
            self.assertGreaterEqual(start, 0)
            self.assertGreater(took, 0)

    def test_another_answer_is_wrong(self):
        tally, _ = self.ask("wrong")
        self.assertEqual((tally["failed"], tally["wrong"]), (0, 1))
        self.assertEqual(tally["reasons"], {"another answer came back": 1})

    def test_a_status_and_a_hang_up_have_failed(self):
        for mode, reason in (("error", "500"), ("hang up", "closed the connection")):
            with self.subTest(mode):
                tally, _ = self.ask(mode)
                self.assertEqual((tally["failed"], tally["wrong"]), (1, 0))
                self.assertIn(reason, str(tally["reasons"]))


if __name__ == "__main__":
    unittest.main()
