"""Wire: messages between the driver and its ranks over a socketpair: a JSON head, bytes, and descriptors.

Both ends are processes of one user and one program; sizes are checked all the same, so that a torn stream ends as an error.
"""
import array
import json
import socket
import struct
import threading

FRAME = struct.Struct("<II")
MOST_HEAD = 64 << 20
MOST_BLOB = 256 << 20
MOST_DESCRIPTORS = 64


class WireClosed(Exception):
    """The other end is gone, or what came is no message."""


def packed(head, blob=b""):
    text = json.dumps(head, separators=(",", ":")).encode()
    return FRAME.pack(len(text), len(blob)) + text + bytes(blob)


class Wire:
    """Threads: send() from any, receive() and feed() from one."""

    def __init__(self, sock):
        self.sock = sock
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._descriptors = []

    def send(self, head, blob=b"", descriptors=()):
        """Blocks while the other end does not read, as long as the socket's own limit. Errors: WireClosed."""
        self.send_packed(packed(dict(head, descriptors=len(descriptors)) if descriptors else head, blob), descriptors)

    def send_packed(self, data, descriptors=()):
        try:
            with self._lock:
                sent = 0
                if descriptors:
                    sent = self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])
                if sent < len(data):
                    self.sock.sendall(memoryview(data)[sent:])
        except OSError as error:
            raise WireClosed(str(error)) from None

    def receive(self):
        """(head, blob, descriptors); waits for it. Errors: WireClosed."""
        while True:
            message = self._message()
            if message is not None:
                return message
            self._read()

    def feed(self):
        """All messages that have come, after one read of what is there. Errors: WireClosed."""
        self._read()
        found = []
        message = self._message()
        while message is not None:
            found.append(message)
            message = self._message()
        return found

    def _read(self):
        try:
            data, ancillary, flags, _ = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(MOST_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise WireClosed(str(error)) from None
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[:len(content) - len(content) % numbers.itemsize])
                self._descriptors += list(numbers)
        if flags & socket.MSG_CTRUNC:
            raise WireClosed("descriptors were lost")
        if not data:
            raise WireClosed("it ended")
        self._buffer += data

    def _message(self):
        if len(self._buffer) < FRAME.size:
            return None
        head_size, blob_size = FRAME.unpack_from(self._buffer)
        if head_size > MOST_HEAD or blob_size > MOST_BLOB:
            raise WireClosed(f"a message of {head_size} + {blob_size} bytes")
        end = FRAME.size + head_size + blob_size
        if len(self._buffer) < end:
            return None
        try:
            head = json.loads(self._buffer[FRAME.size:FRAME.size + head_size])
        except ValueError:
            raise WireClosed("what came is no message") from None
        blob = bytes(self._buffer[FRAME.size + head_size:end])
        del self._buffer[:end]
        count = head.pop("descriptors", 0)
        descriptors, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return head, blob, descriptors

    def close(self):
        self.sock.close()
