"""Commands for devices, end to end: given with `broker device send`, carried out once at the device's next contact, answered;
across kill -9 of the device and of central."""
import json
import os
import signal
import subprocess
import time
import unittest

import support
from cluster import Cluster, jpeg, wait_until


class DeviceCommands(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        file = self.cluster.configs / "gearbox.toml"
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{support.free_port()}", 1))
        self.cluster.start()
        self.cluster.wait_ready()
        self.cluster.add_user()
        self.central = self.cluster.central()
        self.keys = self.cluster.enrol(central=self.central)
        self.picture = self.cluster.scratch / "picture.jpg"
        self.picture.write_bytes(jpeg(20_000))

    def give(self, *words, ok=True):
        done = self.cluster.run("device", "send", "anna/device-1", *words, "--json", ok=ok)
        return json.loads(done.stdout)["number"] if ok else done

    def answers(self):
        return json.loads(self.cluster.run("device", "answer", "device-1", "--json").stdout)

    def send(self):
        code, answers, err = self.cluster.send([self.picture], keys=self.keys, central=self.central)
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True]), err)

    def start_run(self):
        """pi_client run that looks in at central twice a second; its pid stays the same across a restart of its own."""
        words = self.cluster.client_words("run", "anna", self.keys, self.central)
        self.spool = self.cluster.scratch / "spool"
        self.remarks = open(self.cluster.scratch / "run.log", "ab")
        self.addCleanup(self.remarks.close)
        running = subprocess.Popen([*words, "--spool", self.spool, "--contact-every-ms", "500"], stdin=subprocess.DEVNULL,
                                   stdout=self.remarks, stderr=self.remarks)
        self.addCleanup(lambda: (running.kill(), running.wait()))
        return running

    def ends_clean(self):
        self.assertEqual(self.cluster.stop(), 0)
        self.assertEqual(self.cluster.leftovers(), [])

    def test_delivered_at_the_next_contact_once_with_an_answer(self):
        first, second = self.give("status"), self.give("set-rate", "20000")
        self.assertLess(first, second)
        self.give("feed", "the", "cow")
        self.assertEqual([each["state"] for each in self.answers()], ["waiting"] * 3)
        self.send()
        told = self.answers()
        self.assertEqual([each["state"] for each in told], ["done", "done", "failed"])
        self.assertIn("pi_client", told[0]["answer"])
        self.assertIn("unknown command 'feed'", told[2]["answer"])
        self.send()
        self.assertEqual(self.answers(), told)
        device, = json.loads(self.cluster.run("device", "list", "--json").stdout)

        def noted():
            device, = json.loads(self.cluster.run("device", "list", "--json").stdout)
            return device["agent"].startswith("pi_client") and device
        device = wait_until("the contact is noted", noted, 20)
        self.assertEqual((device["user"], device["name"], device["waiting"], len(device["commands"])), ("anna", "device-1", 0, 3))
        self.assertTrue(device["address"].startswith("127.0.0.1"), device)
        self.assertGreater(device["last_contact_unix_ms"], (time.time() - 120) * 1000)
        self.assertEqual(self.give("two words", ok=False).returncode, 2)
        self.assertEqual(self.cluster.run("device", "send", "nobody", "status", ok=False).returncode, 1)
        self.ends_clean()

    def test_a_client_with_nothing_to_send_looks_in_and_restarts_once(self):
        running = self.start_run()
        number = self.give("status")
        told = wait_until("an answer", lambda: self.answers()[0]["state"] == "done" and self.answers()[0], 20)
        self.assertEqual(told["number"], number)
        self.assertIn("spool 0 items", told["answer"])
        self.give("restart")
        wait_until("restarted", lambda: self.answers()[1]["state"] == "done", 20)
        self.give("status")
        after = wait_until("an answer of the next life", lambda: self.answers()[2]["state"] == "done" and self.answers()[2], 20)
        self.assertIn("spool 0 items", after["answer"])
        self.assertIsNone(running.poll())
        said = (self.cluster.scratch / "run.log").read_text()
        self.assertEqual(said.count("command restart: restarts"), 1, said)
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(20), 0)
        self.ends_clean()

    def test_kills_of_both_sides(self):
        """Many commands, and a kill of the device or of central every now and then: each has one answer in the end, and the
        last rate is the one that holds."""
        running = self.start_run()
        numbers = []
        for round_ in range(6):
            numbers += [self.give("set-rate", str(1000 + round_ * 10 + each)) for each in range(3)]
            time.sleep(0.3 * (round_ % 3))  # not to wait for something: to kill at different moments
            if round_ % 2:
                running.kill()
                running.wait()
                running = self.start_run()
            else:
                central = self.cluster.record("central")["pid"]
                os.kill(central, signal.SIGKILL)
                wait_until("central again", lambda: (self.cluster.records().get("central") or {"pid": central})["pid"] != central, 30)
        wait_until("all answers", lambda: all(each["state"] == "done" for each in self.answers()), 60)
        told = self.answers()
        self.assertEqual([each["number"] for each in told], numbers)
        self.assertEqual([each["answer"] for each in told], [f"rate {each['words'][1]}" for each in told])
        self.assertIn("1052", (self.keys / "commands").read_text().splitlines()[0])
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(20), 0)
        self.cluster.wait_ready()
        self.ends_clean()


if __name__ == "__main__":
    unittest.main()
