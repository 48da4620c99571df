"""Hosts: which ranks of a group live on which other host, and whether that host is there.

A host that is lost is waited for, for `host_limit_s`; then it is away, and the group goes on without its ranks until they are back.
"""
import dataclasses
import time

from .gears import plan_of_gear
from .plan import Plan, PlanError, Replica, Stage

SHORTEST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
GEARS_TO_TRY = (4, 5, 6, 3, 2, 1)  # those that need the least memory first


class Host:
    """One other host. Threads: the driver's."""

    def __init__(self, value, numbers, socket):
        self.name, self.numbers = value["name"], numbers
        self.group = value["group"]
        self.socket = value.get("socket") or socket
        self.away = False
        self.waited_for = False                  # there is no plan without it, and that was said
        self.why = ""                            # it is not all there
        self.arriving = {}                       # rank → RemoteRank, while it is away: not of the group yet
        self.missing_since = time.monotonic()    # None: all its ranks are there
        self.retry_at = 0.0
        self._pause = SHORTEST_PAUSE_S

    def lost(self, why, now):
        self.why = why
        if self.missing_since is None:
            self.missing_since = now
        self.retry_at = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)

    def back(self):
        self.away, self.waited_for, self.why, self.missing_since, self._pause = False, False, "", None, SHORTEST_PAUSE_S

    def as_dict(self):
        return {"name": self.name, "ranks": self.numbers, "away": self.away, "why": self.why}


def hosts_of(options):
    """The group's own ranks come first, then those of each host, in the order of the configuration."""
    at = options.ranks - sum(value["ranks"] for value in options.hosts or ())
    found = []
    for value in options.hosts or ():
        found.append(Host(value, list(range(at, at + value["ranks"])), options.node_socket))
        at += value["ranks"]
    return found


def plan_without(wanted, here, shape, shares, memory_bytes):
    """A plan over the ranks `here` in place of `wanted`, of the same gear if that can be; None: the model does not fit into them."""
    from .role import roles_of
    for gear in dict.fromkeys([wanted.gear, *GEARS_TO_TRY]):
        if gear is None or not here:
            continue
        try:
            plan = plan_of_gear(gear, len(here), shape, [shares[rank] for rank in here] if shares else None)
        except PlanError:
            continue
        plan = renumbered(plan, here)
        if not memory_bytes or all(role.weight_bytes() <= memory_bytes for role in roles_of(plan, shape).values()):
            return plan
    return None


def renumbered(plan, numbers):
    return Plan(tuple(Replica(tuple(Stage(stage.layers, tuple(dataclasses.replace(part, rank=numbers[part.rank]) for part in stage.ranks))
                                    for stage in replica.stages), replica.weight) for replica in plan.replicas), plan.gear)


def read_hosts(values, ranks, place):
    """Checks [[hosts]] of engine.toml. Errors: ValueError."""
    names = set()
    for value in values:
        if not isinstance(value, dict):
            raise ValueError(f"{place}: hosts is no list of tables")
        for key in value:
            if key not in ("name", "ranks", "group", "socket"):
                raise ValueError(f"{place}: hosts has an unknown key '{key}'")
        name, count = value.get("name"), value.get("ranks")
        if not isinstance(name, str) or not name or name in names:
            raise ValueError(f"{place}: hosts.name = {name!r} is no name, or stands there twice")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{place}: hosts.ranks = {count!r} of '{name}' is no whole number from 1")
        if not isinstance(value.get("group", ""), str) or not isinstance(value.get("socket", ""), str):
            raise ValueError(f"{place}: hosts.group and hosts.socket of '{name}' are texts")
        names.add(name)
    if sum(value["ranks"] for value in values) > ranks:
        raise ValueError(f"{place}: hosts have {sum(value['ranks'] for value in values)} ranks, the whole group has {ranks}")
