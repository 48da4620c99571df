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
