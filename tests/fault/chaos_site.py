"""What the chaos runs on: models of numpy alone whose answers are known beforehand, in uploads, a pipeline and streams.

Each call writes a line to a ledger, so that a run which comes after its answer is seen. Standard library only.
"""
import hashlib
import re
import struct
import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import cluster  # noqa: E402

PIECES = 4
STORY = ROOT / "examples/stream/models/story/model.py"

RECORD = '''
name = "{name}"
version = "1"
framework = "numpy"
load_timeout_ms = 20000
{more}
'''
TENSOR = '''
[[{kind}]]
name = "{name}"
dtype = "{dtype}"
shape = [{shape}]
{more}
'''

# A picture's fingerprint; the ledger gets one line for each run: when, and of which picture.
MARK = '''
import hashlib
import os
import time

LEDGER = {ledger!r}


class Model:
    def load(self, record, device):
        self.ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def infer(self, batch):
        return [self.one(bytes(item["image"])) for item in batch]

    def one(self, image):
        text = hashlib.sha256(image).hexdigest()
        os.write(self.ledger, f"{{time.monotonic_ns()}} {{text}}\\n".encode())
        time.sleep({seconds})
        return {{"text": text}}
'''
CUT = '''
import numpy


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        return [{{"pieces": numpy.array_split(item["image"], {pieces})}} for item in batch]
'''

MARK_TASK = cluster.one_step_task("mark", ["text"])
PIECES_TASK = '''
summary = "the fingerprints of a picture's pieces and of the whole"

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1]

[[step]]
name = "each"
model = "mark"
inputs = {image = "cut.pieces"}
for_each = "image"

[[step]]
name = "cut"
model = "cut"
inputs = {image = "request.image"}

[[step]]
name = "whole"
model = "mark"
inputs = {image = "request.image"}

[result]
pieces = "each.text"
whole = "whole.text"
'''
TELL_TASK = '''
summary = "a story, part by part"

[[input]]
name = "prompt"
dtype = "UINT8"
shape = [-1]

[[step]]
name = "tell"
model = "{model}"
inputs = {{prompt = "request.prompt"}}

[result]
text = "tell.text"
'''
CONFIG = '''
[central]
listen = "tcp://127.0.0.1:{port}"
password_tries_per_minute = 1000

[node]
listen = "tcp://127.0.0.1:0"

[node.limits]
max_upload_mb = 16
input_arena_mb = 64
output_arena_mb = 16

[gears]
enabled = true

[env.plain]
python = "/usr/bin/python3"
'''
# Enough that a worker mostly lives for the ten seconds after which its pauses begin anew.
WORKERS = {"mark": 4, "cut": 2, "story": 2, "song": 2}


def tensor(kind, name, dtype="UINT8", shape=-1, more=""):
    return TENSOR.format(kind=kind, name=name, dtype=dtype, shape=shape, more=more)


def add_model(configs, name, code, tensors, more=""):
    folder = configs / "models" / name
    folder.mkdir(parents=True)
    (folder / "model.toml").write_text(RECORD.format(name=name, more=more) + "".join(tensors))
    (folder / "model.py").write_text(code)


def chaos_configs(folder, ledger, port):
    """`port`: central's; the node takes a free one, another after each restart."""
    image = tensor("input", "image", more="probe_shape = [16]")
    prompt = tensor("input", "prompt", more="probe_shape = [8]")
    add_model(folder, "mark", MARK.format(ledger=str(ledger), seconds=0.03), [image, tensor("output", "text", "BYTES", 1)])
    add_model(folder, "cut", CUT.format(pieces=PIECES), [image, tensor("output", "pieces", more="list = true")],
              "max_output_kb = 4096")
    for name, more in (("story", ""), ("song", "repeatable = true")):
        add_model(folder, name, STORY.read_text(), [prompt, tensor("output", "text")], "stream = true\nmax_output_kb = 64\n" + more)
    (folder / "tasks").mkdir()
    (folder / "plugins").mkdir()
    (folder / "tasks/mark.toml").write_text(MARK_TASK)
    (folder / "tasks/pieces.toml").write_text(PIECES_TASK)
    for name in ("story", "song"):
        (folder / f"tasks/{name}.toml").write_text(TELL_TASK.format(model=name))
    workers = "".join(f'\n[[worker]]\nmodel = "{name}"\nenv = "plain"\ncount = {count}\n' for name, count in WORKERS.items())
    (folder / "gearbox.toml").write_text(CONFIG.format(port=port) + workers)


# -- what the models must say

def fingerprint(data):
    return hashlib.sha256(data).hexdigest()


def fingerprints_of_pieces(data):
    """As numpy.array_split cuts."""
    short, longer = divmod(len(data), PIECES)
    ends = [0]
    for number in range(PIECES):
        ends.append(ends[-1] + short + (number < longer))
    return [fingerprint(data[begin:end]) for begin, end in zip(ends, ends[1:])]


WORDS = re.search(r'^WORDS = "([^"]*)"', STORY.read_text(), re.M)[1].split(" ")[:-1]


def story(words):
    return "".join(WORDS[number % len(WORDS)] + " " for number in range(words)).encode()


def npy(file, data):
    """A file that pi_client sends as a tensor of these bytes."""
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(data)},), }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
