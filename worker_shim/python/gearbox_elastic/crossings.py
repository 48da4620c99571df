"""Cache that goes from a host to another one in a change of plan: no memory is shared there, so the driver asks the owners for it and
hands it to those who take it over.
"""
from .wire import packed


class Crossings:
    """For some moves: what is asked of whom, and what has come. Threads: the driver's."""

    def __init__(self, group, plan, roles, moves):
        """`roles`: of the next plan."""
        self.moves = moves
        self._asked = {}    # owner → [(number of the move, rank that takes it)]
        self._brought = {}  # rank that takes it → {(number, owner): bytes}
        self._missing = set()
        if not group.hosts:
            return
        for number, move in enumerate(moves):
            for owner in group.replicas[move.old].ranks if move.old >= 0 else ():
                for rank in plan.replicas[move.new].ranks:
                    if group.host_of(owner) is not group.host_of(rank) and \
                            group.roles[owner].shared_units(roles[rank], move.first, move.end) > 0:
                        self._asked.setdefault(owner, []).append((number, rank))
        self._missing = set(self._asked)

    @property
    def complete(self):
        return not self._missing

    @property
    def missing(self):
        return sorted(self._missing)

    def ask(self, group, epoch, round_):
        for owner, parts in self._asked.items():
            group.send(owner, {"op": "export", "epoch": epoch, "round": round_,
                               "parts": [(number, rank, self.moves[number]) for number, rank in parts]})

    def take(self, owner, head, blob):
        """An owner's answer. Errors: ValueError: it is none to what was asked."""
        if [(number, rank) for number, rank, _ in head["parts"]] != self._asked.get(owner) or \
                sum(size for _, _, size in head["parts"]) != len(blob):
            raise ValueError(f"rank {owner} has sent other cache than it was asked for")
        at = 0
        for number, rank, size in head["parts"]:
            self._brought.setdefault(rank, {})[number, owner] = blob[at:at + size]
            at += size
        self._missing.discard(owner)

    def without(self, gone):
        """Moves whose sequences are over meanwhile are left out: {old number: new number} of the others."""
        kept = [number for number in range(len(self.moves)) if number not in gone]
        renumbered = {number: place for place, number in enumerate(kept)}
        self.moves = [self.moves[number] for number in kept]
        self._brought = {rank: {(renumbered[number], owner): data for (number, owner), data in parts.items() if number in renumbered}
                         for rank, parts in self._brought.items()}

    def send(self, group, head):
        """The order, to each rank with what is for it."""
        head = dict(head, moves=self.moves)
        if not self._brought:
            group.send_all(head)
            return
        for rank in list(group.ranks):
            parts = self._brought.get(rank, {})
            told = [(number, owner, len(data)) for (number, owner), data in parts.items()]
            group.send_packed(rank, packed(dict(head, brought=told), b"".join(parts.values())))


def unpacked(head, blob):
    """At the rank: [brought] of such an order; empty where nothing was brought."""
    found, at = {}, 0
    for number, owner, size in head.get("brought", ()):
        found[number, owner] = blob[at:at + size]
        at += size
    return [found] if found else []
