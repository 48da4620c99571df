"""One rank's part of a step: embedding, layers, logits, by its slices, with the others' parts added by collectives. FP32."""
import numpy as np
import torch
from torch.nn.functional import linear, silu

from .attention import Layout, attend, combined
from .sampling import candidates
from .shape import BLOCK


def rotations(shape):
    """[positions, 1, head_size / 2] complex: what turns a pair of a query or key at each position."""
    half = np.arange(0, shape.head_size, 2, dtype=np.float64) / shape.head_size
    angles = np.arange(shape.positions)[:, None] / shape.rope_base ** half[None, :]
    return torch.from_numpy(np.exp(1j * angles).astype(np.complex64))[:, None, :]


class Decoder:
    """Threads: the rank's main thread."""

    def __init__(self, role, weights, links, turns):
        self.role, self.weights, self.links, self.turns = role, weights, links, turns

    def step(self, batch, arena):
        """The rows of `batch` through this rank's layers. Returns Sampled on a rank of the last stage, else None."""
        role, shape = self.role, self.role.shape
        rows = len(batch.slots)
        layout = Layout(batch, role, arena)
        x = self._embedded(batch) if role.first else self.links.receive(torch.empty(rows, shape.dim))
        turn = self.turns.index_select(0, torch.from_numpy(batch.positions.astype(np.int64)))
        flat = torch.from_numpy(arena.data)
        for number, layer in enumerate(self.weights.layers):
            x = x + self._attention(self._norm(x, layer.att_norm), number, layer, layout, turn, flat)
            x = x + self._feed(self._norm(x, layer.ffn_norm), layer)
        if not role.last:
            self.links.send(x)
            return None
        if not len(batch.sample):
            return candidates(np.zeros((0, role.vocab[1] - role.vocab[0]), np.float32), role.vocab[0], batch)
        picked = x if len(batch.sample) == rows else x.index_select(0, torch.from_numpy(batch.sample.astype(np.int64)))
        logits = linear(self._norm(picked, self.weights.final_norm), self.weights.classifier)
        return candidates(logits.numpy(), role.vocab[0], batch)

    def _norm(self, x, weight):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.role.shape.norm_eps) * weight

    def _embedded(self, batch):
        first, end = self.role.vocab
        tokens = torch.from_numpy(batch.tokens.astype(np.int64))
        if end - first == self.role.shape.vocab:
            return self.weights.embedding.index_select(0, tokens)
        if end == first:
            return self.links.all_reduce(torch.zeros(len(tokens), self.role.shape.dim))
        here = (tokens >= first) & (tokens < end)
        x = self.weights.embedding.index_select(0, (tokens - first).clamp(0, end - first - 1))
        return self.links.all_reduce(x * here[:, None])

    def _attention(self, x, number, layer, layout, turn, flat):
        role, shape = self.role, self.role.shape
        size, rows = shape.head_size, x.shape[0]
        heads, kv = role.heads[1] - role.heads[0], role.kv_heads[1] - role.kv_heads[0]
        qkv = linear(x, layer.qkv).view(rows, heads + 2 * kv, size)
        pairs = torch.view_as_complex(qkv[:, :heads + kv].reshape(rows, heads + kv, size // 2, 2))
        turned = torch.view_as_real(pairs * turn).view(rows, heads + kv, size)
        if layout.any_mine:
            keys, values = turned[:, heads:], qkv[:, heads + kv:]
            if layout.mine is not None:
                keys, values = keys.index_select(0, layout.mine), values.index_select(0, layout.mine)
            cells = flat.view(-1, size)
            cells.index_copy_(0, layout.write_keys[number], keys.reshape(-1, size))
            cells.index_copy_(0, layout.write_values[number], values.reshape(-1, size))
        out = attend(turned[:, :heads], number, layout, role, flat.view(-1, BLOCK * size))
        if role.parts > 1:
            out = combined(self.links.gather_positions(out), size)
        out = out.reshape(rows, heads * size)
        if role.columns != (0, heads * size):
            out = out[:, role.columns[0]:role.columns[1]]
        return self.links.all_reduce(linear(out, layer.wo))

    def _feed(self, x, layer):
        both = linear(x, layer.w13)
        half = both.shape[1] // 2
        return self.links.all_reduce(linear(silu(both[:, :half]) * both[:, half:], layer.w2))
