"""`broker replay run` on recorded rows: cluster and model files in, figures out. Standard library only."""
import json
import subprocess

import live_site
import recordings

# What is fitted; the rest of the row is the card `cpu`, as it is.
OF_CLUSTER = ("broker_ms", "token_us")
REPLICAS = {1: 2, 2: 1, 4: 1, 5: 1}  # of two ranks, in each gear that they can have


class Simulation:
    """Writes its files into `folder`. Errors: RuntimeError."""

    def __init__(self, build, folder):
        self.broker, self.folder = build.resolve() / "bin/broker", folder

    def write_cluster(self, values, name="cluster"):
        lines = ['name = "live"'] + [f"{key} = {values[key]:.9g}" for key in OF_CLUSTER if key in values]
        lines += ["", "[[nodes]]", 'name = "here"', 'card = "cpu"', f"cards = {live_site.RANKS}", f"prefill_chunk = {live_site.PREFILL_ROWS}"]
        lines += [f"{key} = {value:.9g}" for key, value in values.items() if key not in OF_CLUSTER]
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def figures(self, cluster, gear, rows):
        """{name of a figure: value} of these requests in that gear."""
        model, trace = self.folder / f"model-{gear}.toml", self.folder / "now.trace"
        model.write_text(live_site.model_toml(REPLICAS[gear]), encoding="utf-8")
        trace.write_text(recordings.trace_of(rows), encoding="utf-8")
        words = [self.broker, "replay", "run", "--trace", trace, "--cluster", cluster, "--model", model, "--gear", gear, "--json", "-"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(" ".join(map(str, words)) + "\n" + done.stderr)
        found = {name: figure["mean"] for name, figure in json.loads(done.stdout)["contenders"][0]["figures"].items()}
        if found["done"] != len(rows):
            raise RuntimeError(f"{found['done']:.0f} of {len(rows)} requests were simulated to their end")
        return found
