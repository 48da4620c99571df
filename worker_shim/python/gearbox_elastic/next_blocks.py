"""NextBlocks: the cache of the plan that is being prepared, counted beside that of the plan that runs.

Each running sequence gets a replica of the next plan; what its new owners have copied already is `imported`. A block that is full
never changes again, so it can be copied while the sequence goes on; only the last, open one has to wait for the switch.
"""
from .engine import Move
from .role import roles_of


class NextBlocks:
    """Threads: the driver's."""

    def __init__(self, group, plan, sequences):
        self.group, self.plan = group, plan
        self.roles = roles_of(plan, group.shape)
        self.load = [0.0] * len(plan.replicas)
        for sequence in sorted(sequences, key=lambda each: (-each.blocks, each.number)):
            self.joined(sequence)

    def joined(self, sequence):
        """A replica for it: the least loaded; of equal ones where most of its cache is already."""
        def price(number):
            replica = self.plan.replicas[number]
            kept = sum(self.roles[rank].shared_units(self.group.roles[rank], 0, sequence.blocks) for rank in replica.ranks
                       if rank in self.group.roles and self.group.roles[rank].replica == sequence.replica)
            return (round((self.load[number] + 1) / replica.weight, 6), -kept)
        sequence.next_replica = min(range(len(self.plan.replicas)), key=price)
        sequence.imported = 0
        self.load[sequence.next_replica] += 1

    def left(self, sequence):
        self._count(sequence, 0, sequence.imported, -1, self.group.extra)
        self.load[sequence.next_replica] -= 1
        sequence.imported, sequence.next_replica = 0, -1

    def _count(self, sequence, first, end, sign, into):
        """Units of these blocks that the next owners do not have by the plan that runs."""
        if end <= first:
            return
        for rank in self.plan.replicas[sequence.next_replica].ranks:
            role, now = self.roles[rank], self.group.roles.get(rank)
            units = role.units(first, end)
            if now is not None and now.replica == sequence.replica:
                units -= role.shared_units(now, first, end)
            into[rank] += sign * units

    def moves(self, sequences, most_units):
        """Moves of full blocks that are still to be imported, counted as taken; about `most_units` at once, so that steps go between."""
        found, budget = [], most_units
        for sequence in sequences:
            if budget <= 0:
                break
            if sequence.full_blocks > sequence.imported:
                per_block = self.group.shape.layers * self.group.shape.kv_heads
                end = min(sequence.full_blocks, sequence.imported + max(1, budget // per_block))
                need = [0] * len(self.group.used)
                self._count(sequence, sequence.imported, end, 1, need)
                if any(units + self.group.used[rank] + self.group.extra[rank] > self.group.units for rank, units in enumerate(need)):
                    continue  # no room now: the switch decides
                for rank, units in enumerate(need):
                    self.group.extra[rank] += units
                found.append(Move(sequence.slot, sequence.replica, sequence.next_replica, sequence.imported, end))
                budget -= (end - sequence.imported) * per_block
                sequence.imported = end
        return found

    def missing_room(self, sequences, spare):
        """A rank that lacks room for all blocks (and `spare` more of each sequence) beside what it holds: (rank, units); or None."""
        need = [0] * len(self.group.used)
        for sequence in sequences:
            end = min(sequence.blocks + spare, self.group.shape.blocks)
            self._count(sequence, sequence.imported, max(end, sequence.imported), 1, need)
        for rank, units in enumerate(need):
            over = self.group.used[rank] + self.group.extra[rank] + units - self.group.units
            if over > 0:
                return rank, over
        return None

    def moves_left(self, sequences):
        """What is not imported yet, of whole sequences: blocks that stay where they are have to be named, too."""
        return [Move(each.slot, each.replica, each.next_replica, each.imported, each.blocks) for each in sequences]

    def old_units(self, sequences):
        """Of each rank: units that only the plan that runs needs."""
        found = [0] * len(self.group.used)
        for sequence in sequences:
            for rank in self.group.replicas[sequence.replica].ranks:
                now, role = self.group.roles[rank], self.roles.get(rank)
                units = now.units(0, sequence.blocks)
                if role is not None and role.replica == sequence.next_replica:
                    units -= now.shared_units(role, 0, sequence.blocks)
                found[rank] += units
        return found
