"""A scheduler's stream to another host's gear roles, through this host's node: for tests that ask what a scheduler would not."""
import json
import socket
import struct

HEADER = struct.Struct("<BBBxII16sIIIIIQ8x")
HELLO, HELLO_OK, ERROR, PING, PONG, GEARS_OPEN, GEARS_DATA = 1, 2, 3, 4, 5, 48, 49


class Refused(Exception):
    """The text of an error frame."""


class GearStream:
    def __init__(self, node_socket, node):
        self.number = 0
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(node_socket))
        self._send(HELLO, {"role": "local"})
        self._expect(HELLO_OK)
        self._send(GEARS_OPEN, {"node": node})
        self.opened = self._expect(GEARS_OPEN)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def _send(self, kind, value, number=0):
        text = json.dumps(value).encode()
        self.sock.sendall(HEADER.pack(kind, 0, 0, len(text), 0, number.to_bytes(16, "little"), 0, 0, 0xFFFFFFFF, 0, 0, 0) + text)

    def _bytes(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise Refused("the stream has ended")
            data += more
        return data

    def _expect(self, kind, number=0):
        while True:
            got, _, _, text, payload, request = HEADER.unpack(self._bytes(HEADER.size))[:6]
            body = self._bytes(text + payload)[:text]
            if got == ERROR and int.from_bytes(request, "little") in (0, number):
                said = json.loads(body)
                raise Refused(f"{said['name']}: {said['detail']}")
            if got == kind and int.from_bytes(request, "little") == number:
                return json.loads(body)

    def ask(self, **question):
        """The answer. Raises Refused."""
        self.number += 1
        self._send(GEARS_DATA, question, self.number)
        return self._expect(GEARS_DATA, self.number)
