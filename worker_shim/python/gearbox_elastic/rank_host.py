"""RankHost: lends processes of this host to groups whose drivers run on other hosts. A model package's engine.toml says so: role = "ranks".

It listens on a unix socket of this user; the node connects there for each stream that another node brings (docs/engines.md). The first
frame says from which node and of which driver it is; then the stream is handed to a process that waits, whose end is the stream's end.
What weights there are and where ranks listen this host says itself, whatever the driver says.
"""
import json
import os
import selectors
import socket
import threading
import time

from .frame_wire import ERROR, HEADER, RANKS_OPEN, framed, read_header
from .log import log
from .ranks import start_process
from .wire import WireClosed

OPEN_LIMIT_S = 5.0
MOST_PROCESSES = 64


class _Process:
    """One rank's process: a spare until it has a stream."""

    def __init__(self, host):
        self.process, self.desk = start_process(host.options.engine, host.options.python, [json.dumps(host.own)])
        self.driver = self.rank = self.arena = None

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.desk.close()
        if self.arena is not None:
            os.close(self.arena)


class RankHost:
    """Threads: one of its own, "gearbox-ranks", which starts the processes: the kernel ends them with it. Errors of the constructor: OSError."""

    def __init__(self, options, own, path):
        """`own`: settings of a rank that are this host's to say."""
        self.options, self.own, self.path = options, own, path
        self.processes = []
        self._opening = {}  # sock → (bytes so far, deadline)
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ, lambda: None)
        self._listener = self._listen(path)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._thread = threading.Thread(target=self._run, name="gearbox-ranks", daemon=True)
        self._thread.start()

    @staticmethod
    def _listen(path):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            try:
                os.unlink(path)  # of a process that was killed
            except FileNotFoundError:
                pass
            mask = os.umask(0o177)
            try:
                sock.bind(path)
            finally:
                os.umask(mask)
            sock.listen(64)
        except OSError:
            sock.close()
            raise
        return sock

    def close(self):
        self._stopping = True
        os.write(self._wake_write, b"x")
        self._thread.join()

    def _run(self):
        try:
            while not self._stopping:
                self._reap()
                self._restock()
                for key, _ in self._selector.select(0.25):
                    key.data()
                self._give_up_late(time.monotonic())
        finally:
            self._listener.close()
            if os.path.exists(self.path):
                os.unlink(self.path)
            for sock in self._opening:
                sock.close()
            for process in self.processes:
                process.close()

    def _restock(self):
        """As many that wait as are wanted at once: a group's ranks come together."""
        spares = sum(1 for process in self.processes if process.driver is None)
        while spares < max(1, self.options.spares) and len(self.processes) < MOST_PROCESSES:
            self._start()
            spares += 1

    def _start(self):
        process = _Process(self)
        self.processes.append(process)
        self._selector.register(process.desk.sock, selectors.EVENT_READ, lambda: self._asked(process))
        return process

    def _reap(self):
        for process in [each for each in self.processes if each.process.poll() is not None]:
            self._end(process)

    def _end(self, process):
        if process in self.processes:
            self.processes.remove(process)
            self._selector.unregister(process.desk.sock)
            process.close()
            if process.driver is not None:
                log("rank_ended", rank=process.rank, pid=process.process.pid, node=process.driver[0], code=process.process.returncode)

    def _accept(self):
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # gone again
        sock.setblocking(False)
        self._opening[sock] = (b"", time.monotonic() + OPEN_LIMIT_S)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._open(sock))

    def _open(self, sock):
        """Frames of the stream's beginning, and not a byte of what follows them: that is for the rank."""
        data, deadline = self._opening[sock]
        try:
            while True:
                wanted = HEADER.size if len(data) < HEADER.size else HEADER.size + sum(read_header(data)[1:])
                if len(data) == wanted:
                    kind, text, _ = read_header(data)
                    if kind == RANKS_OPEN:
                        self._selector.unregister(sock)
                        del self._opening[sock]
                        self._take(sock, data[HEADER.size:HEADER.size + text])
                        return
                    data = b""  # who it is, the node's own sockets are told
                    continue
                more = sock.recv(wanted - len(data))
                if not more:
                    raise WireClosed("it ended")
                data += more
        except BlockingIOError:
            self._opening[sock] = (data, deadline)
        except (OSError, WireClosed):
            self._forget(sock)

    def _forget(self, sock):
        self._selector.unregister(sock)
        del self._opening[sock]
        sock.close()

    def _give_up_late(self, now):
        for sock in [sock for sock, (_, deadline) in self._opening.items() if now > deadline]:
            self._forget(sock)

    def _take(self, sock, text):
        try:
            asked = json.loads(text)
            node, driver = str(asked.get("from", "")), str(asked.get("driver", ""))
        except (ValueError, AttributeError):
            node, driver = "", ""
        try:
            if node not in self.options.drivers:
                self._refuse(sock, 24, "not_allowed", f"node '{node}' is none of this model's drivers")
                return
            spares = [each for each in self.processes if each.driver is None and each.process.poll() is None]
            if not spares and len(self.processes) >= MOST_PROCESSES:
                self._refuse(sock, 16, "overloaded", f"{MOST_PROCESSES} processes run here already")
                return
            process = spares[0] if spares else self._start()
            process.driver = (node, driver)
            sock.setblocking(True)
            sock.sendall(framed(RANKS_OPEN))
            process.desk.send({"op": "serve"}, descriptors=[sock.fileno()])
            log("rank_lent", node=node, pid=process.process.pid)
        except (OSError, WireClosed) as error:
            log("rank_not_lent", node=node, why=f'"{error}"')
        finally:
            sock.close()

    @staticmethod
    def _refuse(sock, code, name, detail):
        log("rank_refused", why=f'"{detail}"')
        sock.send(framed(ERROR, json.dumps({"code": code, "name": name, "detail": detail}).encode()))

    def _asked(self, process):
        """By one of the ranks: its cache's memory to keep, or that of another rank of the same driver."""
        try:
            for head, _, descriptors in process.desk.feed():
                if head["op"] == "mine":
                    process.rank, process.arena = head["rank"], descriptors[0]
                elif head["op"] == "give":
                    found = [each.arena for each in self.processes
                             if each.driver == process.driver and each.rank == head["rank"] and each.process.poll() is None]
                    process.desk.send({"op": "given"}, descriptors=found[-1:])
        except WireClosed:
            self._end(process)
