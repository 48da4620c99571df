"""`broker explain`: a running broker tells why its last requests went as they did."""
import json
import os
import signal
import subprocess
import unittest

import support  # noqa: F401  (finds the modules of tests/support)
import cluster
from swap_storm import write_by_rename

TWO_STEPS = '''
summary = "the echo's echo"

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[step]]
name = "once"
model = "echo"
inputs = {image = "request.image"}

[[step]]
name = "again"
model = "echo"
inputs = {image = "once.image"}

[result]
text = "again.text"
'''


def two_step_configs(folder, workers):
    cluster.echo_configs(folder, workers)
    (folder / "tasks/twice.toml").write_text(TWO_STEPS)
    (folder / "tasks/hurried.toml").write_text(cluster.one_step_task("echo", ["text"], "deadline_ms = 400"))


class Explain(unittest.TestCase):
    def setUp(self):
        self.site = cluster.Cluster(configs=two_step_configs, workers=2)
        self.addCleanup(self.site.__exit__)
        self.site.start()
        self.site.wait_ready()
        cluster.wait_until("both workers", lambda: [
            worker["state"] for worker in self.site.status()["node"]["workers"]] == ["ready", "ready"], 60)
        self.file = self.site.scratch / "hello.bin"

    def submit(self, task, content, ok=True):
        self.file.write_bytes(content)
        done = self.site.run("submit", "--task", task, self.file, "--json", ok=ok)
        return json.loads(done.stdout.splitlines()[0])

    def newest(self):
        def kept():
            listed = self.site.run("results", "list", "--json", "--limit", "1", ok=False)
            rows = json.loads(listed.stdout) if listed.returncode == 0 else []
            return rows[0]["request"] if rows and rows[0]["request"] not in self.seen else None
        request = cluster.wait_until("a kept result", kept, 20)
        self.seen.add(request)
        return request

    def explained(self, request):
        return json.loads(self.site.run("explain", request, "--json").stdout)

    def test_all(self):
        self.seen = set()
        self.submit("twice", b"hello" * 1000)
        request = self.newest()
        facts = self.explained(request[:12])
        self.assertEqual((facts["request"], facts["state"], facts["task"]), (request, "done", "twice"))
        self.assertEqual([(step["step"], step["state"], step["version"], step["version_note"]) for step in facts["steps"]],
                         [("once", "done", "1", "the newest"), ("again", "done", "1", "the newest")])
        times = facts["times"]
        self.assertAlmostEqual(times["wait_us"] + times["upload_us"] + times["steps_us"], times["total_us"], delta=10)
        pids = {record["pid"] for role, record in self.site.records().items() if role.startswith("worker")}
        for step in facts["steps"]:
            pick = step["kept"][0]["picks"][0]
            self.assertEqual({seen["pid"] for seen in pick["candidates"]}, pids)
            self.assertIn(pick["chosen"]["pid"], pids)
            self.assertEqual((pick["balancer"]["name"], pick["balancer"]["version"]), ("least_loaded", "1.0"))
        shown = json.loads(self.site.run("config", "show", "--config", self.site.configs, "--json").stdout)
        self.assertEqual(facts["config"], shown["digest"])
        page = self.site.run("explain", request[:12]).stdout
        print(page, flush=True)
        for words in (f"request    {request}", "step once: done", "step again: done", "chosen by least_loaded 1.0 ("):
            self.assertIn(words, page)

        # A device's request: why central sent it to this node, exactly that decision, for as long as central runs.
        self.assertNotIn("central", facts)
        self.site.add_user()
        self.file.write_bytes(cluster.jpeg(2000))
        code, answers, _ = self.site.send([self.file], keys=self.site.enrol())
        self.assertEqual((code, [answer["ok"] for answer in answers]), (0, [True]), answers)
        from_device = self.newest()
        facts = self.explained(from_device)
        central = facts["central"]
        self.assertEqual((central["placement"], central["chosen"], central["task"], central["user"], central["device"]),
                         (facts["placement"], "node-1", "echo", "anna", facts["device"]))
        self.assertEqual([(node["node"], node["capacity"]) for node in central["candidates"]], [("node-1", 2)])
        self.assertEqual((central["balancer"]["name"], central["excluded"]), ("least_loaded", []))
        page = self.site.run("explain", from_device).stdout
        print(page, flush=True)
        self.assertIn("sent to node-1 by central", page)
        alone = self.site.run("explain", "--placement", str(facts["placement"]), "--json").stdout
        self.assertEqual(json.loads(alone), central)
        missed = self.site.run("explain", "--placement", str(facts["placement"] + 1), ok=False)
        self.assertIn("does not remember that placement", missed.stderr)
        os.kill(self.site.records()["central"]["pid"], signal.SIGKILL)
        cluster.wait_until("another central", lambda: "does not remember" in self.explained(from_device)["central"].get(
            "unknown", ""), 30)

        # Another build of the balancer: the next request names it, the last one still the one that chose.
        source = self.site.build / "swap_plugins/1.2/balancer_least_loaded.so"
        write_by_rename(self.site.configs / "plugins/balancer_least_loaded.so", source.read_bytes())
        cluster.wait_until("swapped", lambda: any(
            row["name"] == "least_loaded" and row["version"] == "1.2" and row["state"] == "loaded"
            for row in self.site.status()["node"]["plugins"]), 20)
        self.submit("echo", b"hello")
        versions = [{pick["balancer"]["version"] for step in self.explained(each)["steps"] for call in step["kept"]
                     for pick in call["picks"]} for each in (request, self.newest())]
        self.assertEqual(versions, [{"1.0"}, {"1.2"}])

        # A worker that is killed under a call: who had it, what became of it, who had it then.
        self.file.write_bytes(b"sleep 1.5       ")
        sender = subprocess.Popen([self.site.broker, "submit", "--task", "echo", self.file, "--state", self.site.state],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        busy = cluster.wait_until("a running call", lambda: [
            worker for worker in self.site.status()["node"]["workers"] if worker["running"]], 20)[0]
        os.kill(busy["pid"], signal.SIGKILL)
        self.assertEqual(sender.wait(30), 0)
        request = self.newest()
        call = self.explained(request)["steps"][0]["kept"][0]
        first, second = [pick for pick in call["picks"] if pick["chosen"]]
        self.assertEqual(first["chosen"]["pid"], busy["pid"])
        self.assertEqual((first["failed"]["code"], first["failed"]["begun"]), ("worker_lost", True))
        self.assertNotEqual(second["chosen"]["pid"], busy["pid"])
        self.assertIn(first["chosen"]["slot"], [worker["slot"] for worker in second["excluded"]])
        self.assertEqual((call["attempts"], call["state"]), (2, "done"))
        page = self.site.run("explain", request).stdout
        print(page, flush=True)
        self.assertIn("(it was running the call)", page)

        # A call that ran until its request's time was up: how long it had been there, nobody knows for how long it ran.
        self.file.write_bytes(cluster.jpeg(2000, "sleep 1.5"))
        _, [answer], _ = self.site.send([self.file], task="hurried", keys=self.site.enrol(device="device-2"))
        self.assertEqual(answer["error"]["name"], "deadline_exceeded", answer)
        cluster.wait_until("its end", lambda: not any(
            worker["running"] for worker in self.site.status()["node"]["workers"]), 20)
        step = self.explained(answer["request"])["steps"][0]
        call = step["kept"][0]
        self.assertEqual((step["state"], call["kept"], call["state"]), ("cut off", "open", "running"))
        self.assertGreater(call["there_us"], 100_000)
        self.assertLess(call["there_us"], 1_000_000)  # asked for after the model's second and a half
        self.assertEqual(call["there_us"], step["longest_open_us"])
        page = self.site.run("explain", answer["request"]).stdout
        print(page, flush=True)
        self.assertRegex(page, r"had been there for \d+\.\d ms when the request ended")
        self.assertNotIn("0.00 ms at the worker", page)

        for name, words in (("0123456789", "does not know request"), ("hello", "4 to 32 lower-case hexadecimal digits")):
            done = self.site.run("explain", name, ok=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(words, done.stderr)
        file = self.site.configs / "gearbox.toml"
        write_by_rename(file, file.read_text().replace("[node]\n", "[node]\nexplain_requests = 0\n").encode())
        cluster.wait_until("forgotten", lambda: "explain_requests is 0" in self.site.run("explain", request, ok=False).stderr, 20)
        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])
        self.assertIn("no node runs here", self.site.run("explain", request, ok=False).stderr)


if __name__ == "__main__":
    unittest.main()
