"""Weights in GGUF, architecture `llama`, through the package `gguf`. Quantised ones (Q8_0, Q4_1 ...) become FP32, slice by slice.

Reading a GGUF file's head takes a second where it has a large vocabulary, so a process does it once; tensors are then mapped
and let go of each time.
"""
import os

import numpy as np

from .shape import ModelShape

NAMES = {"embedding": "token_embd.weight", "classifier": "output.weight", "final_norm": "output_norm.weight",
         "att_norm": "blk.{}.attn_norm.weight", "wq": "blk.{}.attn_q.weight", "wk": "blk.{}.attn_k.weight",
         "wv": "blk.{}.attn_v.weight", "wo": "blk.{}.attn_output.weight", "ffn_norm": "blk.{}.ffn_norm.weight",
         "w1": "blk.{}.ffn_gate.weight", "w2": "blk.{}.ffn_down.weight", "w3": "blk.{}.ffn_up.weight"}
AT_ONCE = 512  # rows that are made FP32 at once to take columns of them


def gguf_package():
    """Errors: ValueError, which tells how to get it."""
    try:
        import gguf
    except ImportError as error:
        raise ValueError(f"a GGUF file needs the Python package gguf ({error}); the environment llm has it: "
                         "scripts/setup --with llm") from None
    return gguf


class Head:
    """What a file says before its tensors. Errors of head_of(): ValueError, which names the file."""

    def __init__(self, path):
        gguf = gguf_package()
        try:
            reader = gguf.GGUFReader(path)
            self.fields = {name: field for name, field in reader.fields.items()}
        except Exception as error:  # the package raises all kinds of them on damaged files
            raise ValueError(f"{path}: no good GGUF file: {type(error).__name__}: {error}") from None
        self.tensors = {t.name: (t.tensor_type, int(t.data_offset), int(t.n_bytes), tuple(int(n) for n in t.shape))
                        for t in reader.tensors}
        try:
            self.shape = self._shape()
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None
        self._check(path)

    def value(self, name, default=None):
        if name in self.fields:
            return self.fields[name].contents()
        if default is None:
            raise KeyError(f"it has no {name}")
        return default

    def _shape(self):
        architecture = self.value("general.architecture")
        if architecture != "llama":
            raise ValueError(f"its architecture is {architecture!r}; only 'llama' can be run")
        dim, heads = self.value("llama.embedding_length"), self.value("llama.attention.head_count")
        if self.value("llama.rope.dimension_count", dim // heads) != dim // heads:
            raise ValueError("its rotary positions turn a part of each head; only whole heads can be run")
        end = int(self.value("tokenizer.ggml.eos_token_id", 2))
        return ModelShape(
            dim, self.value("llama.feed_forward_length"), self.value("llama.block_count"), heads,
            self.value("llama.attention.head_count_kv", heads), self.tensors["token_embd.weight"][3][1],
            self.value("llama.context_length"), float(self.value("llama.rope.freq_base", 10000.0)),
            float(self.value("llama.attention.layer_norm_rms_epsilon", 1e-5)), int(self.value("tokenizer.ggml.bos_token_id", 1)),
            (end,), "output.weight" not in self.tensors)

    def _check(self, path):
        from .checkpoint import dimensions
        for name, pattern in NAMES.items():
            if name == "classifier" and self.shape.tied:
                continue
            layers, rows, columns = dimensions(self.shape, name)
            for layer in range(max(layers, 1)):
                wanted = (columns, rows) if rows else (columns,)
                found = self.tensors.get(pattern.format(layer), (None, 0, 0, None))[3]
                if found != wanted:
                    raise ValueError(f"{path}: {pattern.format(layer)} is {found}, {wanted} is due")


_heads = {}


def head_of(path):
    state = os.stat(path)
    key = (os.path.abspath(path), state.st_size, state.st_mtime_ns)
    if key not in _heads:
        _heads.clear()
        _heads[key] = Head(path)
    return _heads[key]


class GgufCheckpoint:
    """As Llama2Checkpoint."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._head = head_of(self.path)
        self.shape = self._head.shape
        self._gguf = gguf_package()
        self._map = np.memmap(self.path, np.uint8, "r")

    def _rows(self, name, layer, first, end):
        if name == "classifier" and self.shape.tied:
            name = "embedding"
        kind, offset, size, shape = self._head.tensors[NAMES[name].format(layer)]
        count = shape[1] if len(shape) > 1 else 1
        width = size // count
        raw = self._map[offset + first * width:offset + end * width].reshape(end - first, width)
        types = self._gguf.GGMLQuantizationType
        if kind == types.F32:
            return np.array(raw).view(np.float32)
        if kind == types.F16:
            return np.array(raw).view(np.float16).astype(np.float32)
        if end == first:
            return np.empty((0, shape[0]), np.float32)
        from gguf.quants import dequantize
        try:
            return np.ascontiguousarray(dequantize(np.array(raw), kind), np.float32).reshape(end - first, shape[0])
        except NotImplementedError:
            raise ValueError(f"{self.path}: {NAMES[name].format(layer)} is {types(kind).name}, which cannot be read") from None

    def vector(self, name, layer=0):
        return self._rows(name, layer, 0, 1).reshape(-1).copy()

    def rows(self, name, layer, first, end):
        return self._rows(name, layer, first, end)

    def columns(self, name, layer, first, end):
        from .checkpoint import dimensions
        _, rows, _ = dimensions(self.shape, name)
        found = np.empty((rows, end - first), np.float32)
        for at in range(0, rows, AT_ONCE):
            until = min(at + AT_ONCE, rows)
            found[at:until] = self._rows(name, layer, at, until)[:, first:end]
        return found

    def close(self):
        self._map = None
