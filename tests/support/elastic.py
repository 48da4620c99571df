"""For the tests of gearbox_elastic: golden data, random checkpoints, a group that several tests share, a reference decoder."""
import contextlib
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("GEARBOX_SOURCE", Path(__file__).resolve().parents[2]))
DATA = SOURCE.parent / "shared/data/llm"
LONG = os.environ.get("GEARBOX_LONG") == "1"
MOST_MARGIN = 1e-3  # two choices that are closer than that may change places by rounding

try:
    import torch  # noqa: F401
    import numpy as np
    HAS_TORCH = True
except ImportError:
    HAS_TORCH = False


def not_run(reason):
    print(f"NOT RUN: {reason}", flush=True)
    raise unittest.SkipTest(reason)


def need_torch():
    if not HAS_TORCH:
        not_run(f"{sys.executable} has no PyTorch")


def golden():
    """The lines of golden.jsonl."""
    need_torch()
    if not (DATA / "golden.jsonl").exists():
        not_run("../shared/data/llm is not there")
    with open(DATA / "golden.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def small_shape():
    """9 heads on 3 kv heads, as smollm2 has: an uneven split is needed for two ranks."""
    from gearbox_elastic.shape import ModelShape
    return ModelShape(dim=72, hidden=100, layers=4, heads=9, kv_heads=3, vocab=101, positions=200, ends=())


@contextlib.contextmanager
def random_checkpoint(shape, seed=1):
    from gearbox_elastic.random_checkpoint import write_random_checkpoint
    with tempfile.TemporaryDirectory(prefix="gearbox-elastic-") as folder:
        path = os.path.join(folder, "random.bin")
        write_random_checkpoint(path, shape, seed)
        yield path


def wait_for(what, limit=30):
    """Polls what nobody tells: states of processes, answers of another thread."""
    until = time.monotonic() + limit
    while not what():
        if time.monotonic() > until:
            raise AssertionError("it did not come about within the time")
        time.sleep(0.005)


def start(checkpoint, **options):
    """A running Driver; close() it."""
    from gearbox_elastic.driver import Driver
    from gearbox_elastic.options import Options
    # A busy machine is not silence: limits are short only where a test is about them.
    options = {"ranks": 4, "gear": 1, "cache_mb": 16, "price_limit_s": 30.0, "step_limit_s": 60.0, **options}
    return Driver(Options.of_dict({"checkpoint": str(checkpoint), **options})).start()


def request(line, **more):
    from gearbox_elastic.sequences import Request
    return Request(line["prompt_ids"], max_tokens=len(line["greedy_ids"]), **more)


class Differences:
    """Compares tokens with those expected; every difference is printed with its margin, and one above the bound is a failure."""

    def __init__(self, test):
        self.test, self.wrong = test, []

    def compare(self, name, got, expected, margins=None):
        """got: [(id, margin)]; margins: the reference's, where it has them."""
        if len(got) != len(expected):
            self.wrong.append(f"{name}: {len(got)} tokens, {len(expected)} expected")
        for place, ((token, margin), want) in enumerate(zip(got, expected)):
            if token == want:
                continue
            margin = margins[place] if margins is not None else margin
            print(f"difference: {name}: token {place} is {token}, expected {want}, margin {margin:.6f}", flush=True)
            if margin > MOST_MARGIN:
                self.wrong.append(f"{name}: token {place} is {token}, expected {want}, margin {margin:.6f}")
            return  # what follows an equal choice is another text

    def check(self):
        self.test.assertEqual(self.wrong, [])


class Reference:
    """The whole model in one process, float64, one sequence at a time: as slow and as plain as can be."""

    def __init__(self, path):
        from gearbox_elastic.checkpoint import open_checkpoint
        opened = open_checkpoint(path)
        self.shape = shape = opened.shape
        kv = shape.kv_heads * shape.head_size

        def rows(name, layer, count):
            return opened.rows(name, layer, 0, count).astype(np.float64)

        self.embedding = rows("embedding", 0, shape.vocab)
        self.classifier = rows("classifier", 0, shape.vocab)
        self.final_norm = opened.vector("final_norm").astype(np.float64)
        self.layers = [{"an": opened.vector("att_norm", n).astype(np.float64), "q": rows("wq", n, shape.dim), "k": rows("wk", n, kv),
                        "v": rows("wv", n, kv), "o": rows("wo", n, shape.dim), "fn": opened.vector("ffn_norm", n).astype(np.float64),
                        "1": rows("w1", n, shape.hidden), "2": rows("w2", n, shape.dim), "3": rows("w3", n, shape.hidden)}
                       for n in range(shape.layers)]
        opened.close()

    def _norm(self, x, weight):
        return x / np.sqrt((x * x).mean() + self.shape.norm_eps) * weight

    def _turn(self, x, position):
        size = self.shape.head_size
        angle = position / self.shape.rope_base ** (np.arange(0, size, 2) / size)
        pairs = x.reshape(-1, size // 2, 2)
        even, odd = pairs[..., 0], pairs[..., 1]
        return np.stack([even * np.cos(angle) - odd * np.sin(angle), even * np.sin(angle) + odd * np.cos(angle)], -1).reshape(-1, size)

    def _logits(self, token, position, cache):
        shape, x = self.shape, self.embedding[token]
        for layer, kept in zip(self.layers, cache):
            h = self._norm(x, layer["an"])
            q = self._turn(layer["q"] @ h, position)
            kept[0].append(self._turn(layer["k"] @ h, position))
            kept[1].append((layer["v"] @ h).reshape(-1, shape.head_size))
            keys, values = np.array(kept[0]), np.array(kept[1])
            out = []
            for head in range(shape.heads):
                scores = keys[:, head // shape.group] @ q[head] / np.sqrt(shape.head_size)
                weights = np.exp(scores - scores.max())
                out.append(weights / weights.sum() @ values[:, head // shape.group])
            x = x + layer["o"] @ np.concatenate(out)
            h = self._norm(x, layer["fn"])
            gate = layer["1"] @ h
            x = x + layer["2"] @ (gate / (1 + np.exp(-gate)) * (layer["3"] @ h))
        return self.classifier @ self._norm(x, self.final_norm)

    def generate(self, prompt, count, temperature=0.0, seed=0):
        """[(id, margin)]"""
        from gearbox_elastic.sampling import gumbel
        cache = [([], []) for _ in self.layers]
        for position, token in enumerate(prompt):
            logits = self._logits(token, position, cache)
        found = []
        while True:
            position = len(prompt) + len(found)
            values = logits if temperature == 0 else logits / temperature + gumbel([seed], [position], 0, len(logits))[0]
            best = int(values.argmax())
            found.append((best, float(values[best] - np.delete(values, best).max())))
            if len(found) == count:
                return found
            logits = self._logits(best, position, cache)
