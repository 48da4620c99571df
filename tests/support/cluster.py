"""One whole installation in a scratch folder: configuration, state, `broker up`, devices; and what it must not leave behind.

Standard library only. scripts/demo and the tests in tests/integration/ use it.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

ECHO_MODEL = '''
name = "echo"
version = "1"
framework = "numpy"
summary = "gives back what it gets, with its size"
max_output_kb = 17408
load_timeout_ms = 20000

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]
probe_shape = [16]

[[output]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[output]]
name = "text"
dtype = "BYTES"
shape = [1]
'''

ECHO_CODE = '''
import ctypes
import hashlib
import os
import time


class Model:
    def load(self, record, device):
        self.kept = []

    def infer(self, batch):
        answers = []
        for item in batch:
            data = item["image"]
            # What to do is said by the first 16 bytes, or, behind a JPEG's end marker, by the last.
            words = bytes(data[-16:] if bytes(data[:2]) == b"\\xff\\xd8" else data[:16]).split()
            if words[:1] == [b"sleep"]:
                time.sleep(float(words[1]))
            if words[:1] == [b"hold"]:  # in native code, without letting go of the GIL
                ctypes.PyDLL(None).usleep(int(float(words[1]) * 1e6))
            if words[:1] == [b"leak"]:  # so many MiB, for good
                self.kept.append(b"x" * (int(words[1]) << 20))
            if words[:1] == [b"raise"]:
                raise ValueError("asked to raise")
            if words[:1] == [b"die!"]:
                os._exit(3)
            answers.append({"image": data, "text": hashlib.sha256(bytes(data)).hexdigest()})
        return answers
'''



def one_step_task(model, outputs, more=""):
    """A task that gives an image to `model`; the step has the model's name. `more`: further lines for its head."""
    results = "".join(f'{output} = "{model}.{output}"\n' for output in outputs)
    return f'''
summary = "one step"
{more}
[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[step]]
name = "{model}"
model = "{model}"
inputs = {{image = "request.image"}}

[result]
{results}'''


ECHO_TASK = one_step_task("echo", ["text", "image"])

ECHO_CONFIG = '''
[central]
listen = "tcp://127.0.0.1:0"

[node]
listen = "tcp://127.0.0.1:0"

[node.limits]
max_upload_mb = 16
input_arena_mb = 64
output_arena_mb = 48

[env.plain]
python = "/usr/bin/python3"

[[worker]]
model = "echo"
env = "plain"
count = WORKERS
'''


def jpeg(size, order="", width=64, height=48):
    """A grey JPEG of about `size` bytes that is whole by its markers; its pixels are noise. Each is another one.
    `order` is for the echo model: "sleep 0.5", "raise", "die!"."""
    def segment(marker, body):
        return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body
    frame = b"\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\x01\x01\x11\x00"
    scan = os.urandom(size).replace(b"\xff", b"\xfe")
    return b"\xff\xd8" + segment(0xC0, frame) + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + scan + b"\xff\xd9" + \
        order.encode().ljust(16)


class Gate:
    """Holds a model that runs `open(gate.path).read()` until open() is called; a named pipe, so that nobody polls."""

    def __init__(self, path):
        self.path = str(path)
        os.mkfifo(self.path)
        self.writer = None

    def is_reached(self):
        if self.writer is None:
            try:
                self.writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads yet
                return False
        return True

    def open(self):
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None


class Failed(Exception):
    """A program did not do what it was asked; says what it printed."""


def wait_until(what, condition, seconds, every=0.1):
    """Returns the first true value of condition(). Raises Failed at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(every)


def echo_configs(folder, workers=1):
    """A configuration whose one model needs nothing but numpy."""
    (folder / "models/echo").mkdir(parents=True)
    (folder / "tasks").mkdir()
    (folder / "plugins").mkdir()
    (folder / "models/echo/model.toml").write_text(ECHO_MODEL)
    (folder / "models/echo/model.py").write_text(ECHO_CODE)
    (folder / "tasks/echo.toml").write_text(ECHO_TASK)
    (folder / "gearbox.toml").write_text(ECHO_CONFIG.replace("WORKERS", str(workers)))


def example_configs(folder, python):
    """The example configuration, on free ports, with `python` as the ONNX environment."""
    shutil.copytree(ROOT / "configs", folder)
    file = folder / "gearbox.toml"
    text = re.sub(r'(listen = "tcp://127\.0\.0\.1):\d+"', r'\1:0"', file.read_text())
    text = re.sub(r'(\[env\.onnx\]\npython = )"[^"]*"', rf'\1"{python}"', text)
    file.write_text(text)


def processes_of(text):
    """All processes whose command line holds `text`: {pid: command line}. Zombies have none."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if text in words:
            found[int(entry.name)] = words
    return found


# What other tests that run at the same time may have in /dev/shm just now.
OF_OTHERS = re.compile(r"gearbox-(fuzz|test|bench)-")


class Cluster:
    """Use as a context manager: whatever happens, nothing of it runs on afterwards."""

    def __init__(self, build=None, configs=echo_configs, scratch=None, **options):
        self.build = Path(build or os.environ.get("GEARBOX_BUILD", ROOT / "build/dev")).resolve()
        self.broker = self.build / "bin/broker"
        self.client = self.build / "bin/pi_client"
        self.scratch = Path(scratch or tempfile.mkdtemp(prefix="gearbox-"))
        self.configs = self.scratch / "configs"
        self.state = self.scratch / "state"
        self.output = self.scratch / "up.log"
        self.supervisor = None
        self.shm_before = set(os.listdir("/dev/shm"))
        # Words in front of the commands of each side, for network namespaces.
        self.at_server = []
        self.at_device = []
        self.up_words = []  # further ones of `broker up`
        configs(self.configs, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)

    # -- the processes

    def start(self, environment=None):
        with open(self.output, "ab") as out:
            self.supervisor = subprocess.Popen(
                [*self.at_server, self.broker, "up", "--config", self.configs, "--state", self.state, *self.up_words], stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        return self

    def stop(self, seconds=40, with_signal=signal.SIGTERM):
        """Tells the supervisor to stop; returns its exit code."""
        self.supervisor.send_signal(with_signal)
        return self.supervisor.wait(seconds)

    def replace_supervisor(self, environment=None):
        """kill -9 of the supervisor; the next one, with another environment, adopts what runs."""
        self.supervisor.kill()
        self.supervisor.wait()
        self.start(environment)

    def kill(self):
        """The end of everything, not in order."""
        for _ in range(50):
            left = processes_of(str(self.state))
            if self.supervisor is not None and self.supervisor.poll() is None:
                left[self.supervisor.pid] = "broker up"
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if self.supervisor is not None:
                self.supervisor.poll()
            time.sleep(0.05)

    def log(self):
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def run(self, *words, input=None, seconds=60, ok=True):
        """Runs `broker WORDS` on this installation. Raises Failed when it fails and `ok` is asked for."""
        command = [str(self.broker), *map(str, words), "--state", str(self.state)]
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=seconds)
        if ok and done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}\n{self.log()}")
        return done

    def status(self):
        done = self.run("status", "--json", ok=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"supervisor": None, "central": None, "node": None}

    def wait_ready(self, seconds=90):
        """Until central and node say so; the node does after a round trip through each model. Returns the status."""
        def ready():
            if self.supervisor is not None and self.supervisor.poll() is not None:
                raise Failed(f"broker up ended with exit code {self.supervisor.returncode}\n{self.log()}")
            status = self.status()
            central, node = status["central"], status["node"]
            # Central knows the node only from its first report on.
            known = central and any(each["state"] == "alive" for each in central.get("nodes", []))
            return status if central and central["ready"] and node and node["ready"] and known else None
        try:
            return wait_until("ready", ready, seconds, 0.2)
        except Failed as failed:
            raise Failed(f"{failed}\n{self.log()}") from None

    def record(self, role):
        return json.loads((self.state / f"run/{role}.json").read_text())

    def records(self):
        found = {}
        for file in (self.state / "run").glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # the supervisor removes a record when it has reaped the process
                found[file.stem] = json.loads(file.read_text())
        return found

    # -- people and devices

    def central(self):
        """(URL, channel key) of the running central."""
        status = self.status()["central"]
        return status["listen"], status["channel_key"]

    def add_user(self, name="anna", password="correct horse battery"):
        self.run("users", "add", name, "--password-file", "-", input=password + "\n")
        return name, password

    def client_words(self, command, user, keys, central=None):
        url, key = central or self.central()
        return [*self.at_device, str(self.client), command, "--central", url, "--server-key", key, "--user", user, "--keys", str(keys)]

    def enrol(self, user="anna", password="correct horse battery", device="device-1", central=None):
        """Registers a new device; returns the folder with its key."""
        keys = self.scratch / f"keys-{device}"
        words = self.client_words("enrol", user, keys, central)
        done = subprocess.run([*words, "--device", device, "--password-file", "-"], input=password + "\n", capture_output=True,
                              text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"pi_client enrol: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return keys

    def start_send(self, files, task="echo", user="anna", keys=None, central=None, more=(), environment=None):
        words = self.client_words("send", user, keys, central)
        return subprocess.Popen([*words, "--task", task, "--json", *map(str, more), *map(str, files)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})

    def send(self, files, seconds=120, **options):
        """Runs pi_client send; returns (exit code, [answer of each file as a dict], stderr)."""
        sender = self.start_send(files, **options)
        try:
            out, err = sender.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            sender.kill()
            sender.communicate()
            raise Failed(f"pi_client send: no end within {seconds} s\n{self.log()}") from None
        return sender.returncode, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err

    # -- what may be left

    def leftovers(self):
        """What is there although everything has been stopped: one line each."""
        left = [f"process {pid}: {words}" for pid, words in processes_of(str(self.state)).items()]
        run = self.state / "run"
        if run.exists():
            left += [f"socket {file}" for file in run.iterdir() if file.is_socket()]
            left += [f"process record {file}" for file in run.glob("*.json")]
        left += [f"shared memory /dev/shm/{name}" for name in sorted(set(os.listdir("/dev/shm")) - self.shm_before)
                 if "gearbox" in name and not OF_OTHERS.match(name)]
        # Memory that is passed lives as long as a process holds it; whoever holds some of ours would still run.
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                names = [os.readlink(descriptor) for descriptor in (entry / "fd").iterdir()]
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.state) in words and any("memfd:" in name for name in names):
                left.append(f"memfd held by process {entry.name}")
        return left
