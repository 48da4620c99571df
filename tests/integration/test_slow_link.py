"""50 devices, 8 at a time, over a link of 50 Mbit/s, and a central that is reached at 1 Mbit/s: no failure.

Two network namespaces with one shaped link for each; needs root. Where that is not allowed, it says NOT RUN.
"""
import os
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import support
from cluster import Cluster, jpeg

DEVICES = 50
AT_ONCE = 8
PICTURES = 10
PICTURE_BYTES = 130_000
LINKS = {"node": ("10.77.1", "50mbit"), "central": ("10.77.2", "1mbit")}


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class SlowLink(unittest.TestCase):
    def setUp(self):
        self.server = f"gearbox-{os.getpid()}-server"
        self.device = f"gearbox-{os.getpid()}-device"
        self.addCleanup(self.remove_namespaces)
        try:
            self.make_namespaces()
        except (OSError, subprocess.CalledProcessError) as failed:
            reason = f"network namespaces: {getattr(failed, 'stderr', None) or failed}".strip()
            print(f"NOT RUN: {reason}", flush=True)
            self.skipTest(reason)

    def make_namespaces(self):
        for name in (self.server, self.device):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for link, (network, rate) in LINKS.items():
            ip("-n", self.server, "link", "add", link, "type", "veth", "peer", "name", link, "netns", self.device)
            for host, name in ((1, self.server), (2, self.device)):
                ip("-n", name, "address", "add", f"{network}.{host}/24", "dev", link)
                ip("-n", name, "link", "set", link, "up")
                subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", link, "root", "tbf", "rate", rate, "burst", "32kb", "latency",
                                "200ms"], check=True, capture_output=True, text=True)

    def remove_namespaces(self):
        for name in (self.server, self.device):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def test_50_devices_8_at_a_time(self):
        with Cluster(workers=2) as cluster:
            cluster.at_server = ["ip", "netns", "exec", self.server]
            cluster.at_device = ["ip", "netns", "exec", self.device]
            file = cluster.configs / "gearbox.toml"
            text = file.read_text()
            for role, (network, _) in LINKS.items():
                text = text.replace(f'[{role}]\nlisten = "tcp://127.0.0.1:0"', f'[{role}]\nlisten = "tcp://{network}.1:0"')
            self.assertNotIn("127.0.0.1", text)
            file.write_text(text)
            cluster.start()
            cluster.wait_ready()
            cluster.add_user()
            central = cluster.central()

            def one_device(number):
                name = f"device-{number}"
                keys = cluster.enrol(device=name, central=central)
                folder = cluster.scratch / name
                folder.mkdir()
                for picture in range(PICTURES):
                    (folder / f"{picture}.jpg").write_bytes(jpeg(PICTURE_BYTES))
                return name, cluster.send(sorted(folder.iterdir()), keys=keys, central=central, seconds=200)

            began = time.monotonic()
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for name, (code, answers, err) in pool.map(one_device, range(DEVICES)):
                    self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True] * PICTURES), f"{name}: {answers} {err}")
            took = time.monotonic() - began
            sent = DEVICES * PICTURES * PICTURE_BYTES
            print(f"{sent / 1e6:.0f} MB in {took:.1f} s: {sent * 8 / took / 1e6:.0f} Mbit/s of 50", flush=True)
            self.assertGreater(took, sent * 8 / 50e6 * 0.9, "faster than the link: it was not used")
            self.assertEqual(cluster.stop(), 0)
            self.assertEqual(cluster.leftovers(), [])


if __name__ == "__main__":
    unittest.main()
