"""Batches across requests: pictures of two sizes from one device come to the model together, each size for itself."""
import json
import unittest

import support  # noqa: F401  (finds the modules of tests/support)
import cluster

CODE = '''
import numpy as np


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        stacked = np.stack([item["image"] for item in batch])        # raises unless all have one shape
        if any(bytes(image[-16:]).startswith(b"bad") for image in stacked):
            raise ValueError("one of them is bad" if len(batch) > 1 else "this one is bad")
        return [{"image": image, "text": f"{len(image)} {int(image.astype(np.int64).sum())}"} for image in stacked]
'''
REQUESTS, MAX_BATCH, BAD = 32, 8, 7


def batching(folder):
    cluster.echo_configs(folder)
    record = folder / "models/echo/model.toml"
    # The delay is long, so that a batch does not depend on how fast this machine is.
    text = record.read_text().replace("max_output_kb = 17408", "max_output_kb = 64")  # else two calls fill the arena
    record.write_text(f"max_batch = {MAX_BATCH}\nmax_delay_ms = 300\n{text}")
    (folder / "models/echo/model.py").write_text(CODE)


LIST_MODEL = """
name = "NAME"
version = "1"
max_output_kb = 64
MORE
[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]
probe_shape = [600]

[[output]]
OUTPUT
"""

# Three pieces of each picture.
SPLIT = """
class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        return [{"parts": [item["image"][i * 200:(i + 1) * 200] for i in range(3)]} for item in batch]
"""

EACH = """
import numpy as np


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        return [{"text": f"{int(item['image'].astype(np.int64).sum())}"} for item in batch]
"""

SCATTER = """
summary = "three pieces of a picture, each for itself"

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[step]]
name = "split"
model = "split"
inputs = { image = "request.image" }

[[step]]
name = "each"
model = "each"
inputs = { image = "split.parts" }
for_each = "image"

[result]
text = "each.text"
"""
LISTS, PIECES = 8, 3


def scattering(folder):
    cluster.echo_configs(folder)
    for name, code, more, output in (
            ("split", SPLIT, "", 'name = "parts"\ndtype = "UINT8"\nshape = [-1]\nlist = true'),
            ("each", EACH, f"max_batch = {MAX_BATCH}\nmax_delay_ms = 500", 'name = "text"\ndtype = "BYTES"\nshape = [1]')):
        model = folder / "models" / name
        model.mkdir()
        (model / "model.toml").write_text(LIST_MODEL.replace("NAME", name).replace("MORE", more).replace("OUTPUT", output))
        (model / "model.py").write_text(code)
    (folder / "tasks/scatter.toml").write_text(SCATTER)
    file = folder / "gearbox.toml"
    file.write_text(file.read_text() + "".join(f'\n[[worker]]\nmodel = "{name}"\nenv = "plain"\n' for name in ("split", "each")))


class Lists(unittest.TestCase):
    def test_the_items_of_several_requests_come_together(self):
        self.site = site = cluster.Cluster(configs=scattering)
        self.addCleanup(site.__exit__)
        site.start()
        site.wait_ready()
        files, wanted = [], {}
        for number in range(LISTS):
            content = cluster.jpeg(1000, str(number))
            files.append(site.scratch / f"{number}.bin")
            files[-1].write_bytes(content)
            wanted[str(files[-1])] = [str(sum(content[i * 200:(i + 1) * 200])) for i in range(PIECES)]
        site.add_user()
        code, answers, err = site.send(files, task="scatter", keys=site.enrol(), more=("--parallel", str(LISTS)))
        self.assertEqual((code, len(answers)), (0, LISTS), err)
        for answer in answers:
            self.assertEqual(answer["outputs"]["text"]["data"], wanted[answer["file"]])
        batches = []
        for answer in answers:
            step = json.loads(site.run("explain", answer["request"], "--json").stdout)["steps"][1]
            self.assertEqual((step["step"], step["calls"]["made"], len(step["kept"])), ("each", PIECES, PIECES))
            batches += [call["batch"] for call in step["kept"]]
        print("batches:", sorted(batches), flush=True)
        # No request has so many items: one of that size holds items of several.
        self.assertGreater(max(batches), PIECES)
        self.assertLessEqual(max(batches), MAX_BATCH)
        # Each call counts for its part of its batch: fewer batches than requests.
        self.assertLess(sum(1 / batch for batch in batches), LISTS)


class Batches(unittest.TestCase):
    def setUp(self):
        self.site = cluster.Cluster(configs=batching)
        self.addCleanup(self.site.__exit__)
        self.site.start()
        self.site.wait_ready()

    def kept(self):
        listed = self.site.run("results", "list", "--json", "--limit", "100", ok=False)
        return json.loads(listed.stdout) if listed.returncode == 0 else []

    def test_two_sizes_and_a_bad_one(self):
        files, wanted = [], {}
        for number in range(REQUESTS):
            content = cluster.jpeg(1000 if number % 2 else 2000, "bad" if number == BAD else str(number))
            file = self.site.scratch / f"{number}.bin"
            file.write_bytes(content)
            files.append(file)
            wanted[str(file)] = f"{len(content)} {sum(content)}"
        bad = str(files[BAD])
        self.site.add_user()
        code, answers, _ = self.site.send(files, keys=self.site.enrol(), more=("--parallel", str(REQUESTS)))
        self.assertEqual(len(answers), REQUESTS)
        failed = [answer for answer in answers if not answer["ok"]]
        self.assertEqual([answer["file"] for answer in failed], [bad])
        self.assertIn("this one is bad", json.dumps(failed))
        self.assertNotEqual(code, 0)
        for answer in answers:
            if answer["ok"]:
                self.assertIn(wanted[answer["file"]], json.dumps(answer))
        rows = cluster.wait_until("the kept results", lambda: (
            lambda found: found if len(found) >= REQUESTS - 1 else None)(self.kept()), 20)
        sizes = []
        for row in rows:
            facts = json.loads(self.site.run("explain", row["request"], "--json").stdout)
            sizes.append(facts["steps"][0]["kept"][0]["batch"])
        print("batches:", sorted(sizes), flush=True)
        self.assertLessEqual(max(sizes), MAX_BATCH)
        self.assertGreater(max(sizes), 1)
        worker = self.site.status()["node"]["workers"][0]
        self.assertGreater(worker["mean_batch"], 1)
        self.assertEqual((worker["state"], worker["restarts"]), ("ready", 0))


if __name__ == "__main__":
    unittest.main()
