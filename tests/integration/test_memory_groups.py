"""A worker with a memory limit has a cgroup of its own, where the host allows it: the kernel ends the one that takes too much at once."""
import os
import signal
import subprocess
import unittest
from pathlib import Path

import support  # noqa: F401
from cluster import Cluster, jpeg, wait_until

LIMIT_MB = 300


def mounted():
    """Where cgroup v2 is, with the memory controller; None: nowhere."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root = Path(left.split()[4])
            return root if "memory" in (root / "cgroup.controllers").read_text().split() else None
    return None


def own_group():
    """A new cgroup for an installation; raises OSError where that is not allowed."""
    root = mounted()
    if root is None:
        raise OSError("cgroup v2 with a memory controller is not mounted")
    above = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")][0]
    # The group above all may have processes and limited groups at once; others may not.
    for base in (root / above.strip("/"), root):
        if "memory" in (base / "cgroup.subtree_control").read_text().split():
            group = base / f"gearbox-test-{os.getpid()}"
            group.mkdir()
            if "memory" in (group / "cgroup.controllers").read_text().split():
                return group
            group.rmdir()
    raise OSError("no cgroup around this process passes the memory controller on")


class MemoryGroups(unittest.TestCase):
    def setUp(self):
        try:
            self.group = own_group()
        except OSError as error:
            print(f"NOT RUN: no cgroup may be made here: {error}", flush=True)
            self.skipTest("no cgroup may be made here")
        self.addCleanup(self.remove)
        self.site = Cluster(workers=2)
        self.addCleanup(self.site.__exit__)
        file = self.site.configs / "gearbox.toml"
        file.write_text(file.read_text() + f"memory_limit_mb = {LIMIT_MB}\n")
        self.up()
        self.site.wait_ready()
        self.site.add_user()
        self.keys = self.site.enrol()

    def remove(self):
        for inner in self.group.iterdir():
            if inner.is_dir():
                inner.rmdir()
        self.group.rmdir()

    def up(self):
        """broker up, alone in the group, as a service is."""
        procs = self.group / "cgroup.procs"
        with open(self.site.output, "ab") as out:
            self.site.supervisor = subprocess.Popen(
                ["sh", "-c", f'echo $$ > {procs}; exec "$@"', "sh", self.site.broker, "up", "--config", self.site.configs, "--state",
                 self.site.state], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def groups(self):
        return sorted(each for each in self.group.iterdir() if "-worker-" in each.name)

    def workers(self):
        return self.site.status()["node"]["workers"]

    def send(self, order):
        picture = self.site.scratch / "picture.jpg"
        picture.write_bytes(jpeg(20_000, order))
        _, answers, _ = self.site.send([picture], keys=self.keys)
        return answers[0]

    def test_a_worker_that_takes_too_much_at_once_is_ended_by_the_kernel_and_that_is_said(self):
        self.assertIn("memory limits: each worker with one has a cgroup of its own", self.site.log())
        pids = {each["pid"] for each in self.workers()}
        self.assertEqual({int((each / "cgroup.procs").read_text()) for each in self.groups()}, pids)
        self.assertEqual({int((each / "memory.max").read_text()) for each in self.groups()}, {LIMIT_MB * 1310720})
        answer = self.send("leak 3000")
        self.assertEqual(answer["error"]["name"], "quarantined", answer)
        self.assertIn(f"took more than its memory limit of {LIMIT_MB} MB", self.site.log())
        shown = self.site.run("quarantine", "show", answer["request"][:8]).stdout
        self.assertIn(f"took more than its memory limit of {LIMIT_MB} MB", shown)
        wait_until("others", lambda: {each["state"] for each in self.workers()} == {"ready"}, 30)
        self.assertEqual(self.site.status()["node"]["workers_ended"]["over_memory_limit"], 2)
        self.assertTrue(self.send("")["ok"])
        wait_until("the groups of the dead are gone", lambda: len(self.groups()) == 2, 10)
        self.assertEqual(self.site.stop(), 0)
        self.assertEqual([each for each in self.group.iterdir() if each.is_dir()], [])

    def test_what_a_killed_supervisor_leaves_is_cleared_by_the_next(self):
        self.site.supervisor.kill()
        self.site.supervisor.wait()
        gone = self.workers()[0]["pid"]
        os.kill(gone, signal.SIGKILL)
        # The kernel lets nobody into a group that has limited ones below: the next one comes where the last one was.
        broker = next(each for each in self.group.iterdir() if each.name.endswith("-broker"))
        outer, self.group = self.group, broker
        try:
            self.up()
        finally:
            self.group = outer
        wait_until("its group is cleared", lambda: all(str(gone) not in each.name for each in self.groups()), 20)
        wait_until("ready", lambda: [each["state"] for each in self.workers()] == ["ready"] * 2, 60)
        self.assertEqual(self.site.stop(), 0)
        self.assertEqual(self.groups(), [])
        broker.rmdir()  # made by the one that was killed: nobody else's to take away


if __name__ == "__main__":
    unittest.main()
