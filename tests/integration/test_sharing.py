"""Deadlines, shares and cancellation from pi_client to the Python call."""
import json
import signal
import subprocess
import time
import unittest

import support  # noqa: F401
from cluster import Cluster, Gate, jpeg, wait_until

# As the echo model, but it leaves a mark for each run, with the second word of its order; then it waits at the gate, or
# computes for so many seconds.
MARKS = '''
            if words[:1] == [b"mark"]:
                with open(MARK_FILE, "a") as marks:
                    marks.write(words[1].decode() + "\\n")
                if words[2] == b"gate":
                    open(GATE).read()
                else:
                    end = time.thread_time() + float(words[2])
                    while time.thread_time() < end:
                        pass
'''


class Sharing(unittest.TestCase):
    def start(self, record="", users=(("anna", ()),), workers=1, more=""):
        """`more`: further lines of gearbox.toml."""
        self.cluster = Cluster(workers=workers)
        self.addCleanup(self.cluster.__exit__)
        self.main = self.cluster.configs / "gearbox.toml"
        self.main.write_text(self.main.read_text() + more)
        self.marks = self.cluster.scratch / "marks"
        self.marks.touch()
        code = self.cluster.configs / "models/echo/model.py"
        text = code.read_text()
        self.gate = Gate(self.cluster.scratch / "gate")
        self.addCleanup(self.gate.open)
        marks = MARKS.lstrip("\n").replace("MARK_FILE", repr(str(self.marks))).replace("GATE", repr(self.gate.path))
        at = text.index('            if words[:1] == [b"hold"]')
        code.write_text(text[:at] + marks + text[at:])
        file = self.cluster.configs / "models/echo/model.toml"
        file.write_text(record + file.read_text())
        self.cluster.start()
        self.cluster.wait_ready()
        self.keys = {}
        for name, options in users:
            self.cluster.run("users", "add", name, "--password-file", "-", *options, input="correct horse battery\n")
            self.keys[name] = self.cluster.enrol(user=name, device="of-" + name)
        self.numbers = iter(range(100_000))

    def picture(self, order):
        file = self.cluster.scratch / f"{next(self.numbers)}.jpg"
        file.write_bytes(jpeg(2_000, order))
        return file

    def send(self, orders, user="anna", more=()):
        sender = self.cluster.start_send([self.picture(order) for order in orders], user=user, keys=self.keys[user], more=more)
        self.addCleanup(sender.communicate)
        self.addCleanup(sender.kill)
        return sender

    def keep_sending(self, orders, user):
        """As send(), 32 at once; nobody reads the answers, so that a full pipe does not hold the sender up."""
        words = [*self.cluster.client_words("send", user, self.keys[user]), "--task", "echo", "--quiet", "--parallel", "32"]
        sender = subprocess.Popen([*words, *(str(self.picture(order)) for order in orders)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(sender.wait)
        self.addCleanup(sender.kill)

    def marked(self):
        return self.marks.read_text().split()

    def node(self):
        return self.cluster.status()["node"]

    def worker(self):
        return [each for each in self.node()["workers"] if each["model"] == "echo"][0]

    def test_two_tenants_share_a_worker_three_to_one(self):
        self.start(users=(("one", ("--weight", "1")), ("three", ("--weight", "3"))))
        self.keep_sending(["mark one .01"] * 500, "one")
        self.keep_sending(["mark three .01"] * 900, "three")
        wait_until("both busy", lambda: len(set(self.marked()[-20:])) == 2, 30)
        before = len(self.marked()) + 20  # what the queues held when the second one came has gone
        wait_until("400 runs", lambda: len(self.marked()) >= before + 400, 60)
        runs = self.marked()[before:before + 400]
        ratio = runs.count("three") / runs.count("one")
        print(f"runs: {runs.count('three')} to {runs.count('one')}, ratio {ratio:.2f}", flush=True)
        self.assertAlmostEqual(ratio, 3, delta=0.45)

    def test_a_tenants_pool_keeps_its_worker_for_it_and_lends_it_when_it_is_told_to(self):
        worker = '\n[[worker]]\nmodel = "echo"\nenv = "plain"\npool = "vip"\n'
        pool = '\n[[gears.pool]]\nname = "vip"\ntenants = [7]\nlends_percent = 0\n'
        self.start(users=(("anna", ("--tenant", "7")), ("bert", ("--tenant", "8"))), more=worker + pool)
        in_pool = lambda: {each["pool"]: each for each in self.node()["workers"] if each["model"] == "echo"}  # noqa: E731
        wait_until("both workers", lambda: {each["state"] for each in in_pool().values()} == {"ready"}, 30)
        busy = self.send(["mark bert gate"], user="bert")
        wait_until("the busy call", self.gate.is_reached, 30, 0.02)
        bert = self.send(["mark bert 0"] * 5, user="bert", more=("--parallel", "5"))
        waiting = lambda: next(each["queued"] for each in self.node()["models"] if each["name"] == "echo")  # noqa: E731
        wait_until("a queue", lambda: self.node()["counters"]["open"] == 6 and waiting() >= 3, 30, 0.02)
        self.assertEqual(in_pool()["vip"]["running"], 0)
        code, answers, err = self.cluster.send([self.picture("mark anna 0")], user="anna", keys=self.keys["anna"])
        self.assertEqual(code, 0, err)
        self.assertEqual(self.marked(), ["bert", "anna"])
        self.assertRegex(self.cluster.run("explain", answers[0]["request"]).stdout, "pool +vip\n")
        before = in_pool()["vip"]["pid"]
        self.main.write_text(self.main.read_text().replace("lends_percent = 0", "lends_percent = 100"))
        wait_until("all that waited at the node", lambda: waiting() == 0 and self.marked().count("bert") >= 4, 30, 0.02)
        self.assertEqual(in_pool()["vip"]["pid"], before)
        self.gate.open()
        for sender in (busy, bert):
            out, err = sender.communicate(timeout=60)
            self.assertEqual(sender.returncode, 0, out + err)
        self.assertEqual(self.marked().count("bert"), 6)

    def test_a_late_request_ends_in_time_and_is_never_run(self):
        self.start()
        busy = self.send(["mark busy gate"])
        wait_until("the busy call", self.gate.is_reached, 30, 0.02)
        began = time.monotonic()
        late = self.send(["mark late 0"] * 8, more=("--deadline-ms", "800", "--parallel", "8"))
        out, err = late.communicate(timeout=30)
        took = time.monotonic() - began
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([answer["error"]["name"] for answer in answers], ["deadline_exceeded"] * 8, out + err)
        self.assertLess(took, 1.8)
        self.gate.open()
        busy.communicate(timeout=30)
        code, answers, err = self.cluster.send([self.picture("mark after 0")], keys=self.keys["anna"])
        self.assertEqual(code, 0, err)
        self.assertEqual(self.marked(), ["busy", "after"])  # some of the late ones had been in the worker's ring

    def test_ctrl_c_cancels_what_is_no_longer_awaited(self):
        self.start()
        sender = self.send(["mark any gate"] * 7, more=("--parallel", "7"))
        wait_until("the running call", self.gate.is_reached, 30, 0.02)
        wait_until("seven open", lambda: self.node()["counters"]["open"] == 7, 10, 0.02)
        sender.send_signal(signal.SIGINT)
        out, err = sender.communicate(timeout=20)  # while the call still runs
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual({answer["error"]["name"] for answer in answers}, {"cancelled"}, out + err)
        self.assertEqual(self.node()["counters"]["open"], 0)
        self.gate.open()
        self.assertEqual(self.cluster.send([self.picture("mark after 0")], keys=self.keys["anna"])[0], 0)
        self.assertEqual(self.marked(), ["any", "after"])  # one ran, whichever came first

    def test_a_cancelled_call_of_such_a_model_ends_with_its_worker(self):
        self.start(record="cancel_by_restart = true\n")
        before = self.worker()["pid"]
        sender = self.send(["mark long gate"])
        wait_until("the long call", self.gate.is_reached, 30, 0.02)
        other = self.send(["mark other 0"])
        wait_until("the other request", lambda: self.node()["counters"]["open"] == 2, 10, 0.02)
        sender.send_signal(signal.SIGTERM)
        sender.communicate(timeout=20)
        out, err = other.communicate(timeout=30)
        self.assertTrue(json.loads(out)["ok"], out + err)
        self.assertEqual(self.marked(), ["long", "other"])
        after = self.worker()
        self.assertNotEqual(after["pid"], before)
        self.assertEqual(self.node()["workers_ended"]["cancelled"], 1)
        self.assertEqual(self.node()["counters"]["quarantined"], 0)

    def test_the_command_line_that_is_ended_cancels_its_request(self):
        self.start()
        file = self.picture("mark local gate")
        command = [str(self.cluster.broker), "submit", "--task", "echo", str(file), "--state", str(self.cluster.state)]
        submit = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(submit.wait)
        wait_until("its call", self.gate.is_reached, 30, 0.02)
        submit.kill()
        wait_until("nothing open", lambda: self.node()["counters"]["open"] == 0, 20, 0.02)  # while the call still runs

    def test_shares_and_limits_of_an_account_can_be_changed(self):
        self.start()
        self.cluster.run("users", "set", "anna", "--weight", "5", "--max-priority", "9", "--max-requests", "3")
        listed = json.loads(self.cluster.run("users", "list", "--json").stdout)[0]
        self.assertEqual((listed["weight"], listed["max_priority"], listed["max_requests"], listed["max_held_bytes"]), (5, 9, 3, 0))
        self.assertNotEqual(self.cluster.run("users", "set", "anna", ok=False).returncode, 0)
        self.assertNotEqual(self.cluster.run("users", "set", "nobody", "--weight", "2", ok=False).returncode, 0)
        # Over the limit pi_client waits as long as it is told, and all are answered.
        code, answers, err = self.cluster.send([self.picture("mark many .05") for _ in range(12)], keys=self.keys["anna"],
                                               more=("--parallel", "12", "--priority", "200"))
        self.assertEqual(code, 0, err)
        self.assertEqual(len(answers), 12)
        self.assertGreater(self.node()["counters"]["refused"], 0)
        told = json.loads(self.cluster.run("explain", answers[0]["request"], "--json").stdout)
        self.assertEqual(told["priority"], 9)


if __name__ == "__main__":
    unittest.main()
