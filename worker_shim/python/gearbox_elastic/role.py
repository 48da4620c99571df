"""Role: what one rank has to do in one plan, worked out from the plan: its slices, its peers, the cache units it owns."""
import numpy as np

from .plan import even, ranges


class Topology:
    """Groups and channels of a plan, numbered in the same way by the driver and by every rank."""

    def __init__(self, plan):
        self.groups = []    # lists of ranks, in the order in which they add
        self.channels = []  # (from rank, to rank)
        for replica in plan.replicas:
            for s, stage in enumerate(replica.stages):
                numbers = [part.rank for part in stage.ranks]
                if len(numbers) > 1:
                    self.groups.append(("stage", tuple(numbers)))
                shared = {}
                for part in stage.ranks:
                    shared.setdefault(part.kv_heads, []).append(part)
                for parts in shared.values():
                    if len(parts) > 1:
                        parts = sorted(parts, key=lambda part: part.part)
                        self.groups.append(("positions", tuple(part.rank for part in parts)))
                if s + 1 < len(replica.stages):
                    after = [part.rank for part in replica.stages[s + 1].ranks]
                    self.channels += [(numbers[i % len(numbers)], to) for i, to in enumerate(after)]

    def group_of(self, kind, rank):
        """(number, this rank's place) or None."""
        for number, (what, members) in enumerate(self.groups):
            if what == kind and rank in members:
                return number, members.index(rank)
        return None


def pattern(weights):
    """Which part has which block of a round: spread evenly, so that also a short sequence is shared out."""
    due, order = [0.0] * len(weights), []
    for _ in range(sum(weights)):
        due = [value + weight for value, weight in zip(due, weights)]
        part = max(range(len(weights)), key=lambda i: (due[i], -i))
        due[part] -= sum(weights)
        order.append(part)
    return order


class Role:
    def __init__(self, plan, rank, shape):
        self.rank, self.shape = rank, shape
        for number, replica in enumerate(plan.replicas):
            for s, stage in enumerate(replica.stages):
                for part in stage.ranks:
                    if part.rank == rank:
                        self._take(number, replica, s, stage, part)
                        return
        raise KeyError(rank)

    def _take(self, number, replica, s, stage, part):
        shape = self.shape
        self.replica, self.stage = number, s
        self.first, self.last = s == 0, s == len(replica.stages) - 1
        self.layers, self.kv_heads, self.hidden, self.vocab = stage.layers, part.kv_heads, part.hidden, part.vocab
        self.heads = (part.kv_heads[0] * shape.group, part.kv_heads[1] * shape.group)
        self.part, self.parts = part.part, len(part.weights)
        # Those that share positions have the same heads: each takes some columns of what attention gives, so none is added twice.
        width = (self.heads[1] - self.heads[0]) * shape.head_size
        first, end = ranges(even(width, part.weights))[part.part]
        self.columns = (first, end)  # within its own heads
        order = pattern(part.weights)
        self.owned = np.array([order[b % len(order)] == part.part for b in range(shape.blocks)], bool)
        self._owned_before = np.concatenate([[0], np.cumsum(self.owned)])
        self.units_of_block = (self.layers[1] - self.layers[0]) * (self.kv_heads[1] - self.kv_heads[0])

    @property
    def weights_key(self):
        """Two roles with the same key hold the same weights."""
        return (self.layers, self.kv_heads, self.hidden, self.vocab, self.columns, self.first, self.last)

    def units(self, first, end):
        """Cache units that it owns of a sequence's blocks `first` to `end`."""
        return int(self._owned_before[end] - self._owned_before[first]) * self.units_of_block

    def shared_units(self, other, first, end):
        """Units of these blocks that both own."""
        layers = min(self.layers[1], other.layers[1]) - max(self.layers[0], other.layers[0])
        heads = min(self.kv_heads[1], other.kv_heads[1]) - max(self.kv_heads[0], other.kv_heads[0])
        if layers <= 0 or heads <= 0:
            return 0
        return int(np.count_nonzero(self.owned[first:end] & other.owned[first:end])) * layers * heads

    def weight_bytes(self):
        """What it holds of the model, FP32. A tied classifier is the embedding's own slice."""
        shape, size = self.shape, self.shape.head_size
        layers = self.layers[1] - self.layers[0]
        heads = (self.heads[1] - self.heads[0]) + 2 * (self.kv_heads[1] - self.kv_heads[0])
        layer = shape.dim * (heads * size + (self.columns[1] - self.columns[0]) + 3 * (self.hidden[1] - self.hidden[0]) + 2)
        vocab = (self.vocab[1] - self.vocab[0]) * shape.dim
        matrices = (1 if shape.tied else 2) if self.first and self.last else 1 if self.first or self.last else 0
        return 4 * (layers * layer + matrices * vocab + (shape.dim if self.last else 0))


def roles_of(plan, shape):
    """{rank: Role} of those that have a part in it."""
    return {rank: Role(plan, rank, shape) for rank in plan.ranks}
