"""Group: the ranks of one engine, the plan that runs on them, its epoch, and who has how much cache in use."""
import dataclasses
import importlib
import os
import secrets
import tempfile

from .collective import shared
from .checkpoint_digest import checkpoint_digest
from .gears import plan_of_gear
from .hosts import hosts_of
from .plan import plan_of_dict
from .ranks import RankProcess
from .remote_rank import RemoteRank
from .role import Topology, roles_of
from .wire import WireClosed, packed


class ReplicaState:
    """One replica of the plan that runs, with the steps that are on their way through it."""

    def __init__(self, number, replica):
        self.number, self.weight = number, replica.weight
        self.ranks = replica.ranks
        self.depth = len(replica.stages)  # steps that may be on their way at once
        last = sorted(replica.stages[-1].ranks, key=lambda part: part.vocab)
        self.last_ranks = [part.rank for part in last]  # in the order of the vocabulary
        self.sequences = []
        self.in_flight = 0
        self.idle_since = 0  # monotonic ns of its last result


class Group:
    """Threads: the driver's only."""

    def __init__(self, options):
        self.options = options
        module, _, name = options.engine.partition(":")
        self.engine = getattr(importlib.import_module(module), name)
        self.shape = self.engine.shape_of(options.checkpoint)
        if options.context:
            self.shape = dataclasses.replace(self.shape, positions=min(options.context, self.shape.positions))
        self.units = max(1, int(options.cache_mb * (1 << 20)) // self.shape.unit_bytes)
        self.arena_size = self.engine.arena_bytes(self.shape, options.max_running, self.units)
        self.collective = options.collective
        self.hosts = hosts_of(options)
        self._driver = secrets.token_hex(16)  # so that rank hosts tell its ranks from those of the driver before
        self._digest = checkpoint_digest(options.checkpoint) if self.hosts else ""
        if self.hosts:
            self.collective = "gloo"
        elif self.collective == "auto":
            self.collective = "shared" if os.path.exists(shared.library_path()) else "gloo"
        self.ranks = {}
        self.spares = []
        self.plan = None
        self.epoch = 0                    # of the plan that runs
        self._last_epoch = 0
        self.roles, self.replicas = {}, []
        self.used = [0] * options.ranks   # cache units of each rank in use
        self.extra = [0] * options.ranks  # and those that a shift needs beside
        self.region = None
        self.lost = set()                 # ranks whose socket failed: the driver has to look after them

    def first_plan(self, recorded):
        if recorded is not None:
            return self.read_plan(recorded)
        if self.options.plan is not None:
            return self.read_plan(self.options.plan)
        return plan_of_gear(self.options.gear, self.options.ranks, self.shape, self.options.shares)

    def new_epoch(self):
        """Never the same twice, also where a shift did not come about: a late answer to that one is not taken for one of the next."""
        self._last_epoch = max(self._last_epoch, self.epoch) + 1
        return self._last_epoch

    def read_plan(self, value):
        """Errors: PlanError."""
        plan = plan_of_dict(value, self.shape)
        beyond = [rank for rank in plan.ranks if rank >= self.options.ranks]
        if beyond:
            raise ValueError(f"plan: rank {beyond[0]} is none of this group's {self.options.ranks}")
        return plan

    def host_of(self, number):
        """The other host that has this rank; None: it is this host's own."""
        return next((host for host in self.hosts if number in host.numbers), None)

    def here(self):
        """Ranks that the group has, or waits for."""
        return [number for number in range(self.options.ranks) if (host := self.host_of(number)) is None or not host.away]

    @property
    def is_short(self):
        """Is a host away, with its share of the cache?"""
        return any(host.away for host in self.hosts)

    def same_checkpoint(self, head):
        """Has a rank of another host, which has started, the same weights?"""
        return head["checkpoint"] == self._digest

    def spawn(self, number):
        """The new rank; of a host that is away it is no rank of the group yet. Errors: OSError; WireClosed: another host's only."""
        host = self.host_of(number)
        settings = {"rank": number, "checkpoint": os.path.abspath(self.options.checkpoint),
                    "shape": self.shape.as_dict(), "slots": self.options.max_running, "units": self.units,
                    "budget_bytes": self.options.memory_mb << 20, "step_rows": self.options.prefill_rows + self.options.max_running,
                    "collective": self.collective, "limit_ms": int(self.options.step_limit_s * 2000)}
        if self.hosts:
            settings.update(spans=True, address=self.options.address)
        if host is not None:
            del settings["checkpoint"]  # it has its own, in its own place
            rank = RemoteRank(host, self._driver)
            (host.arriving if host.away else self.ranks)[number] = rank
            rank.start(settings, self.arena_size)
            return rank
        rank = None
        while self.spares and rank is None:
            rank = self.spares.pop()
            if not rank.lives:
                rank.close()
                rank = None
        rank = rank or RankProcess(self.options.engine, self.options.python)
        self.ranks[number] = rank
        try:
            rank.start(settings, self.arena_size)
        except WireClosed:
            self.lost.add(number)
        return rank

    def restock(self):
        """One spare, if one is missing: it takes the place of a rank that dies at once."""
        if len(self.spares) < self.options.spares:
            self.spares.append(RankProcess(self.options.engine, self.options.python))

    def introduce(self, number):
        """A new rank and all others come to know each other's arenas."""
        own = self.ranks[number]
        for other in self.ranks.values():
            if other.number == number or not other.started or other.host is not own.host:
                continue  # hosts share no memory
            if own.host is not None:
                self.send(other.number, {"op": "attach", "rank": number, "units": self.units})
                self.send(number, {"op": "attach", "rank": other.number, "units": self.units})
            else:
                self.send(other.number, {"op": "attach", "rank": number, "units": self.units}, [own.arena])
                self.send(number, {"op": "attach", "rank": other.number, "units": self.units}, [other.arena])

    def send(self, number, head, descriptors=()):
        """To one rank; a failure is noted in `lost`."""
        try:
            self.ranks[number].wire.send(head, descriptors=descriptors)
        except WireClosed:
            self.lost.add(number)

    def send_packed(self, number, data):
        try:
            self.ranks[number].wire.send_packed(data)
        except WireClosed:
            self.lost.add(number)

    def send_all(self, head, blob=b"", ranks=None, descriptors=()):
        data = packed(dict(head, descriptors=len(descriptors)) if descriptors else head, blob)
        for number in self.ranks if ranks is None else ranks:
            try:
                self.ranks[number].wire.send_packed(data, descriptors)
            except WireClosed:
                self.lost.add(number)

    def meeting_place(self, plan, epoch):
        """Where the ranks of a plan's next epoch meet: (region or None, more of the message, descriptors)."""
        if self.collective == "shared":
            region = shared.Region.make(Topology(plan))
            return region, {}, [region.fd]
        if self.hosts:
            return Appointment(self, epoch), {}, []
        handle, path = tempfile.mkstemp(prefix="gearbox-gloo-")
        os.close(handle)
        os.unlink(path)
        return StorePath(path), {"store": path}, []

    def take(self, plan, epoch, region):
        """This is the plan that runs now."""
        if self.region is not None:
            self.region.close()
        self.plan, self.epoch, self.region = plan, epoch, region
        self.roles = roles_of(plan, self.shape)
        self.replicas = [ReplicaState(number, replica) for number, replica in enumerate(plan.replicas)]

    def recount(self, sequences):
        """Used units from the sequences as they are."""
        self.used = [0] * self.options.ranks
        for sequence in sequences:
            if sequence.replica >= 0:
                self.count(sequence, 0, sequence.blocks, 1)

    def count(self, sequence, first, end, sign):
        for rank in self.replicas[sequence.replica].ranks:
            self.used[rank] += sign * self.roles[rank].units(first, end)

    def fits(self, replica, first, end):
        """Is there room for these blocks of a sequence in every rank of the replica?"""
        return all(self.used[rank] + self.extra[rank] + self.roles[rank].units(first, end) <= self.units for rank in replica.ranks)

    def ever_fits(self, blocks):
        return any(all(self.roles[rank].units(0, blocks) <= self.units for rank in replica.ranks) for replica in self.replicas)

    def close(self):
        processes = [*self.ranks.values(), *self.spares, *(rank for host in self.hosts for rank in host.arriving.values())]
        for rank in processes:
            rank.kill()
        for rank in processes:
            rank.close()
        self.ranks, self.spares = {}, []
        if self.region is not None:
            self.region.close()
            self.region = None


class Appointment:
    """Ranks of several hosts meet through their driver (collective/meeting.py), until it says that the epoch is over."""

    def __init__(self, group, epoch):
        self.group, self.epoch = group, epoch

    def abort(self):
        self.group.send_all({"op": "leave", "epoch": self.epoch},
                            ranks=[number for number, rank in self.group.ranks.items() if rank.started])

    def close(self):
        """Nothing is kept here."""


class StorePath:
    """gloo's meeting place: a file, which goes when its epoch does."""

    def __init__(self, path):
        self.path = path

    def abort(self):
        """Ranks hear of each other's ends by their connections."""

    def close(self):
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
