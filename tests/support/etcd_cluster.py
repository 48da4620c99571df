#!/usr/bin/python3
"""An etcd cluster of a test's own: members on free ports of the loopback, their data in a scratch folder.

    etcd_cluster.py FOLDER [MEMBERS]

As a program it prints one line, the clients' URLs with commas between, when all members serve, and then does what it reads, a line
each: "kill N" (-9), "start N", "stop N" and "cont N" (signals), "leader" (prints its number); each is answered by a line. It ends all
of them, and itself, when its input ends. Exit code 3: there is no etcd on this machine, and its only line says so.
"""
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ETCD = shutil.which("etcd")


def free_ports(count):
    """Ports that nobody uses now: each member must know those of the others before it listens."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class EtcdCluster:
    def __init__(self, folder, members=3):
        self.folder = Path(folder)
        self.processes = [None] * members
        self.clients, self.peers = [], []

    def __enter__(self):
        for last in (False, False, True):
            try:
                self.start_all()
                return self
            except RuntimeError:  # somebody else took one of the ports meanwhile
                self.__exit__()
                if last:
                    raise
                for number in range(len(self.processes)):
                    shutil.rmtree(self.folder / f"m{number}", ignore_errors=True)
            except BaseException:
                self.__exit__()
                raise

    def start_all(self):
        members = len(self.processes)
        ports = free_ports(2 * members)
        self.clients = [f"http://127.0.0.1:{port}" for port in ports[:members]]
        self.peers = [f"http://127.0.0.1:{port}" for port in ports[members:]]
        for number in range(members):
            self.start(number)
        for number in range(members):
            self.wait_for(number)

    def __exit__(self, *_):
        for number, process in enumerate(self.processes):
            if process is not None:
                self.kill(number)

    @property
    def endpoints(self):
        return ",".join(self.clients)

    def start(self, number):
        everybody = ",".join(f"m{n}={url}" for n, url in enumerate(self.peers))
        # Debian's package would have its own member's environment used.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        with open(self.folder / f"m{number}.log", "ab") as log:
            self.processes[number] = subprocess.Popen(
                [ETCD, "--name", f"m{number}", "--data-dir", str(self.folder / f"m{number}"), "--listen-client-urls", self.clients[number],
                 "--advertise-client-urls", self.clients[number], "--listen-peer-urls", self.peers[number],
                 "--initial-advertise-peer-urls", self.peers[number], "--initial-cluster", everybody, "--initial-cluster-state", "new",
                 "--initial-cluster-token", self.folder.name],
                stdout=log, stderr=log, env=clean, preexec_fn=die_with_parent)

    def ask(self, number, path, question, timeout=5):
        request = urllib.request.Request(self.clients[number] + path, json.dumps(question).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read())

    def wait_for(self, number, within=30):
        """Until it serves what needs a majority."""
        deadline = time.monotonic() + within
        while True:
            try:
                return self.ask(number, "/v3/kv/range", {"key": "AA=="})
            except (OSError, urllib.error.URLError) as failed:
                if time.monotonic() > deadline or self.processes[number].poll() is not None:
                    raise RuntimeError(f"member {number} does not serve: {failed}; see {self.folder}/m{number}.log") from failed
            time.sleep(0.05)

    def leader(self):
        """The number of the member that leads."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for number, process in enumerate(self.processes):
                if process is None:
                    continue
                try:
                    status = self.ask(number, "/v3/maintenance/status", {}, timeout=1)
                except OSError:
                    continue
                if status.get("leader") == status["header"]["member_id"]:
                    return number
            time.sleep(0.05)
        raise RuntimeError("no member leads")

    def kill(self, number):
        process, self.processes[number] = self.processes[number], None
        process.kill()
        process.wait()

    def signal(self, number, what):
        self.processes[number].send_signal(what)


def main():
    if ETCD is None:
        print("no etcd is installed (Debian: etcd-server)", flush=True)
        return 3
    # A test that dies takes this with it: its input ends.
    with EtcdCluster(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3) as cluster:
        print(cluster.endpoints, flush=True)
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "leader":
                print(cluster.leader(), flush=True)
                continue
            number = int(rest[0])
            if word == "kill":
                cluster.kill(number)
            elif word == "start":
                cluster.start(number)
                cluster.wait_for(number)
            else:
                cluster.signal(number, {"stop": signal.SIGSTOP, "cont": signal.SIGCONT}[word])
            print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
