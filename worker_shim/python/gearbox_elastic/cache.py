"""Arena: the cache of one rank, in shared memory that all ranks of the host map.

A unit is one layer, one kv head, 16 positions, keys then values: the same under every plan. Two tables beside the units map
(sequence's slot, layer, kv head, block) to a unit: one for the plan that runs, the other for the one that is being prepared.
They lie in shared memory, too, each with the epoch of its plan: whoever becomes the owner of a unit copies it straight from where
the old owner's table of the old epoch says.
Only its rank writes an arena.
"""
import mmap

import numpy as np

from .shape import BLOCK

NONE = -1
HEADER_BYTES = 4096


def arena_bytes(shape, slots, units):
    table = slots * shape.layers * shape.kv_heads * shape.blocks * 4
    return HEADER_BYTES + -(-2 * table // 4096) * 4096 + units * shape.unit_bytes


class Arena:
    """One mapping of it: `own` for the rank itself, which allocates; else to read."""

    def __init__(self, shape, slots, units, fd, own):
        self.shape, self.slots, self.units, self.own = shape, slots, units, own
        size = arena_bytes(shape, slots, units)
        # Others map it writable as well, since torch takes only such memory; they do not write.
        self._map = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.epochs = np.frombuffer(self._map, np.int64, 2)
        extent = (2, slots, shape.layers, shape.kv_heads, shape.blocks)
        self.tables = np.frombuffer(self._map, np.int32, int(np.prod(extent)), HEADER_BYTES).reshape(extent)
        self.data = np.frombuffer(self._map, np.float32, units * shape.unit_bytes // 4, size - units * shape.unit_bytes)
        self.by_unit = self.data.reshape(units, 2 * BLOCK * shape.head_size)
        self.turn = 0  # which table is the current one
        if own:
            self.epochs[:] = NONE
            self.reset()

    def reset(self):
        self.tables[:] = NONE
        self.free = np.ones(self.units, bool)
        self.free_count = self.units

    @property
    def table(self):
        return self.tables[self.turn]

    @property
    def next_table(self):
        return self.tables[1 - self.turn]

    def begin(self, epoch):
        """The current table is that of `epoch` from now on."""
        self.epochs[self.turn] = epoch

    def table_of(self, epoch):
        """Of another rank's arena, while that plan's cache has not been given up."""
        for turn in (0, 1):
            if self.epochs[turn] == epoch:
                return self.tables[turn]
        raise RuntimeError(f"an arena has no table of epoch {epoch}")

    def flip(self, epoch):
        """The prepared table becomes the current one; the old one stays readable until clear_next()."""
        self.turn = 1 - self.turn
        self.begin(epoch)

    def allocate(self, count):
        """The lowest free units. Errors: MemoryError; the driver counts, so that it never comes to that."""
        if count > self.free_count:
            raise MemoryError(f"the cache has {self.free_count} free units, {count} are needed")
        found = np.flatnonzero(self.free)[:count]
        self.free[found] = False
        self.free_count -= count
        return found

    def release(self, units):
        units = np.unique(units)
        units = units[units >= 0]
        self.free[units] = True
        self.free_count += len(units)

    def free_slot(self, slot):
        """Gives up all of a sequence, in both tables."""
        self.release(self.tables[:, slot])
        self.tables[:, slot] = NONE

    def clear_next(self):
        """Gives up what only the other table names: after a switch the old plan's, after an abort the prepared one's."""
        mine = np.zeros(self.units, bool)
        kept = self.table[self.table >= 0]
        mine[kept] = True
        others = self.next_table[self.next_table >= 0]
        self.release(others[~mine[others]])
        self.next_table[:] = NONE
        self.epochs[1 - self.turn] = NONE

    def largest_run(self):
        """The longest run of free units."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.free.astype(np.int8), [0]])))
        return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0

    def defragment(self, most=None):
        """Moves the used units to the front, the last ones first, at most `most` of them. Only while no step, copy or shift goes on. Returns how
        many were moved."""
        if not self.free[:self.units - int(np.count_nonzero(self.free))].any():
            return 0  # tidy already: seen without a look at the whole table
        table = self.table
        used = np.unique(table[table >= 0])
        away = used[used >= len(used)]  # those that lie beyond go to the holes before
        holes = np.setdiff1d(np.arange(len(used)), used)
        if most is not None and len(away) > most:
            away, holes = away[-most:], holes[:most]
        self.by_unit[holes] = self.by_unit[away]
        moved = np.arange(self.units)
        moved[away] = holes
        table[table >= 0] = moved[table[table >= 0]]
        self.free[away], self.free[holes] = True, False
        return len(away)

    def close(self):
        self.tables = self.data = self.by_unit = self.epochs = None
        try:
            self._map.close()
        except BufferError:  # a tensor still lies in it: the mapping goes with that
            pass
