"""Which GPU each worker gets, on a host whose NVML is a fake: two cards and what the test says of them."""
import json
import os
import signal
import unittest

import support  # noqa: F401  (finds the next one)
import cluster
from cluster import wait_until

os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # a broker that has it puts workers on no other card

RECORD = '''
name = "NAME"
version = "1"
MEMORY
load_timeout_ms = 20000

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]
probe_shape = [1]

[[output]]
name = "text"
dtype = "BYTES"
shape = [1]
'''

# What the process was given when it began, before the model's first line.
CODE = '''
import json
import os

GIVEN = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}


class Model:
    def load(self, record, device):
        self.answer = json.dumps({**GIVEN, "device": device, "pid": os.getpid()})

    def infer(self, batch):
        return [{"text": self.answer} for _ in batch]
'''


def configs_of(workers):
    """`workers`: model → (memory_mb or None, devices, count)."""
    def write(folder):
        cluster.echo_configs(folder, 0)
        file = folder / "gearbox.toml"
        text = file.read_text().replace("[node]\n", "[node]\nreattach_ms = 20000\n", 1)
        for name, (memory, devices, count) in workers.items():
            (folder / "models" / name).mkdir()
            memory_line = "" if memory is None else f"memory_mb = {memory}"
            (folder / "models" / name / "model.toml").write_text(
                RECORD.replace("NAME", name).replace("MEMORY", memory_line))
            (folder / "models" / name / "model.py").write_text(CODE)
            (folder / f"tasks/{name}.toml").write_text(cluster.one_step_task(name, ["text"]))
            text += f'\n[[worker]]\nmodel = "{name}"\nenv = "plain"\ncount = {count}\ndevices = "{devices}"\n'
        file.write_text(text)
    return write


class Gpus(unittest.TestCase):
    def start(self, workers, gpus, library=None):
        self.site = cluster.Cluster(configs=configs_of(workers))
        self.addCleanup(self.site.__exit__)
        self.file = self.site.scratch / "hello.bin"
        self.file.write_bytes(b"hello, hello")
        self.tell(gpus)
        self.site.start({"GEARBOX_NVML": str(library or self.site.build / "tests/support/fake_nvml.so"),
                         "FAKE_NVML": str(self.site.scratch / "gpus")})

    def tell(self, gpus):
        """What NVML says from now on: lines of tests/support/fake_nvml."""
        written = self.site.scratch / "gpus.next"
        written.write_text("\n".join(gpus) + "\n")
        written.replace(self.site.scratch / "gpus")

    def node(self):
        return self.site.status()["node"] or {}

    def workers(self, model):
        return [each for each in self.node().get("workers", []) if each["model"] == model]

    def wait_for(self, model, state, count=1, seconds=60):
        def found():
            workers = self.workers(model)
            return workers if [each["state"] for each in workers] == [state] * count else None
        try:
            return wait_until(f"{count} of {model} {state}", found, seconds)
        except cluster.Failed as failed:
            self.fail(f"{failed}\n{json.dumps(self.node().get('workers'), indent=1)}\n{self.site.log()}")

    def ask(self, model):
        """What one of its processes was given."""
        done = self.site.run("submit", "--task", model, self.file, "--json", ok=False)
        self.assertTrue(done.stdout, done.stderr)
        answer = json.loads(done.stdout)[0]
        self.assertTrue(answer["ok"], answer)
        return json.loads(answer["tensors"][0]["values"][0])

    def stop_whole(self):
        self.assertEqual(self.site.stop(), 0, self.site.log())
        self.assertEqual(self.site.leftovers(), [])

    def test_workers_are_put_where_there_is_room_and_the_others_wait(self):
        two = ["gpu GPU-aaaa 10000 0 12", "gpu GPU-bbbb 8000 1000 -"]
        self.start({"large": (6000, "cuda", 1), "medium": (3000, "cuda", 1), "small": (1000, "cuda", 2),
                    "late": (5000, "cuda", 1), "huge": (20000, "cuda", 1), "plain": (100, "cpu", 1)}, two)
        large = self.wait_for("large", "ready")[0]
        medium = self.wait_for("medium", "ready")[0]
        small = self.wait_for("small", "ready", 2)
        self.wait_for("plain", "ready")
        # 10000 and 7000 MB are left; then 4000 and 7000, 4000 and 4000, 3000 and 4000, 3000 and 3000.
        self.assertEqual([large["gpus"], medium["gpus"], [each["gpus"] for each in small]], [[0], [1], [[0], [1]]])
        self.assertEqual({key: self.ask("large")[key] for key in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "device")},
                         {"CUDA_VISIBLE_DEVICES": "GPU-aaaa", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "device": "cuda:0"})
        self.assertEqual(self.ask("medium")["CUDA_VISIBLE_DEVICES"], "GPU-bbbb")
        self.assertEqual((self.ask("plain")["CUDA_VISIBLE_DEVICES"], self.ask("plain")["device"]), ("", "cpu"))
        self.wait_for("late", "waiting")
        # They have taken what they said. (Had they taken nothing by the next look, it would be free for others.)
        self.tell(["gpu GPU-aaaa 10000 7000 12", "gpu GPU-bbbb 8000 5000 -"])
        wait_until("a look at that", lambda: self.node()["gpus"]["list"][1]["memory_used_bytes"] >> 20 == 5000, 10)
        wait_until("the reason as things are now",
                   lambda: self.workers("late")[0]["reason"] == "no GPU has 5000 MB free; most: GPU 0 with 3000", 10)
        huge = self.wait_for("huge", "waiting")[0]
        self.assertEqual(huge["reason"], "no GPU has 20000 MB; the largest: GPU 0 with 10000")
        done = self.site.run("submit", "--task", "huge", self.file, "--json", ok=False)
        error = json.loads(done.stdout)[0]["error"]
        self.assertEqual(error["name"], "model_unavailable", done.stdout)
        self.assertIn("no GPU has 20000 MB; the largest: GPU 0 with 10000", error["detail"])
        self.check_status(large, medium, small)
        self.check_restart(large)
        self.tell(["gpu GPU-aaaa 10000 7000 12", "gpu GPU-bbbb 8000 5000 -", "gpu GPU-cccc 6000 100 0"])
        self.wait_for("late", "ready")
        self.assertEqual(self.ask("late")["CUDA_VISIBLE_DEVICES"], "GPU-cccc")
        self.stop_whole()

    def check_status(self, large, medium, small):
        gpus = self.node()["gpus"]
        self.assertEqual((gpus["nvml"], len(gpus["list"])), ("answers", 2))
        first, second = gpus["list"]
        self.assertEqual((first["index"], first["uuid"], first["name"], first["busy_percent"]),
                         (0, "GPU-aaaa", "Fake 10000", 12))
        self.assertEqual((first["memory_total_bytes"] >> 20, second["memory_used_bytes"] >> 20), (10000, 5000))
        self.assertIsNone(second["busy_percent"])
        self.assertEqual([first["left_mb"], second["left_mb"]], [3000, 3000])
        self.assertEqual([first["workers"], second["workers"]],
                         [[large["id"], small[0]["id"]], [medium["id"], small[1]["id"]]])
        text = self.site.run("status").stdout
        print(text, flush=True)
        for words in ("Fake 10000", "10000 MB", "12 %", "(6000 MB)", "no GPU has 5000 MB free; most: GPU 0 with 3000"):
            self.assertIn(words, text)

    def check_restart(self, large):
        """One that is killed gets a GPU again: the same, since the one that waits must not take its place."""
        os.kill(large["pid"], signal.SIGKILL)
        self.tell(["gpu GPU-aaaa 10000 1000 12", "gpu GPU-bbbb 8000 5000 -"])
        wait_until("another process", lambda: self.workers("large")[0]["pid"] not in (0, large["pid"]), 30)
        again = self.wait_for("large", "ready")[0]
        self.assertEqual((again["gpus"], again["restarts"]), ([0], 1))
        self.assertEqual(self.ask("large")["CUDA_VISIBLE_DEVICES"], "GPU-aaaa")
        self.assertEqual(self.workers("late")[0]["state"], "waiting")

    def test_the_next_node_finds_its_workers_on_their_gpus(self):
        self.start({"one": (6000, "cuda", 1), "two": (None, "cuda", 1), "three": (500, "cuda:1", 1)},
                   ["gpu GPU-aaaa 10000 0 0", "gpu GPU-bbbb 8000 0 0", "gpu GPU-cccc 8000 7000 0"])
        for model in ("one", "two", "three"):
            self.wait_for(model, "ready")
        # The second names no memory_mb: it gets the best of those without workers for itself.
        told = {model: self.ask(model) for model in ("one", "two", "three")}
        self.assertEqual([each["CUDA_VISIBLE_DEVICES"] for each in told.values()], ["GPU-aaaa", "GPU-bbbb", "GPU-bbbb"])
        node = self.site.record("node")["pid"]
        os.kill(node, signal.SIGKILL)
        wait_until("another node", lambda: self.node().get("pid", node) != node, 60)
        for model in told:
            self.wait_for(model, "ready")
            self.assertEqual(self.ask(model), told[model])
        self.assertEqual([self.workers(model)[0]["gpus"] for model in told], [[0], [1], [1]])
        self.assertEqual(self.node()["workers_reattached"]["taken"], 3)
        self.stop_whole()

    def test_without_nvml_all_is_as_it_was(self):
        self.start({"any": (6000, "cuda", 1), "third": (6000, "cuda:2", 1)}, [], "/nowhere/libnvidia-ml.so.1")
        self.wait_for("any", "ready")
        self.wait_for("third", "ready")
        told = self.ask("any")
        self.assertEqual((told["CUDA_VISIBLE_DEVICES"], told["device"]),
                         (None, "cuda"))
        told = self.ask("third")
        self.assertEqual((told["CUDA_VISIBLE_DEVICES"], told["device"]), ("2", "cuda:0"))
        self.assertEqual(self.node()["gpus"]["nvml"], "none")
        self.assertIn("no figures, there is no NVML (/nowhere/libnvidia-ml.so.1", self.site.run("status").stdout)
        log = (self.site.state / "log/node.log").read_text()
        self.assertEqual(log.count("there is no NVML"), 1, log)
        self.stop_whole()


if __name__ == "__main__":
    unittest.main()
