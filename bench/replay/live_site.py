"""A whole installation with one elastic group, and runs of traffic on it: sent by open_loop, told by `broker replay record`."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import cluster  # noqa: E402

import recordings  # noqa: E402
import traffic  # noqa: E402

SHAPE = {"dim": 256, "hidden": 688, "layers": 6, "heads": 8, "kv_heads": 4, "vocab": 512, "positions": 1024}
PYTHON = "/usr/bin/python3"
RANKS = 2
MOST_RUNNING = 64   # sequences of the whole group
PREFILL_ROWS = 256
GOES_ON_S = 120     # a run may take so much longer than its schedule

GEARBOX = """
[central]
listen = "tcp://127.0.0.1:0"

[node]
listen = "tcp://127.0.0.1:0"

[node.limits]
max_requests_per_device = 4096

[node.store]
enabled = false                     # disks of shared machines are no part of this

[node.journal]
level = "none"

[env.torch]
python = "/usr/bin/python3"

[[worker]]
model = "stories"
env = "torch"
"""
ENGINE = """
ranks = {ranks}
gear = 1
cache_mb = 256
max_running = {running}
prefill_rows = {rows}

[random]
seed = 1
{shape}
"""


def parameters():
    """Of the model; as worker_shim's ModelShape counts them."""
    size = SHAPE["dim"] // SHAPE["heads"]
    layer = SHAPE["dim"] * (2 * SHAPE["heads"] + 2 * SHAPE["kv_heads"]) * size + 3 * SHAPE["dim"] * SHAPE["hidden"] + 2 * SHAPE["dim"]
    return SHAPE["vocab"] * SHAPE["dim"] + SHAPE["layers"] * layer + SHAPE["dim"]


def model_toml(replicas):
    """The simulator's description of it. The group's bound on running sequences becomes one of each replica."""
    return f"""name = "live"
layers = {SHAPE["layers"]}
width = {SHAPE["dim"]}
heads = {SHAPE["heads"]}
kv_heads = {SHAPE["kv_heads"]}
parameters = {parameters()}
bytes_per_number = 4
max_batch = {MOST_RUNNING // replicas}
"""


def configs(folder):
    shutil.copytree(ROOT / "examples/gears", folder)
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "gearbox.toml").write_text(GEARBOX)
    shape = "\n".join(f"{name} = {value}" for name, value in SHAPE.items())
    (folder / "models/stories/engine.toml").write_text(ENGINE.format(ranks=RANKS, running=MOST_RUNNING, rows=PREFILL_ROWS, shape=shape))
    record = folder / "models/stories/model.toml"
    text = record.read_text()
    assert "streams = 64 " in text
    record.write_text(text.replace("streams = 64 ", "streams = 128 "))


class Site:
    """Use as a context manager: whatever happens, nothing of it runs on afterwards."""

    def __init__(self, build):
        self.site = cluster.Cluster(build, configs=configs)
        self.client = self.site.build / "bin/open_loop"
        self.gear, self.runs = 1, 0

    def __enter__(self):
        try:
            self.site.start({"GEARBOX_STATE": str(self.site.state)}).wait_ready(180)
        except BaseException:
            self.site.__exit__()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and (ended := self.site.stop()):
                raise cluster.Failed(f"broker up ended with {ended}\n{self.site.log()}")
        finally:
            self.site.__exit__()

    def ask(self, **command):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(str(self.site.state / "run/groups/stories.sock"))
            sock.sendall(json.dumps(command).encode() + b"\n")
            with sock.makefile("rb") as answers:
                return json.loads(answers.readline())

    def shift(self, gear):
        if gear == self.gear:
            return
        answer = self.ask(op="shift", gear=gear)
        if not answer["ok"]:
            raise cluster.Failed(f"gear {gear} did not come about: {answer['why']}")
        self.gear = gear

    def run(self, asked):
        """Sends these requests and waits for all of them: the recording's rows of exactly them."""
        self.runs += 1
        schedule = self.site.scratch / f"schedule-{self.runs}"
        schedule.write_text(traffic.schedule(asked, self.runs))
        words = [self.client, "--socket", self.site.state / "run/node.sock", "--task", "tell", "--within-ms", 600_000, schedule]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=asked[-1].at_us / 1e6 + GOES_ON_S, check=False)
        if done.returncode != 0:
            raise cluster.Failed(f"open_loop: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        told = json.loads(done.stdout)
        rows = recordings.read(self.site.run("replay", "record").stdout)[-len(asked):]
        found = sorted((row.input_tokens, row.output_tokens) for row in rows)
        wanted = sorted((each.input_tokens, each.output_tokens) for each in asked)
        if found != wanted or any(row.error for row in rows):
            raise cluster.Failed("the recording does not tell of the requests that were sent")
        return rows, told["latest_us"]


def load_average():
    return os.getloadavg()[0]
