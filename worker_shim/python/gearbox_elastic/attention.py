"""Attention over paged cache: gathers the blocks that this rank owns, for groups of sequences with about as many rows each.

On small models the cost of a step is the number of calls, so all that depends on the step alone and not on the layer is worked out
once (Layout). Products of many small matrices go through numpy, which has a fifth of torch's cost for them.
"""
import numpy as np
import torch

from .shape import BLOCK

FAR = -1e30  # a masked score: finite, so that a row which sees nothing here gives zeros and no NaN


class Group:
    """Sequences of one bucket: `rows` [sequences, n] are the batch's row numbers, padded by repeating the last one."""
    __slots__ = ("rows", "n", "identity", "inverse", "keys", "values", "mask", "blocks")


class Layout:
    """What one step's rows need of the cache, for every layer of the role."""

    def __init__(self, batch, role, arena):
        table = arena.table[:, role.layers[0]:role.layers[1], role.kv_heads[0]:role.kv_heads[1], :]
        self.rows = len(batch.slots)
        blocks = batch.positions // BLOCK
        mine = np.flatnonzero(role.owned[blocks])
        units = table[batch.slots[mine], :, :, blocks[mine]].astype(np.int64)  # [mine, layers, heads]
        if (units < 0).any():
            self._allocate(batch.slots[mine], blocks[mine], table, arena)
            units = table[batch.slots[mine], :, :, blocks[mine]].astype(np.int64)
        at = (units * 2) * BLOCK + (batch.positions[mine] % BLOCK)[:, None, None]
        self.mine = None if len(mine) == self.rows else torch.from_numpy(mine)
        self.any_mine = len(mine) > 0
        at = np.ascontiguousarray(at.transpose(1, 0, 2)).reshape(len(self._layers(role)), -1)
        self.write_keys = torch.from_numpy(at)
        self.write_values = torch.from_numpy(at + BLOCK)
        self.groups = self._groups(batch, role, table)

    @staticmethod
    def _layers(role):
        return range(*role.layers)

    @staticmethod
    def _allocate(slots, blocks, table, arena):
        for slot, block in np.unique(np.stack([slots, blocks]), axis=1).T:
            cells = table[slot, :, :, block]
            cells[cells < 0] = arena.allocate(int(np.count_nonzero(cells < 0)))

    def _groups(self, batch, role, table):
        starts = np.flatnonzero(np.concatenate([[True], batch.slots[1:] != batch.slots[:-1]]))
        counts = np.diff(np.concatenate([starts, [self.rows]]))
        buckets = np.where(counts == 1, 0, np.ceil(np.log2(counts)).astype(int))
        return [self._group(batch, role, table, starts[buckets == bucket], counts[buckets == bucket])
                for bucket in np.unique(buckets)]

    def _group(self, batch, role, table, starts, counts):
        group = Group()
        group.n = n = int(counts.max())
        steps = np.minimum(np.arange(n)[None, :], counts[:, None] - 1)
        rows = starts[:, None] + steps
        group.identity = n == 1 and len(starts) == self.rows
        group.rows = None if group.identity else torch.from_numpy(rows.reshape(-1))
        real = np.arange(n)[None, :] < counts[:, None]
        group.inverse = None if group.identity else (torch.from_numpy(rows[real]), torch.from_numpy(np.flatnonzero(real)))
        positions = batch.positions[rows]
        last = int(positions.max()) // BLOCK + 1
        blocks = np.flatnonzero(role.owned[:last])
        group.blocks = len(blocks)
        if not group.blocks:
            group.keys = group.values = group.mask = None
            return group
        units = table[batch.slots[starts]][..., blocks]  # [sequences, layers, heads, blocks]
        units = np.ascontiguousarray(np.maximum(units, 0).astype(np.int64).transpose(1, 0, 2, 3)).reshape(units.shape[1], -1) * 2
        group.keys = torch.from_numpy(units)
        group.values = torch.from_numpy(units + 1)
        seen = (blocks[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
        hidden = seen[None, None, :] > positions[:, :, None]  # [sequences, n, T]
        mask = np.where(hidden, np.float32(FAR), np.float32(0))
        wide = np.repeat(mask, role.shape.group, axis=1)  # [sequences, n * group, T]
        group.mask = wide[:, None]
        return group


def attend(queries, layer, layout, role, arena_rows):
    """Attention of all rows: (out [rows, heads, head_size], greatest [rows, heads], sum [rows, heads]); `out` is already divided by
    `sum` unless the positions are shared. arena_rows: the arena as [2 * units, BLOCK * head_size]."""
    shape = role.shape
    kv = role.kv_heads[1] - role.kv_heads[0]
    size, share = shape.head_size, role.parts > 1
    scale = np.float32(size ** -0.5)
    whole = None
    for group in layout.groups:
        q = queries if group.identity else queries.index_select(0, group.rows)
        sequences = q.shape[0] // group.n
        q = q.reshape(sequences, group.n, kv, shape.group, size).transpose(1, 2).reshape(sequences, kv, group.n * shape.group, size)
        if group.blocks:
            keys = arena_rows.index_select(0, group.keys[layer]).view(sequences, kv, -1, size)
            values = arena_rows.index_select(0, group.values[layer]).view(sequences, kv, -1, size)
            scores = np.matmul(q.numpy(), keys.numpy().swapaxes(2, 3))
            scores *= scale
            scores += group.mask
            greatest = scores.max(-1, keepdims=True)
            scores -= greatest
            np.exp(scores, out=scores)
            total = scores.sum(-1, keepdims=True)
            out = np.matmul(scores, values.numpy())
            if not share:
                out /= total
        else:
            out = np.zeros(q.shape, np.float32)
            greatest = np.full(q.shape[:3] + (1,), FAR, np.float32)
            total = np.zeros_like(greatest)
        packed = np.concatenate([out, greatest, total], -1) if share else out
        width = packed.shape[-1]
        packed = packed.reshape(sequences, kv, group.n, shape.group, width).swapaxes(1, 2).reshape(-1, kv * shape.group, width)
        packed = torch.from_numpy(packed)
        if group.identity:
            return packed
        if whole is None:
            whole = torch.empty(layout.rows, kv * shape.group, width)
        whole[group.inverse[0]] = packed[group.inverse[1]]
    return whole


def combined(parts, size):
    """The attention of ranks that share the positions, put together: parts [ranks, rows, heads, size + 2] → [rows, heads, size]."""
    out, greatest, total = parts[..., :size], parts[..., size:size + 1], parts[..., size + 1:]
    weight = torch.exp(greatest - greatest.amax(0))
    return (out * weight).sum(0) / (total * weight).sum(0)
