"""A standby central: kill -9 of the active one under a load of logins. The standby takes over at the same address with the same
keys and accounts, all devices log in again, the node reports to it. One that only stands still is not replaced."""
import os
import signal
import subprocess
import threading
import time
import unittest

import support
from cluster import Cluster, jpeg, wait_until

DEVICES = 4


class Standby(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        file = self.cluster.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.cluster.up_words = ["--standby"]
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = [self.cluster.enrol(device=f"device-{number}", central=self.central) for number in range(DEVICES)]
        self.picture = self.cluster.scratch / "picture.jpg"
        self.picture.write_bytes(jpeg(20_000))
        self.stands_by()

    def stands_by(self):
        return wait_until("a standby", lambda: self.cluster.status()["standby"], 30)

    def log_in_for_ever(self, keys, over, logins, failures):
        """Each round is a process of its own: it logs in at central, is placed, sends, gets its answer."""
        while not over.is_set():
            code, _, err = self.cluster.send([self.picture], keys=keys, central=self.central, seconds=60,
                                             more=("--first-contact-ms", "30000"))
            logins.append(time.monotonic()) if code == 0 else failures.append(err)

    def taken_over(self, old):
        def other():
            central = self.cluster.status()["central"]
            return central and central["pid"] != old and any(node["state"] == "alive" for node in central["nodes"]) and central
        return wait_until("another central with the node", other, 20, 0.05)

    def ends_clean(self):
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_kill_of_the_active_one_under_logins(self):
        over, failures = threading.Event(), []
        logins = [[] for _ in self.keys]
        threads = [threading.Thread(target=self.log_in_for_ever, args=(keys, over, mine, failures))
                   for keys, mine in zip(self.keys, logins)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):  # the second time the one that was started again takes over from the first standby
                before = self.stands_by()["pid"]
                old = self.cluster.status()["central"]["pid"]
                wait_until("logins", lambda: all(mine for mine in logins), 30)
                killed = time.monotonic()
                os.kill(old, signal.SIGKILL)
                central = self.taken_over(old)
                took = time.monotonic() - killed
                self.assertEqual(central["pid"], before, "not the standby took over")
                self.assertEqual((central["listen"], central["channel_key"]), self.central)
                wait_until("logins of all devices at the new one", lambda: all(mine and mine[-1] > killed + took for mine in logins), 30)
                print(f"taken over, with the node, after {took:.2f} s; all {DEVICES} devices in after {time.monotonic() - killed:.2f} s",
                      flush=True)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.stands_by()
        self.ends_clean()

    def test_one_that_stands_still_is_not_replaced(self):
        pid = self.cluster.status()["central"]["pid"]
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        silent = wait_until("the standby says so", lambda: not self.stands_by()["active_answers"] and self.stands_by(), 30)
        self.assertEqual(silent["active_pid"], pid)
        os.kill(pid, signal.SIGCONT)
        wait_until("it is heard again", lambda: self.stands_by()["active_answers"], 30)
        self.assertEqual(self.cluster.status()["central"]["pid"], pid)
        self.ends_clean()

    def test_a_second_one_that_is_no_standby_refuses(self):
        words = [self.cluster.broker, "central", "--config", self.cluster.configs, "--state", self.cluster.state]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--standby", done.stdout + done.stderr)
        self.ends_clean()


if __name__ == "__main__":
    unittest.main()
