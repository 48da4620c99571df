"""All devices come back at once: the node is killed while 2,000 connections of 250 devices are held."""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("integration", "support")]
import support
from cluster import Cluster, wait_until

DEVICES = 250
EACH = 8  # connections, as many as one device may have
STORMS = 3


class ReconnectStorm(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.addCleanup(self.cluster.__exit__)
        config = self.cluster.configs / "gearbox.toml"
        config.write_text(config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()

    def sessions(self):
        return (self.cluster.status().get("node") or {}).get("sessions", 0)

    def node(self):
        try:
            return self.cluster.record("node")["pid"]
        except FileNotFoundError:  # between two processes
            return None

    def test_2000_connections_that_are_cut_at_once_come_back_each_time(self):
        central = self.cluster.central()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            keys = list(pool.map(lambda i: self.cluster.enrol(device=f"d{i}", central=central), range(DEVICES)))
        url, key = central
        load = subprocess.Popen(
            [self.cluster.build / "bin/load_device", "--central", url, "--server-key", key, "--user", "anna", "--open", str(EACH),
             "--fresh", "0", "--open-rate", "100", "--seconds", "600", *map(str, keys)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(load.stdout.close)
        self.addCleanup(load.kill)
        want = DEVICES * EACH
        wait_until("all connections", lambda: self.sessions() >= want, 120)
        central_pid = self.cluster.record("central")["pid"]
        for storm in range(STORMS):
            old = self.node()
            os.kill(old, signal.SIGKILL)
            began = time.monotonic()
            wait_until("the next node", lambda: self.node() not in (None, old), 30)
            wait_until("all connections again", lambda: self.sessions() >= want, 120)
            print(f"storm {storm + 1}: {want} connections back {time.monotonic() - began:.1f} s after the kill", flush=True)
            answered = lambda: self.cluster.status()["node"]["counters"]["answered"]
            wait_until("answers again", lambda: answered() >= 200, 60)
        self.assertEqual(self.cluster.record("central")["pid"], central_pid)
        load.send_signal(signal.SIGTERM)
        told = json.loads(load.communicate(timeout=60)[0].splitlines()[-1])
        self.assertEqual(told["wrong"], 0)
        self.assertGreater(told["requests"] - told["failed"], 200 * STORMS)
        print(f"requests {told['requests']}, failed while no node was there {told['failed']}", flush=True)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])


if __name__ == "__main__":
    unittest.main()
