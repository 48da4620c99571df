"""N clients that ask a peer over HTTP, each as soon as it was answered, on connections that stay; checks every byte that comes back.

usage: http_load.py PORT PATH HEADERS_JSON PREFIX PAYLOADS PIECE_BYTES ANSWERS CLIENTS SECONDS
PREFIX: text in front of the raw bytes in the body ("" for none). Prints one line of JSON as load_device does:
{"requests", "failed", "wrong", "reasons", "samples": [[start_us, took_us], ...]}. Standard library only.

One thread, sockets that never block, requests made before the clock starts: what it costs is the system calls, as for load_device.
The load programs that the peers name (wrk, perf_analyzer) send the same bytes; tritonclient's Python and httpx, which their examples
use, take many times the CPU for it, on the core that the server's front shares with the clients.
"""
import json
import selectors
import socket
import sys
import time

ROOM = 1 << 16
PATIENCE_S = 30  # beyond the measured time


class Client:
    """One connection: a request out, its answer in."""

    def __init__(self, port, load):
        self.load = load
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.begun = None

    def ask(self):
        self.wanted, request = self.load.next_piece()
        self.rest = memoryview(request)
        self.got = bytearray()
        self.whole = None  # bytes of head and body, once the head is there
        self.begun = time.perf_counter_ns()
        self.send()

    def send(self):
        try:
            while self.rest:
                self.rest = self.rest[self.socket.send(self.rest):]
            self.load.poll.modify(self.socket, selectors.EVENT_READ, self)
        except BlockingIOError:
            self.load.poll.modify(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def receive(self):
        """True when the answer is whole."""
        while True:
            try:
                part = self.socket.recv(1 << 20 if self.whole and self.whole > ROOM else ROOM)
            except BlockingIOError:
                return False
            if not part:
                raise ConnectionError("the server closed the connection")
            self.got += part
            if self.whole is None:
                head = self.got.find(b"\r\n\r\n")
                if head < 0:
                    continue
                self.head = bytes(self.got[:head]).lower()
                length = [line for line in self.head.split(b"\r\n") if line.startswith(b"content-length:")]
                if not length:
                    raise ConnectionError("an answer without a length: " + self.head.decode(errors="replace")[:200])
                self.whole = head + 4 + int(length[0].split(b":")[1])
            if len(self.got) >= self.whole:
                return True

    def fault(self):
        """"" when it is the answer that was to come. What the peer puts in front of the bytes is its own affair."""
        if b" 200 " not in self.head.split(b"\r\n")[0] + b" ":
            return "status " + bytes(self.got[:300]).decode(errors="replace")
        return "" if memoryview(self.got)[self.whole - len(self.wanted):self.whole] == self.wanted else "another answer came back"


class Load:
    def __init__(self, requests, answers):
        self.requests, self.answers = requests, answers
        self.at = 0
        self.poll = selectors.DefaultSelector()
        self.tally = {"requests": 0, "failed": 0, "wrong": 0, "reasons": {}, "samples": []}

    def next_piece(self):
        self.at += 1
        index = self.at % len(self.requests)
        return self.answers[index], self.requests[index]

    def note(self, kind, reason):
        self.tally[kind] += 1
        self.tally["reasons"][reason] = self.tally["reasons"].get(reason, 0) + 1

    def run(self, port, clients, seconds):
        zero = time.perf_counter_ns()
        for _ in range(clients):
            client = Client(port, self)
            self.poll.register(client.socket, selectors.EVENT_READ, client)
            client.ask()
        waiting = clients
        ends = zero + int(seconds * 1e9)
        gives_up = ends + int(PATIENCE_S * 1e9)
        while waiting and time.perf_counter_ns() < gives_up:
            for key, mask in self.poll.select(1):
                client = key.data
                try:
                    if mask & selectors.EVENT_WRITE:
                        client.send()
                    if not mask & selectors.EVENT_READ or not client.receive():
                        continue
                except OSError as error:
                    self.tally["requests"] += 1
                    self.note("failed", str(error))
                    self.poll.unregister(client.socket)
                    waiting -= 1
                    continue
                now = time.perf_counter_ns()
                self.tally["requests"] += 1
                fault = client.fault()
                if fault.startswith("status"):
                    self.note("failed", fault)
                else:
                    if fault:
                        self.note("wrong", fault)
                    self.tally["samples"].append([(client.begun - zero) // 1000, (now - client.begun) // 1000])
                if now < ends:
                    client.ask()
                else:
                    self.poll.unregister(client.socket)
                    client.socket.close()
                    waiting -= 1
        if waiting:
            self.note("failed", "no answer in time")
        return self.tally


def main():
    port, path, headers, prefix, payloads, size, answers, clients, seconds = sys.argv[1:]
    size = int(size)
    with open(payloads, "rb") as file:
        raw = file.read()
    with open(answers, "rb") as file:
        wanted = file.read()
    pieces = [raw[at:at + size] for at in range(0, len(raw), size)]
    each = len(wanted) // len(pieces)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/octet-stream\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in json.loads(headers).items())
    head += f"Content-Length: {len(prefix.encode()) + size}\r\n\r\n{prefix}"
    load = Load([head.encode() + piece for piece in pieces], [wanted[at:at + each] for at in range(0, len(wanted), each)])
    print(json.dumps(load.run(int(port), int(clients), float(seconds))))


if __name__ == "__main__":
    main()
