"""Many devices at once, and many connections that only wait."""
import socket
import unittest

import support
from cluster import Cluster, jpeg, wait_until

DEVICES = 50
PICTURES = 10
HELD = 1000


class ManyDevices(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.addCleanup(self.cluster.__exit__)
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()

    def jpegs(self, device, count):
        """Files that travel as they are, as a camera's do."""
        folder = self.cluster.scratch / f"pictures-{device}"
        folder.mkdir()
        out = []
        for number in range(count):
            file = folder / f"{number}.jpg"
            file.write_bytes(jpeg(20000 + 977 * number))
            out.append(file)
        return out

    def test_50_devices_send_10_pictures_each_without_a_failure(self):
        devices = []
        for number in range(DEVICES):
            name = f"device-{number}"
            devices.append((self.cluster.enrol(device=name, central=self.central), self.jpegs(name, PICTURES)))
        senders = [self.cluster.start_send(files, keys=keys, central=self.central) for keys, files in devices]
        answered = 0
        for sender in senders:
            out, err = sender.communicate(timeout=240)
            self.assertEqual(sender.returncode, 0, f"{out[-2000:]}\n{err[-2000:]}")
            self.assertEqual(out.count('"ok":true'), PICTURES)
            answered += out.count('"ok":true')
        self.assertEqual(answered, DEVICES * PICTURES)
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_1000_idle_connections_are_held_while_requests_go_on(self):
        keys = self.cluster.enrol(central=self.central)
        listen = self.cluster.status()["node"]["listen"]
        host, port = listen.removeprefix("tcp://").rsplit(":", 1)
        node = self.cluster.record("node")["pid"]

        def resident_kb():
            with open(f"/proc/{node}/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

        before = resident_kb()
        held = [socket.create_connection((host, int(port)), timeout=10) for _ in range(HELD)]
        try:
            code, answers, err = self.cluster.send(self.jpegs("device-1", 5), keys=keys, central=self.central)
            self.assertEqual(code, 0, err)
            self.assertEqual([answer["ok"] for answer in answers], [True] * 5)
            print(f"memory for each waiting connection before its handshake: {(resident_kb() - before) / HELD:.2f} KB", flush=True)
            closed = sum(1 for each in held if closed_by_peer(each))
            self.assertEqual(closed, 0)
        finally:
            for each in held:
                each.close()
        wait_until("the node's answer after they left", lambda: self.cluster.status()["node"], 60)


def closed_by_peer(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    unittest.main()
