"""HostCare: what a driver does about ranks on other hosts: a lost host is waited for, then done without, then taken back.

    there → (lost) waited for → there
                              → away: the group runs in a plan over the other ranks → all its ranks have started again: they join, with
                                nothing to do, and a shift in flight brings the group back to the plan it had
"""
import selectors
import time

from .hosts import plan_without
from .log import log
from .shift import Shift
from .wire import WireClosed

RETURN_PAUSE_S = 5.0  # after a shift back that did not come about


class HostCare:
    """A part of Driver. Threads: the driver's."""

    def _all_there(self, host):
        """A rank of it has started: was it the last one?"""
        if all(number in self.group.ranks and self.group.ranks[number].started for number in host.numbers):
            host.back()
            log("host_there", host=host.name, ranks=len(host.numbers))

    def _lost_there(self, rank, why, now):
        """A rank of another host is gone, or could not be had; `rank` is killed and unregistered."""
        host, number = rank.host, rank.number
        say = log if rank.started or host.why != why else lambda *_, **__: None  # of tries, each reason once
        say("rank_lost", rank=number, host=host.name, pid=rank.host_pid, why=f'"{why}"')
        host.lost(why, now)
        del self.group.ranks[number]
        self.group.lost.discard(number)
        if rank.started:
            self._died(now)
        if len(self.deaths) > self.options.most_deaths:
            rank.close()
            self._fail(f"rank {number} on '{host.name}' ended; {len(self.deaths)} ends within a minute")
            return
        if rank.started or self.phase in ("running", "building"):
            self._interrupt(number)
            self.deadline = now + self.options.start_limit_s
        rank.close()
        if self.group.plan is not None and not set(host.numbers) & set(self.plan.ranks):
            self._go_on_without(host)  # it had nothing to do: nobody waits for it

    def _look_after_hosts(self, now):
        for host in self.group.hosts:
            if self.phase == "failed":
                return
            if host.missing_since is None:
                continue
            if now >= host.retry_at:
                self._call(host, now)
            taken = all(number in self.group.ranks and self.group.ranks[number].accepted for number in host.numbers)
            if not host.away and not taken and now - host.missing_since > self.options.host_limit_s:
                self._go_on_without(host)
            if host.away and self.phase in ("running", "starting") and self.shift is None and self.draining is None and \
                    all(number in host.arriving and host.arriving[number].started for number in host.numbers):
                self._join(host)
        self._return(now)

    def _call(self, host, now):
        """Asks for those of its ranks that are missing."""
        for number in host.numbers:
            if number in self.group.ranks or number in host.arriving:
                continue
            try:
                rank = self.group.spawn(number)
            except (OSError, WireClosed) as error:
                self._drop(number, host)
                if host.why != str(error):
                    log("host_not_reached", host=host.name, why=f'"{error}"')
                host.lost(str(error), now)
                return
            self._selector.register(rank.wire.sock, selectors.EVENT_READ,
                                    lambda rank=rank, host=host: self._read_arriving(rank, host)
                                    if host.arriving.get(rank.number) is rank else self._read(rank))

    @staticmethod
    def _forget(kept, number):
        rank = kept.pop(number, None)
        if rank is not None:
            rank.close()

    def _drop(self, number, host):
        """A rank that was made, but not watched yet."""
        self._forget(host.arriving, number)
        self._forget(self.group.ranks, number)

    def _read_arriving(self, rank, host):
        """From a rank of a host that is away: it is not of the group yet."""
        try:
            for head, _, _ in rank.wire.feed():
                if head["op"] == "started":
                    if not self.group.same_checkpoint(head):
                        raise WireClosed(f"host '{host.name}' has another checkpoint than this one")
                    rank.started, rank.host_pid = True, head["pid"]
        except WireClosed as error:
            self._selector.unregister(rank.wire.sock)
            self._forget(host.arriving, rank.number)
            host.lost(str(error), time.monotonic())

    def _go_on_without(self, host):
        plan = self._plan_for([number for number in self.group.here() if number not in host.numbers])
        if plan is None:
            if not host.waited_for:
                log("waits_for_host", host=host.name, why=f'"{host.why}; the model does not fit into the ranks that are left"')
            host.waited_for, self.deadline = True, None
            return
        host.away = True
        log("host_away", host=host.name, why=f'"{host.why}"')
        for number in host.numbers:
            rank = self.group.ranks.pop(number, None)
            if rank is not None:
                self._selector.unregister(rank.wire.sock)
                self.group.lost.discard(number)
                rank.close()
        self._take_plan(plan)
        self._build_if_all_are_here()

    def _plan_for(self, here):
        """The plan that is wanted, or one in its place for these ranks; None: they cannot hold the model."""
        wanted = self.wanted or self.plan
        if set(wanted.ranks) <= set(here):
            return wanted
        return plan_without(wanted, here, self.group.shape, self.options.shares, self.options.memory_mb << 20)

    def _take_plan(self, plan):
        wanted = self.wanted or self.plan
        self.plan, self.wanted = plan, wanted if plan is not wanted else None

    def _join(self, host):
        """All ranks of a host that was away have started. While the group runs they come into the next epoch of the plan that runs, with
        nothing to do in it so far."""
        host.back()
        log("host_back", host=host.name, ranks=len(host.numbers))
        for number in host.numbers:
            self.group.ranks[number] = host.arriving.pop(number)
            self.group.introduce(number)
        if self.phase == "running":
            self._interrupt(None)
            self._build()
        else:
            self._take_plan(self._plan_for(self.group.here()) or self.plan)
            self._build_if_all_are_here()

    def _return(self, now):
        """To the plan that the group had before hosts were lost, as soon as it can be."""
        if self.wanted is None or self.phase != "running" or self.shift is not None or self.draining is not None or \
                self.suspects is not None or now < self.return_at or not set(self.wanted.ranks) <= set(self.group.ranks):
            return
        self.return_at = now + RETURN_PAUSE_S
        self.shift = Shift(self, self.wanted, self.record.term, False, lambda answer: None)
