"""Weights in llama2.c's "legacy" file: a header of seven int32, then all matrices as float32.

The file is mapped, and what is asked for is copied out of it: a rank never holds more than its slices, and after close()
no page of the file is left in its memory.
"""
import mmap
import os
import struct

import numpy as np

from .shape import ModelShape

HEADER = struct.Struct("<7i")

# name → (first dimension, second dimension) by attribute of the shape; in the order of the file
MATRICES = ("embedding", "att_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "final_norm", "classifier")


def dimensions(shape, name):
    """(layers or 0, rows, columns) of a tensor; rows 0: it is a vector."""
    kv = shape.kv_heads * shape.head_size
    return {
        "embedding": (0, shape.vocab, shape.dim), "classifier": (0, shape.vocab, shape.dim),
        "att_norm": (shape.layers, 0, shape.dim), "ffn_norm": (shape.layers, 0, shape.dim), "final_norm": (0, 0, shape.dim),
        "wq": (shape.layers, shape.dim, shape.dim), "wk": (shape.layers, kv, shape.dim), "wv": (shape.layers, kv, shape.dim),
        "wo": (shape.layers, shape.dim, shape.dim), "w1": (shape.layers, shape.hidden, shape.dim),
        "w2": (shape.layers, shape.dim, shape.hidden), "w3": (shape.layers, shape.hidden, shape.dim),
    }[name]


def layout(shape):
    """{name: offset in floats behind the header} and the number of floats in all, the unused rope tables included."""
    at, found = 0, {}
    for name in MATRICES:
        layers, rows, columns = dimensions(shape, name)
        if name == "classifier":
            at += shape.positions * shape.head_size  # two tables of half a head each
            if shape.tied:
                found[name] = found["embedding"]
                continue
        found[name] = at
        at += max(layers, 1) * max(rows, 1) * columns
    return found, at


class Llama2Checkpoint:
    """Errors: ValueError, which names the file and what is wrong with it; OSError."""

    def __init__(self, path):
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(HEADER.size)
            if len(head) < HEADER.size:
                raise ValueError(f"{self.path}: {size} bytes are no checkpoint")
            dim, hidden, layers, heads, kv_heads, vocab, positions = HEADER.unpack(head)
            try:
                self.shape = ModelShape(dim, hidden, layers, heads, kv_heads, abs(vocab), positions, tied=vocab > 0)
            except (ValueError, ZeroDivisionError) as error:
                raise ValueError(f"{self.path}: {error}") from None
            self._offsets, floats = layout(self.shape)
            if size != HEADER.size + 4 * floats:
                raise ValueError(f"{self.path}: {size} bytes, its header wants {HEADER.size + 4 * floats}")
            self._map = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        self._floats = np.frombuffer(self._map, np.float32, floats, HEADER.size)

    def _tensor(self, name, layer):
        layers, rows, columns = dimensions(self.shape, name)
        size = max(rows, 1) * columns
        at = self._offsets[name] + (layer * size if layers else 0)
        return self._floats[at:at + size].reshape((rows, columns) if rows else (columns,))

    def vector(self, name, layer=0):
        return self._tensor(name, layer).copy()

    def rows(self, name, layer, first, end):
        """A copy of these rows, and of nothing else."""
        return self._tensor(name, layer)[first:end].copy()

    def columns(self, name, layer, first, end):
        return np.ascontiguousarray(self._tensor(name, layer)[:, first:end]).copy()

    def close(self):
        self._floats = None
        try:
            self._map.close()
        except BufferError:  # someone holds a view: the pages go with it
            pass


def open_checkpoint(path):
    """By what the file begins with: GGUF, or llama2.c's."""
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        from .gguf_checkpoint import GgufCheckpoint
        return GgufCheckpoint(path)
    return Llama2Checkpoint(path)
