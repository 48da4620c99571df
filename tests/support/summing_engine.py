"""SummingEngine: as small as an engine can be. Its "model" says the sum of all tokens so far, each times its place; its cache is
what it has to add up. It has no weights, but it has every split, and it shifts: for the tests of the interface.
"""
import mmap
import os

import numpy as np
import torch

from gearbox_elastic.engine import Engine, Moved, Price
from gearbox_elastic.role import roles_of
from gearbox_elastic.sampling import candidates
from gearbox_elastic.shape import BLOCK, ModelShape

SHAPE = ModelShape(dim=8, hidden=16, layers=4, heads=4, kv_heads=4, vocab=97, positions=256, ends=())


def expected(prompt, count):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(sum(token * (place % 5 + 1) for place, token in enumerate(tokens)) % SHAPE.vocab)
    return tokens[len(prompt):]


class SummingEngine(Engine):
    @classmethod
    def shape_of(cls, checkpoint):
        return SHAPE

    @classmethod
    def arena_bytes(cls, shape, slots, units):
        return slots * SHAPE.blocks * BLOCK * 8

    def _map(self, descriptor):
        size = self.arena_bytes(SHAPE, self.slots, 0)
        mapped = np.frombuffer(mmap.mmap(descriptor, size), np.int64).reshape(self.slots, SHAPE.blocks * BLOCK)
        os.close(descriptor)
        return mapped

    def __init__(self, settings, descriptor):
        torch.set_num_threads(1)
        self.rank, self.slots, self.shape = settings["rank"], settings["slots"], SHAPE
        self.arenas = {self.rank: self._map(descriptor)}
        self.roles = self.links = self.next = self.old = None
        self.moved = 0

    def attach(self, rank, units, descriptor):
        self.arenas[rank] = self._map(descriptor)

    def build(self, plan, epoch, links, keep):
        self.abort()
        self.release()
        if self.links is not None:
            self.links.close()
        self.roles, self.links = roles_of(plan, SHAPE), links

    def price(self, plan, moves):
        return Price(True, "", 0, 0, 0, 0, 0)

    def prepare(self, plan, epoch, links):
        self.next = (roles_of(plan, SHAPE), links)

    @staticmethod
    def owner(roles, replica, block):
        """The one rank that has a block: of the first stage and the first head."""
        return next(role.rank for role in roles.values()
                    if role.replica == replica and role.first and role.kv_heads[0] == 0 and role.owned[block])

    def import_cache(self, moves, brought=None):
        moved = Moved()
        for number, move in enumerate(moves):
            came = {}
            for block in range(move.first, move.end) if move.old >= 0 else ():
                old = self.owner(self.roles, move.old, block)
                if self.owner(self.next[0], move.new, block) == self.rank != old:
                    place = (move.slot, slice(block * BLOCK, block * BLOCK + BLOCK))
                    if old in self.arenas:
                        self.arenas[self.rank][place] = self.arenas[old][place]
                    else:  # on another host
                        blocks = came.setdefault(old, np.frombuffer(brought[number, old], np.int64).reshape(-1, BLOCK).copy())
                        self.arenas[self.rank][place] = blocks[0]
                        came[old] = blocks[1:]
                    moved.units, moved.bytes = moved.units + 1, moved.bytes + 8 * BLOCK
        self.moved += moved.bytes
        return moved

    def export_cache(self, move, rank):
        return b"".join(self.arenas[self.rank][move.slot, block * BLOCK:block * BLOCK + BLOCK].tobytes()
                        for block in range(move.first, move.end)
                        if self.owner(self.roles, move.old, block) == self.rank and self.owner(self.next[0], move.new, block) == rank)

    def switch(self, moves, brought=None):
        moved = self.import_cache(moves, brought)
        self.old = self.links
        (self.roles, self.links), self.next = self.next, None
        return moved

    def release(self):
        if self.old is not None:
            self.old.close()
            self.old = None

    def abort(self):
        if self.next is not None and self.next[1] is not None:
            self.next[1].close()
        self.next = None

    def free(self, slots):
        self.arenas[self.rank][slots] = -1

    def step(self, batch):
        role, own = self.roles[self.rank], self.arenas[self.rank]
        x = torch.zeros(len(batch.slots), 1)
        if role.first:
            if role.kv_heads[0] == 0:
                for row, (slot, token, position) in enumerate(zip(batch.slots, batch.tokens, batch.positions)):
                    if role.owned[position // BLOCK]:
                        own[slot, position] = token * (position % 5 + 1)
                    places = np.arange(position + 1)
                    x[row] = float(own[slot, places[role.owned[places // BLOCK]]].sum())
            x = self.links.all_reduce(x)
        else:
            x = self.links.receive(x)
        if not role.last:
            self.links.send(x)
            return None
        ids = x[batch.sample.astype(np.int64), 0].numpy().astype(np.int64) % SHAPE.vocab
        logits = (np.arange(*role.vocab)[None, :] == ids[:, None]).astype(np.float32)
        return candidates(logits, role.vocab[0], batch)

    def defragment(self, most=None):
        return 0

    def figures(self):
        return {"rank": self.rank, "cache_moved_bytes": self.moved}
