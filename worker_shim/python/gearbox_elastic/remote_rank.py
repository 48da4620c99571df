"""RemoteRank: a rank on another host as the driver sees it: a stream through the nodes to that host's rank host, which starts it.

Its cache has no descriptor here; the stream's end is the rank's end.
"""
import socket
import struct

from .frame_wire import HELLO, RANKS_OPEN, FrameWire
from .ranks import SEND_LIMIT_S

CONNECT_LIMIT_S = 1  # to a unix socket


class RemoteRank:
    """Errors of the constructor: OSError, WireClosed: nobody is at the socket."""

    arena = None
    pid = 0  # of another host: none of this one's

    def __init__(self, host, driver):
        self.host, self.number, self.host_pid = host, None, 0
        self.started = False
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(CONNECT_LIMIT_S)
            sock.connect(host.socket)
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_LIMIT_S, 0))
            self.wire = FrameWire(sock)
            self.wire.send_frame(HELLO, {"role": "local", "agent": "gearbox_elastic"})
            self.wire.send_frame(RANKS_OPEN, {"node": host.name, "group": host.group, "driver": driver})
        except BaseException:
            sock.close()
            raise

    def place(self):
        """Where it is, for people."""
        return {"pid": self.pid, "host": self.host.name, "host_pid": self.host_pid}

    @property
    def accepted(self):
        """Its rank host has taken the stream."""
        return self.wire.accepted

    def start(self, settings, arena_size):
        """From now on it is rank settings["rank"]. Errors: WireClosed."""
        self.number = settings["rank"]
        self.wire.send({"op": "start", "settings": settings, "arena_size": arena_size})

    def kill(self):
        """Its process sees the end of the stream."""
        try:
            self.wire.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is over already

    def ended(self):
        """No code of an end comes from there."""
        return None

    def close(self):
        self.wire.close()
