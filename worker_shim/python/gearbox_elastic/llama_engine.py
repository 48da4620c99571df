"""LlamaEngine: a Llama-style decoder as an Engine."""
import ctypes
import os

import numpy as np
import torch

from .cache import Arena, arena_bytes
from .checkpoint import open_checkpoint
from .decoder import Decoder, rotations
from .engine import Engine, Moved, Price
from .role import Role, roles_of
from .shape import ModelShape
from .weights import Weights


_LIBC = ctypes.CDLL(None)


class Placement:
    """One plan as this rank sees it: all roles, its own (None: it idles), its weights and links."""

    def __init__(self, plan, epoch, shape, rank, links):
        self.plan, self.epoch, self.links = plan, epoch, links
        self.roles = roles_of(plan, shape)
        self.role = self.roles.get(rank)
        self.of_replica = {}
        for role in self.roles.values():
            self.of_replica.setdefault(role.replica, []).append(role)
        self.weights = self.decoder = None

    def load(self, checkpoint_path, turns, same=None):
        """`same`: a placement whose weights serve as well if they are the same slices."""
        if self.role is None:
            return
        if same is not None and same.role is not None and same.role.weights_key == self.role.weights_key:
            self.weights = same.weights
        else:
            checkpoint = open_checkpoint(checkpoint_path)
            try:
                self.weights = Weights(checkpoint, self.role)
            finally:
                checkpoint.close()
        self.decoder = Decoder(self.role, self.weights, self.links, turns)

    def close(self):
        if self.links is not None:
            self.links.close()
        self.weights = self.decoder = self.links = None


class LlamaEngine(Engine):
    @classmethod
    def shape_of(cls, checkpoint):
        opened = open_checkpoint(checkpoint)
        try:
            return opened.shape
        finally:
            opened.close()

    @classmethod
    def arena_bytes(cls, shape, slots, units):
        return arena_bytes(shape, slots, units)

    def __init__(self, settings, descriptor):
        torch.set_num_threads(1)  # ranks share the cores; between them there is nothing left for threads
        torch.set_grad_enabled(False)
        self.settings = settings
        self.rank = settings["rank"]
        self.shape = ModelShape.of_dict(settings["shape"])
        self.arena = Arena(self.shape, settings["slots"], settings["units"], descriptor, own=True)
        os.close(descriptor)
        self.arenas = {self.rank: self.arena}
        self.turns = rotations(self.shape)
        self.current = self.next = self.old = None
        self.cache_moved_bytes = 0

    def attach(self, rank, units, descriptor):
        before = self.arenas.pop(rank, None)
        if before is not None:
            before.close()
        self.arenas[rank] = Arena(self.shape, self.settings["slots"], units, descriptor, own=False)
        os.close(descriptor)

    def build(self, plan, epoch, links, keep):
        before = self.current
        self.abort()
        if self.old is not None:
            self.release()
        if not keep:
            self.arena.reset()
        self.current = Placement(plan, epoch, self.shape, self.rank, links)
        self.arena.begin(epoch)
        self.current.load(self.settings["checkpoint"], self.turns, before)
        if before is not None:
            before.close()

    def _role_in(self, placement, replica):
        role = placement.role
        return role if role is not None and role.replica == replica else None

    def price(self, plan, moves):
        role = Role(plan, self.rank, self.shape) if self.rank in plan.ranks else None
        current = self.current.role
        units = weight_bytes = buffers = 0
        if role is not None:
            if current is None or current.weights_key != role.weights_key:
                weight_bytes = role.weight_bytes()
            for move in moves:
                if move.new == role.replica:
                    units += role.units(move.first, move.end)
                    if current is not None and move.old == current.replica:
                        units -= role.shared_units(current, move.first, move.end)
            rows, shape = self.settings["step_rows"], self.shape
            widest = max(4 * shape.dim + 2 * (role.hidden[1] - role.hidden[0]), role.vocab[1] - role.vocab[0])
            buffers = 4 * rows * widest
        held = self.current.weights.bytes() if self.current.weights is not None else 0
        budget = self.settings["budget_bytes"]
        why = ""
        if budget and held + weight_bytes + buffers > budget:
            why = f"weights of {held} bytes and {weight_bytes} more with buffers of {buffers} do not fit into {budget}"
        elif units > self.arena.free_count:
            why = f"the cache has {self.arena.free_count} free units, {units} are needed"
        return Price(not why, why, weight_bytes, units, buffers, self.arena.free_count, self.arena.largest_run())

    def prepare(self, plan, epoch, links):
        placement = Placement(plan, epoch, self.shape, self.rank, links)
        placement.load(self.settings["checkpoint"], self.turns, self.current)
        self.next = placement

    def import_cache(self, moves, brought=None):
        moved = Moved()
        for (number, owner), data in (brought or {}).items():
            self._take_brought(moves[number], owner, data, moved)
        alike = {}
        for move in moves:
            if move.old >= 0 and self._role_in(self.next, move.new) is not None:
                alike.setdefault(move.old, []).append(move)
        for old, group in alike.items():
            self._take_over(old, group, moved)
        self.cache_moved_bytes += moved.bytes
        return moved

    def _take_over(self, old, moves, moved):
        """Blocks that this rank owns in the next plan and does not have there yet: its own stay where they are, others are copied.
        All sequences of one replica at once: the switch waits for it."""
        role, arena = self.next.role, self.arena
        slots = np.repeat([move.slot for move in moves], [move.end - move.first for move in moves])
        blocks = np.concatenate([np.arange(move.first, move.end) for move in moves])
        slots, blocks = slots[role.owned[blocks]], blocks[role.owned[blocks]]
        for owner in self.current.of_replica.get(old, ()):
            theirs = np.flatnonzero(owner.owned[blocks])
            layers = np.arange(max(role.layers[0], owner.layers[0]), min(role.layers[1], owner.layers[1]))
            heads = np.arange(max(role.kv_heads[0], owner.kv_heads[0]), min(role.kv_heads[1], owner.kv_heads[1]))
            if not len(theirs) or not len(layers) or not len(heads) or owner.rank not in self.arenas:
                continue  # nothing in common; or it came from another host
            place = (slots[theirs, None, None], layers[None, :, None], heads[None, None, :], blocks[theirs, None, None])
            source = self.arenas[owner.rank]
            units, to = source.table_of(self.current.epoch)[place], arena.next_table[place]
            wanted = (to < 0) & (units >= 0) & (units < source.units)  # the source's table is not ours: it is checked
            if owner.rank == self.rank:
                to[wanted] = units[wanted]
            else:
                to[wanted] = arena.allocate(int(np.count_nonzero(wanted)))
                arena.by_unit[to[wanted]] = source.by_unit[units[wanted]]
                moved.units += int(np.count_nonzero(wanted))
                moved.bytes += int(np.count_nonzero(wanted)) * self.shape.unit_bytes
            arena.next_table[place] = to

    @staticmethod
    def _common(move, owner, role):
        """The cells of a table that one role has now and the other will have, as an index; both ranks work it out in the same order."""
        blocks = np.arange(move.first, move.end)
        blocks = blocks[owner.owned[blocks] & role.owned[blocks]]
        layers = np.arange(max(role.layers[0], owner.layers[0]), min(role.layers[1], owner.layers[1]))
        heads = np.arange(max(role.kv_heads[0], owner.kv_heads[0]), min(role.kv_heads[1], owner.kv_heads[1]))
        return move.slot, layers[:, None, None], heads[None, :, None], blocks[None, None, :]

    def export_cache(self, move, rank):
        """A bit for each common cell: is there a unit? Then those units."""
        units = self.arena.table[self._common(move, self.current.role, self.next.roles[rank])]
        there = units >= 0
        return np.packbits(there).tobytes() + self.arena.by_unit[units[there]].tobytes()

    def _take_brought(self, move, owner, data, moved):
        arena = self.arena
        place = self._common(move, self.current.roles[owner], self.next.role)
        to = arena.next_table[place]
        bits = -(-to.size // 8)
        there = np.unpackbits(np.frombuffer(data, np.uint8, bits), count=to.size).astype(bool).reshape(to.shape)
        count = int(np.count_nonzero(there))
        if len(data) != bits + count * self.shape.unit_bytes:
            raise ValueError(f"rank {owner} has sent {len(data)} bytes of cache, {bits + count * self.shape.unit_bytes} are due")
        units = np.frombuffer(data, np.float32, -1, bits).reshape(count, arena.by_unit.shape[1])
        wanted = (to < 0) & there
        to[wanted] = arena.allocate(int(np.count_nonzero(wanted)))
        arena.by_unit[to[wanted]] = units[wanted[there]]
        arena.next_table[place] = to
        moved.units += int(np.count_nonzero(wanted))
        moved.bytes += int(np.count_nonzero(wanted)) * self.shape.unit_bytes

    def switch(self, moves, brought=None):
        moved = self.import_cache(moves, brought)
        self.old, self.current, self.next = self.current, self.next, None
        self.arena.flip(self.current.epoch)
        return moved

    def release(self):
        self.arena.clear_next()
        if self.old is not None:
            self.old.close()
            self.old = None
            _LIBC.malloc_trim(0)  # the allocator would keep what the old slices took for itself

    def abort(self):
        if self.next is not None:
            self.arena.clear_next()
            self.next.close()
            self.next = None

    def free(self, slots):
        for slot in slots:
            self.arena.free_slot(slot)

    def step(self, batch):
        return self.current.decoder.step(batch, self.arena)

    def defragment(self, most=None):
        return self.arena.defragment(most)

    def figures(self):
        placements = [place for place in (self.current, self.next, self.old) if place is not None]
        storages = {id(place.weights): place.weights.bytes() for place in placements if place.weights is not None}
        return {"rank": self.rank, "pid": os.getpid(), "weight_bytes": sum(storages.values()),
                "moved_bytes": sum(place.links.moved_bytes for place in placements if place.links is not None),
                "cache_moved_bytes": self.cache_moved_bytes, "units": self.arena.units, "free_units": self.arena.free_count,
                "largest_run": self.arena.largest_run()}
