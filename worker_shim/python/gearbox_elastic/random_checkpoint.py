"""A checkpoint of random weights, the same for the same seed: for tests and demos where no trained one is at hand."""
import os
import tempfile

import numpy as np

from .checkpoint import HEADER, MATRICES, dimensions

SCALE = {"embedding": 1.0, "wo": 0.5, "w2": 0.5}  # of 1/sqrt(columns): logits then spread by a few units, and choices are clear


def write_random_checkpoint(path, shape, seed):
    """Writes llama2.c's format, whole or not at all: into a file beside `path`, which then takes its name."""
    random = np.random.default_rng(seed)
    folder = os.path.dirname(os.path.abspath(path))
    handle, beside = tempfile.mkstemp(prefix=".checkpoint-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            vocab = shape.vocab if shape.tied else -shape.vocab
            file.write(HEADER.pack(shape.dim, shape.hidden, shape.layers, shape.heads, shape.kv_heads, vocab, shape.positions))
            for name in MATRICES:
                layers, rows, columns = dimensions(shape, name)
                if name == "classifier":
                    file.write(bytes(4 * shape.positions * shape.head_size))
                    if shape.tied:
                        continue
                for _ in range(max(layers, 1)):
                    if rows == 0:
                        values = np.ones(columns, np.float32)
                    else:
                        values = random.standard_normal((rows, columns), np.float32)
                        values *= np.float32(SCALE.get(name, 1.0) / np.sqrt(columns))
                    file.write(values.tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
