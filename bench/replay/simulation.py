"""`broker replay run` on recorded rows: cluster and model files in, the same rows as simulated out. Standard library only."""
import csv
import subprocess

import live_site
import recordings

# What is fitted; the rest of the row is the card `cpu`, as it is.
OF_CLUSTER = ("broker_ms", "token_us", "position_ns", "mixed_us")
LEAST = {"full_speed_replicas": 1.0}
REPLICAS = {1: 2, 2: 1, 4: 1, 5: 1}  # of two ranks, in each gear that they can have


class Simulation:
    """Writes its files into `folder`. Errors: RuntimeError."""

    def __init__(self, build, folder):
        self.broker, self.folder = build.resolve() / "bin/broker", folder

    def write_cluster(self, values, name="cluster"):
        values = {key: max(value, LEAST.get(key, 0)) for key, value in values.items()}
        lines = ['name = "live"', "pads = true"] + [f"{key} = {values[key]:.9g}" for key in OF_CLUSTER if key in values]
        lines += ["", "[[nodes]]", 'name = "here"', 'card = "cpu"', f"cards = {live_site.RANKS}", f"prefill_chunk = {live_site.PREFILL_ROWS}"]
        lines += [f"{key} = {value:.9g}" for key, value in values.items() if key not in OF_CLUSTER]
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def rows(self, cluster, gear, rows):
        """The same requests with the times that they take in that gear, simulated."""
        model, trace, told = self.folder / f"model-{gear}.toml", self.folder / "now.trace", self.folder / "now.requests"
        model.write_text(live_site.model_toml(REPLICAS[gear]), encoding="utf-8")
        trace.write_text(recordings.trace_of(rows), encoding="utf-8")
        words = [self.broker, "replay", "run", "--trace", trace, "--cluster", cluster, "--model", model, "--gear", gear, "--requests", told]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(" ".join(map(str, words)) + "\n" + done.stderr)
        with open(told, encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        if [int(line["number"]) for line in lines] != list(range(len(rows))):
            raise RuntimeError(f"{len(lines)} of {len(rows)} requests were simulated to their end")
        return [row._replace(first_us=int(line["first_us"]), latency_us=int(line["latency_us"])) for row, line in zip(rows, lines)]
