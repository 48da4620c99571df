"""Where the tests here find the cluster module, the pictures, and how they say that something cannot be run."""
import socket
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import cluster  # noqa: E402,F401

SHARED = ROOT.parent / "shared"
ENVIRONMENT = ROOT / "build/envs/onnx/bin/python"


def needs(path, what):
    """Skips a test whose material is not on this machine, audibly."""
    if not Path(path).exists():
        print(f"NOT RUN: {what} is not here ({path})", flush=True)
        raise unittest.SkipTest(f"{what} is not here")
    return Path(path)


def free_port():
    """A port of the loopback that nobody uses now; for a server that must come back at the same address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def say_and_hang_up(url, text):
    """Sends `text`, ends the sending side, and reads until the server has closed. Raises TimeoutError when it does not."""
    host, port = url.removeprefix("tcp://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass  # closed with our bytes unread: as good an answer
