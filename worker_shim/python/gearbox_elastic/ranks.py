"""RankProcess: a rank as the driver sees it: a child process, its socket, the shared memory of its cache."""
import os
import signal
import socket
import struct
import subprocess
import sys

from .wire import Wire

SEND_LIMIT_S = 5
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def start_process(engine, python="", more=()):
    """(process, our end of its socket) of a rank that loads its libraries and waits. Errors: OSError."""
    ours, theirs = socket.socketpair()
    # The paths of this process, and nothing else of the user's own Python: as worker_shim does it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.update(PYTHONPATH=os.pathsep.join(filter(None, [HERE, *sys.path])), PYTHONNOUSERSITE="1",
                       PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    try:
        process = subprocess.Popen([python or sys.executable, "-m", "gearbox_elastic.rank", str(theirs.fileno()), engine, *more],
                                   pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    # One that takes nothing any more is as good as dead; whoever sends must not hang on it.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_LIMIT_S, 0))
    return process, Wire(ours)


class RankProcess:
    """Make it on the thread that lives as long as the group: the kernel ends a rank when the thread that made it is gone.

    Until start() it is a spare: it has loaded its libraries, which takes longer than all else, and waits."""

    host = None      # this one
    accepted = True

    def __init__(self, engine, python=""):
        self.number = self.arena = None
        self.process, self.wire = start_process(engine, python)
        self.started = False  # its engine is made

    @property
    def pid(self):
        return self.process.pid

    def place(self):
        """Where it is, for people."""
        return {"pid": self.pid, "host": "", "host_pid": self.pid}

    @property
    def lives(self):
        return self.process.poll() is None

    def start(self, settings, arena_size):
        """From now on it is rank settings["rank"]. Errors: WireClosed, OSError."""
        self.number = settings["rank"]
        self.arena = os.memfd_create(f"gearbox-cache-{self.number}", os.MFD_CLOEXEC)
        os.ftruncate(self.arena, arena_size)
        self.wire.send({"op": "start", "settings": settings}, descriptors=[self.arena])

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)

    def ended(self):
        """Waits for its end: its code."""
        return self.process.wait()

    def close(self):
        """Ends it and waits for its end."""
        self.kill()
        self.process.wait()
        self.wire.close()
        if self.arena is not None:
            os.close(self.arena)
