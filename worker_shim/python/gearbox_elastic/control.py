"""Control: the driver's control socket: JSON lines over a unix socket, one answer for each line, in the driver's own loop.

    {"op": "status"}   {"op": "price", "gear": 3}   {"op": "shift", "gear": 3, "term": 7}   {"op": "shift", "plan": {...}, "term": 7}
    {"op": "abort"}    {"op": "history"}            {"op": "figures"}                       {"op": "drain", "gear": 3, "term": 7}

Every answer is an object with "ok"; "why" tells of a no. An "id" of the question stands in its answer.
"""
import json
import os
import selectors
import socket

MOST_LINE = 1 << 20
MOST_CLIENTS = 32
MOST_UNSENT = 16 << 20


class _Client:
    def __init__(self, control, sock):
        self.control, self.sock = control, sock
        self.incoming, self.outgoing = bytearray(), bytearray()

    def ready(self):
        try:
            self._flush()
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.control.drop(self)
            return
        self.incoming += data
        while b"\n" in self.incoming:
            line, _, rest = bytes(self.incoming).partition(b"\n")
            self.incoming = bytearray(rest)
            self._take(line)
        if len(self.incoming) > MOST_LINE:
            self.control.drop(self)

    def _take(self, line):
        try:
            command = json.loads(line)
            if not isinstance(command, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            self.answer({"ok": False, "why": f"the line is no JSON: {error}"}, None)
            return
        self.control.driver.command(command, lambda answer: self.answer(answer, command.get("id")))

    def answer(self, answer, number):
        if self.sock.fileno() < 0:
            return  # it did not wait for it
        self.outgoing += json.dumps(dict(answer, id=number) if number is not None else answer).encode() + b"\n"
        if len(self.outgoing) > MOST_UNSENT:
            self.control.drop(self)
            return
        try:
            self._flush()
        except OSError:
            self.control.drop(self)

    def _flush(self):
        while self.outgoing:
            try:
                sent = self.sock.send(self.outgoing)
            except BlockingIOError:
                break
            del self.outgoing[:sent]
        self.control.watch(self)


class Control:
    """Errors of the constructor: OSError. The socket's file is only this user's."""

    def __init__(self, driver, path):
        self.driver, self.path = driver, path
        self.clients = set()
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            os.unlink(path)  # of a driver that was killed; one that lives is not served two masters' models
        except FileNotFoundError:
            pass
        mask = os.umask(0o177)
        try:
            self._sock.bind(path)
        except OSError as error:
            self._sock.close()
            raise OSError(f"control socket {path}: {error}") from None
        finally:
            os.umask(mask)
        self._sock.listen(8)
        driver._selector.register(self._sock, selectors.EVENT_READ, self._accept)

    def _accept(self):
        try:
            sock, _ = self._sock.accept()
        except OSError:
            return  # gone again
        if len(self.clients) >= MOST_CLIENTS:
            sock.close()
            return
        sock.setblocking(False)
        client = _Client(self, sock)
        self.clients.add(client)
        self.driver._selector.register(sock, selectors.EVENT_READ, client.ready)

    def watch(self, client):
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outgoing else 0)
        if client in self.clients:
            self.driver._selector.modify(client.sock, events, client.ready)

    def drop(self, client):
        if client in self.clients:
            self.clients.discard(client)
            self.driver._selector.unregister(client.sock)
            client.sock.close()

    def close(self):
        for client in list(self.clients):
            self.drop(client)
        self.driver._selector.unregister(self._sock)
        self._sock.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
