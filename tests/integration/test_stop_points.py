"""Each process killed at each of its stop points: the point is reached, what died comes back, and the request is answered."""
import json
import os
import re
import signal
import unittest

import support
from cluster import Cluster, jpeg, processes_of, wait_until

HEADER = (support.ROOT / "core/include/gearbox/base/stop_point.hpp").read_text()
POINTS = re.findall(r'^    StopPoint\{"([a-z.]+)", "([a-z]+)"\}', HEADER, re.M)
# A worker's first call is the probe that makes it ready; a request's is the second.
COUNT = {"worker.call.taken": 2, "worker.call.done": 2}


def stopped(pids):
    """The first of `pids` that stands still."""
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "T":
                    return pid
        except OSError:
            continue
    return None


class StopPoints(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.command = False
        self.file = self.cluster.scratch / "picture.jpg"
        self.file.write_bytes(jpeg(200_000))

    def reached(self, point, pids):
        return wait_until(f"{point} reached", lambda: stopped(pids()), 30, 0.02)

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # whoever watches it was quicker

    def prepare(self, environment=None, point=""):
        self.cluster.start(environment)
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.command = ".command." in point
        if self.command:  # else nobody comes by there
            self.cluster.run("device", "send", "device-1", "set-rate", "20000")

    def sender(self, environment=None):
        return self.cluster.start_send([self.file], keys=self.keys, central=self.central, environment=environment)

    def answered(self, sender, who):
        out, err = sender.communicate(timeout=90)
        self.assertEqual((sender.returncode, out.count('"ok":true')), (0, 1), f"{who}: {out}{err}\n{self.cluster.log()}")

    def ends_clean(self):
        self.answered(self.sender(), "the request afterwards")
        if self.command:
            said = json.loads(self.cluster.run("device", "answer", "device-1", "--json").stdout)
            self.assertEqual([(each["state"], each["answer"].split(",")[0]) for each in said], [("done", "rate 20000")])
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def pids_of(self, role):
        return lambda: [record["pid"] for name, record in self.cluster.records().items() if name.split("-")[0] == role]

    def fixed_central(self):
        """A central that comes back comes back at its address."""
        file = self.cluster.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))

    def server_point(self, point, role):
        """In central, node or a worker: the process that stands still is killed; the one after it has no stop point."""
        self.fixed_central()
        at = {"GEARBOX_STOP_AT": f"{point}:{COUNT.get(point, 1)}"}
        self.prepare(at, point)
        sender = self.sender()
        pid = self.reached(point, self.pids_of(role))
        self.cluster.replace_supervisor()
        wait_until("adoption", lambda: f"adopted {role}" in self.cluster.log(), 60)
        self.kill(pid)
        self.answered(sender, "the request that was under way")
        self.ends_clean()

    def client_point(self, point):
        self.prepare(point=point)
        sender = self.sender({"GEARBOX_STOP_AT": point})
        self.reached(point, lambda: [sender.pid])
        sender.kill()
        sender.communicate()
        self.ends_clean()

    def start_point(self, point, role):
        """On the way up, before anybody is ready."""
        self.cluster.start({"GEARBOX_STOP_AT": point})
        if role == "supervisor":
            self.reached(point, lambda: [self.cluster.supervisor.pid])
            self.cluster.replace_supervisor()
        else:
            pid = self.reached(point, lambda: list(processes_of(str(self.cluster.state))))
            self.cluster.replace_supervisor()
            self.kill(pid)
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.ends_clean()


def method(point, role):
    def test(self):
        if role == "client":
            self.client_point(point)
        elif role == "supervisor" or point == "worker.loaded":
            self.start_point(point, role)
        else:
            self.server_point(point, role)
    test.__doc__ = f"kill -9 of the {role} at {point}"
    return test


for each, its_role in POINTS:
    setattr(StopPoints, "test_" + each.replace(".", "_"), method(each, its_role))


class List(unittest.TestCase):
    def test_every_line_of_the_header_was_understood(self):
        self.assertEqual(len(POINTS), HEADER.count('StopPoint{"'))
        self.assertEqual({role for _, role in POINTS}, {"central", "node", "worker", "supervisor", "client"})


if __name__ == "__main__":
    unittest.main()
