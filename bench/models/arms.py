"""The arms of the bench: the model in a loop, behind Gearbox, behind a peer. Each has a run(..., warm_up, seconds) that returns a Run, and
is a context manager: whatever happens, nothing of it runs on afterwards. Standard library only.

In every arm the model's process has one core for itself (MODEL_CPU) and one thread; what stands in front of it, the clients and this
script share the other one (FRONT_CPU). Processes stay up between their turns: idle, they take nothing from the others.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import cluster  # noqa: E402

FRONT_CPU, MODEL_CPU = (sorted(os.sched_getaffinity(0)) + [None, None])[:2]
# Owned by the broker for its workers; the others get the same. Set before Python starts: OpenBLAS reads it when it is loaded.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")}
DELAY_MS = 10  # of a batch that is not full, the same everywhere; when clients queue up it never comes to that
CLIENT_PATIENCE_S = 90


class Run(typing.NamedTuple):
    samples: list  # as figures.py has them
    cpu_ms: float | None  # of the model's process, for each request of the whole run; None: not known


class Material:
    """What the clients send, the same bytes in every arm, and the answers as the bare model gives them."""

    def __init__(self, folder, name, model, shape, answer):
        self.name, self.model, self.shape, self.answer = name, model, shape, answer
        self.piece_bytes = 1
        for length in shape:
            self.piece_bytes *= length
        self.payloads, self.answers = folder / f"{name}.payloads", folder / f"{name}.answers"
        self.payloads.write_bytes(b"".join(self.piece(number) for number in range(8)))

    def piece(self, number):
        """Stripes of one width and one set of colours for each number: eight different pictures."""
        width = self.shape[1] * self.shape[2] if len(self.shape) > 2 else 1021
        random = [(number * 2654435761 >> shift) % 256 for shift in (0, 5, 9, 14, 18, 21)]
        rows = [bytes(random[(x // (3 << number % 4) + y) * (number + 1) % 6] for x in range(width)) for y in range(6)]
        whole = b"".join(rows[y // (number // 4 + 1) % 6] for y in range(-(-self.piece_bytes // width)))
        return whole[:self.piece_bytes]

    def words(self):
        return ",".join(str(length) for length in self.shape)


def devices_for(clients):
    """A device may have 8 connections: how many devices it takes so that each has as many, and `clients` in all."""
    return next(count for count in range(-(-clients // 8), clients + 1) if clients % count == 0)


def front(words):
    return ["taskset", "-c", str(FRONT_CPU), *map(str, words)]


def checked(tally, who):
    if tally["failed"] or tally["wrong"] or not tally["requests"]:
        raise cluster.Failed(f"{who}: {tally['failed']} failed, {tally['wrong']} wrong of {tally['requests']}: {tally['reasons']}")
    return tally["samples"]


class Direct:
    """The model called in a loop, `batch` items at a time."""

    def __init__(self, python, material):
        words = [python, "-B", HERE / "direct.py", HERE / material.model, MODEL_CPU, material.payloads, material.words(), material.answers]
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **ONE_THREAD})
        if not self.process.stdout.readline():
            self.process.wait()
            raise cluster.Failed(f"{material.model} does not run in {python}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def run(self, batch, warm_up, seconds):
        print(json.dumps({"batch": batch, "warm_up": warm_up, "seconds": seconds}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        return Run(answer["samples"], answer["cpu_s"] * 1e3 / len(answer["samples"]))


CONFIG = '''
[central]
listen = "tcp://127.0.0.1:0"
password_tries_per_minute = 1000    # all devices are enrolled at once, from one address

[node]
listen = "tcp://127.0.0.1:0"

[node.limits]
input_arena_mb = 512                # 64 requests of 3 MB, and room

[node.store]
enabled = false                     # the peers keep nothing either

[node.journal]
level = "none"

[env.bench]
python = "{python}"
'''
WORKER = '\n[[worker]]\nmodel = "{name}"\nenv = "bench"\ndevices = "cpu"\n'
TASK = '''
[[input]]
name = "data"
dtype = "UINT8"
shape = {shape}

[[step]]
name = "model"
model = "{name}"
inputs = {{ data = "request.data" }}

[result]
data = "model.data"
'''


class Gearbox:
    """`broker up` with one worker for each (material, batch), asked by load_device over the device protocol: sealed, checked."""

    def __init__(self, build, python, served, most_devices):
        self.served, self.most_devices = served, most_devices
        self.site = cluster.Cluster(build, configs=self.configs, python=python)
        self.site.at_server = ["taskset", "-c", str(FRONT_CPU)]

    @staticmethod
    def name_of(material, batch):
        return material.name if batch == 1 else f"{material.name}_batch"

    def configs(self, folder, python):
        (folder / "tasks").mkdir(parents=True)
        (folder / "plugins").mkdir()
        text = CONFIG.format(python=python)
        for material, batch in self.served:
            name = self.name_of(material, batch)
            model = folder / "models" / name
            model.mkdir(parents=True)
            record = (HERE / material.model / "model.toml").read_text()
            record = record.replace(f'name = "{material.model}"', f'name = "{name}"')
            if batch > 1:
                record = record.replace("max_batch = 1", f"max_batch = {batch}").replace("max_delay_ms = 0", f"max_delay_ms = {DELAY_MS}")
            (model / "model.toml").write_text(record)
            (model / "model.py").write_text((HERE / material.model / "model.py").read_text())
            (folder / f"tasks/{name}.toml").write_text(TASK.format(name=name, shape=list(material.shape)))
            text += WORKER.format(name=name)
        (folder / "gearbox.toml").write_text(text)

    def __enter__(self):
        try:
            self.site.start().wait_ready(180)
            self.site.add_user()
            self.keys = [self.site.enrol(device=f"device-{number}") for number in range(self.most_devices)]
            self.workers = self.worker_pids()
            for pid in self.workers.values():
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setaffinity(int(thread), {MODEL_CPU})
        except BaseException:
            self.site.__exit__()
            raise
        return self

    def worker_pids(self):
        return {worker["model"]: worker["pid"] for worker in self.site.status()["node"]["workers"]}

    def cpu_ns(self, name):
        """Of the worker, all its threads, to the scheduler's own precision."""
        threads = pathlib.Path(f"/proc/{self.workers[name]}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                ended = self.site.stop()
                left = self.site.leftovers()
                if ended or left:
                    raise cluster.Failed(f"broker up ended with {ended}; left behind: {left}")
        finally:
            self.site.__exit__()

    def run(self, material, batch, clients, warm_up, seconds):
        url, key = self.site.central()
        name = self.name_of(material, batch)
        keys = self.keys[:devices_for(clients)]
        words = [self.site.build / "bin/load_device", "--central", url, "--server-key", key, "--user", "anna", "--open", clients // len(keys), "--fresh", 0,
                 "--seconds", warm_up + seconds, "--task", name, "--shape", material.words(), "--payloads",
                 material.payloads, "--answers", material.answers, *keys]
        before = self.cpu_ns(name)
        done = subprocess.run(front(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
                              timeout=warm_up + seconds + CLIENT_PATIENCE_S)
        if self.worker_pids() != self.workers:
            raise cluster.Failed("a worker was replaced in the middle of the bench:\n" + self.site.log())
        samples = checked(json.loads(done.stdout.splitlines()[-1]), "gearbox")
        return Run(samples, (self.cpu_ns(name) - before) / 1e6 / len(samples))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Peer:
    """Another server with the same model: `mosec` or `pytriton`."""

    def __init__(self, name, python, folder, material, batch):
        self.name, self.material = name, material
        self.port = free_port()
        self.log = folder / f"{name}-{material.name}-{batch}.log"
        scratch = folder / f"{name}-{material.name}-{batch}"
        scratch.mkdir()
        self.path, self.headers, self.prefix = "/inference", {}, ""
        more = ["--address", "127.0.0.1", "--port", self.port, "--path", scratch / "ipc", "--timeout", 60_000, "--log-level", "warning"]
        if name == "pytriton":
            more = [self.port]
            self.path = "/v2/models/model/infer"
            tensor = {"name": "data", "shape": [1, *material.shape], "datatype": "UINT8",
                      "parameters": {"binary_data_size": material.piece_bytes}}
            self.prefix = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
            self.headers = {"Inference-Header-Content-Length": len(self.prefix)}
        told = {"MODEL_FOLDER": HERE / material.model, "MODEL_CPU": MODEL_CPU, "MODEL_SHAPE": material.words(), "MODEL_BATCH": batch,
                "MODEL_DELAY_MS": DELAY_MS if batch > 1 else 0, "MODEL_ANSWER": material.answer, "PYTRITON_HOME": scratch, "TMPDIR": scratch}
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                front([python, "-B", HERE / f"peers/serve_{name}.py", *more]), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, **ONE_THREAD, **{key: str(value) for key, value in told.items()}})

    def wait_ready(self, seconds=120):
        """It is ready when it answers. Raises Failed with the end of its log."""
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(subprocess.SubprocessError, ValueError):
                tally = self.ask(1, 0.01)
                if tally["samples"] and not tally["failed"]:
                    return
            if self.process.poll() is not None or time.monotonic() > until:
                tail = self.log.read_text(errors="replace").splitlines()[-5:]
                raise cluster.Failed(f"{self.name} does not answer: " + " | ".join(tail))
            time.sleep(0.3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """In order first: it removes its own memory and sockets then."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for left in pathlib.Path("/dev/shm").glob(f"pytrtion{self.process.pid}-*"):  # so spelt by Triton, which leaves it after a kill
            left.unlink(missing_ok=True)

    def ask(self, clients, seconds):
        words = ["/usr/bin/python3", "-B", HERE / "http_load.py", self.port, self.path, json.dumps(self.headers), self.prefix,
                 self.material.payloads, self.material.piece_bytes, self.material.answers, clients, seconds]
        done = subprocess.run(front(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                              timeout=seconds + CLIENT_PATIENCE_S)
        return json.loads(done.stdout)

    def run(self, clients, warm_up, seconds):
        return Run(checked(self.ask(clients, warm_up + seconds), self.name), None)
