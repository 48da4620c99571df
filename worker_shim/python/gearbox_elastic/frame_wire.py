"""FrameWire: the messages of wire.py inside the broker's frames (docs/protocol.md), which nodes carry from host to host.

Only bytes travel so: no descriptors. What the nodes themselves have to say comes in frames of other types: that the other end is there,
that it cannot be reached, and why.
"""
import json
import struct

from .wire import Wire, WireClosed

HEADER = struct.Struct("<BBBxII16sIIIIIQ8x")
HELLO, ERROR, PING, PONG, RANKS_OPEN, RANKS_DATA = 1, 3, 4, 5, 46, 47
MOST_JSON = 64 << 10
MOST_PAYLOAD = 1 << 20
NO_DEADLINE = 0xFFFFFFFF


def framed(kind, text=b"", payload=b""):
    return HEADER.pack(kind, 0, 0, len(text), len(payload), bytes(16), 0, 0, NO_DEADLINE, 0, 0, 0) + text + payload


def read_header(data):
    """(type, bytes of JSON, bytes of payload). Errors: WireClosed."""
    kind, _, _, text, payload = HEADER.unpack_from(data)[:5]
    if text > MOST_JSON or payload > MOST_PAYLOAD:
        raise WireClosed(f"a frame of {text} + {payload} bytes")
    return kind, text, payload


class FrameWire(Wire):
    """Threads: as a Wire."""

    def __init__(self, sock):
        super().__init__(sock)
        self.accepted = False  # the other end has said that it is there
        self._raw = bytearray()

    def send_frame(self, kind, value=None):
        """Errors: WireClosed."""
        super().send_packed(framed(kind, json.dumps(value).encode() if value is not None else b""))

    def send_packed(self, data, descriptors=()):
        assert not descriptors, "descriptors do not leave their host"
        parts = [framed(RANKS_DATA, payload=bytes(data[at:at + MOST_PAYLOAD])) for at in range(0, len(data), MOST_PAYLOAD)]
        super().send_packed(b"".join(parts))

    def _read(self):
        try:
            data = self.sock.recv(1 << 18)
        except OSError as error:
            raise WireClosed(str(error)) from None
        if not data:
            raise WireClosed("it ended")
        self._raw += data
        while len(self._raw) >= HEADER.size:
            kind, text, payload = read_header(self._raw)
            end = HEADER.size + text + payload
            if len(self._raw) < end:
                break
            body = bytes(self._raw[HEADER.size:end])
            del self._raw[:end]
            self._take(kind, body[:text], body[text:])

    def _take(self, kind, text, payload):
        if kind == RANKS_DATA:
            self._buffer += payload
        elif kind == RANKS_OPEN:
            self.accepted = True
        elif kind == PING:
            self.send_frame(PONG)
        elif kind == ERROR:
            try:
                said = json.loads(text)
                raise WireClosed(f"{said['name']}: {said['detail']}")
            except (ValueError, KeyError, TypeError):
                raise WireClosed("an error that does not read") from None
