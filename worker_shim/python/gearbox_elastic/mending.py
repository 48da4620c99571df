"""Mending: how a driver's ranks become a running group, at the start and whenever one of them is lost or hangs."""
import selectors
import time

from .host_care import HostCare
from .log import log

PING_LIMIT_S = 2.0


class Mending(HostCare):
    """A part of Driver. Threads: the driver's."""

    def _spawn(self, number):
        rank = self.group.spawn(number)
        self._selector.register(rank.wire.sock, selectors.EVENT_READ, lambda: self._read(rank))

    def _started(self, number, head):
        rank = self.group.ranks[number]
        if rank.host is not None and not self.group.same_checkpoint(head):
            self._lost(number, f"host '{rank.host.name}' has another checkpoint than this one")
            return
        rank.started, rank.host_pid = True, head["pid"]
        if rank.host is not None:
            self._all_there(rank.host)
        self.group.introduce(number)
        self._build_if_all_are_here()

    def _build_if_all_are_here(self):
        ranks = self.group.ranks
        if self.phase == "starting" and all(number in ranks and ranks[number].started for number in self.group.here()) and \
                all(number in ranks for number in self.plan.ranks):
            self._build()

    def _build(self):
        """All ranks join a new epoch of self.plan."""
        if self.group.plan is not None and self.plan != self.group.plan:
            self.keep = False
        self.group.epoch = self.group.new_epoch()
        self.phase, self.built = "building", set()
        self.deadline = time.monotonic() + self.options.start_limit_s
        region, more, descriptors = self.group.meeting_place(self.plan, self.group.epoch)
        self.group.take(self.plan, self.group.epoch, region)
        self.group.extra = [0] * self.options.ranks
        if not self.keep:
            for sequence in list(self.batching.running.values()):
                self._evict_lost(sequence)
        for sequence in self.batching.running.values():
            self.group.replicas[sequence.replica].sequences.append(sequence)
        self.group.recount(self.batching.running.values())
        self.group.send_all(dict(more, op="build", epoch=self.group.epoch, plan=self.plan.as_dict(), keep=self.keep),
                            descriptors=descriptors)

    def _built(self, number, head):
        if self.phase != "building" or head["epoch"] != self.group.epoch:
            return
        self.built.add(number)
        if len(self.built) == len(self.group.ranks):
            self.phase, self.keep, self.deadline, self.suspects = "running", True, None, None
            log("built", epoch=self.group.epoch, gear=self.plan.gear, ranks=len(self.group.ranks))
            self._tell_running()

    def _tell_running(self):
        self._ready.set()
        waiters, self.when_running = self.when_running, []
        for told in waiters:
            told()
        if self.figure_waiters and not self.failure:  # a rank that is gone has not answered
            self.figures = {}
            self.group.send_all({"op": "figures"})

    def _evict_lost(self, sequence):
        """Its cache is gone with a rank, or with a plan: it is computed anew. The group's own counts are made anew as well."""
        slot = sequence.slot
        del self.batching.running[slot]
        self.batching.free_slots.append(slot)
        self.group.send_all({"op": "free", "slots": [slot]}, ranks=[n for n, rank in self.group.ranks.items() if rank.started])
        sequence.slot = -1
        sequence.evict()
        self.batching.waiting.append(sequence)
        self.batching.waiting.sort(key=lambda each: each.number)

    def _lost(self, number, why):
        """A rank is gone: the others leave what they wait in, another one is started, and all build the next epoch."""
        rank = self.group.ranks.get(number)
        if rank is None:
            return
        now = time.monotonic()
        self._selector.unregister(rank.wire.sock)
        rank.kill()
        code = rank.ended()
        if rank.host is not None:
            self._lost_there(rank, why, now)
            return
        log("rank_lost", rank=number, pid=rank.pid, why=f'"{why}"', code=code)
        self._died(now)
        del self.group.ranks[number]
        self.group.lost.discard(number)
        if self.group.plan is None or len(self.deaths) > self.options.most_deaths:
            rank.close()
            self._fail(f"rank {number} ended with code {code}; {len(self.deaths)} ends within a minute")
            return
        self._interrupt(number)
        rank.close()
        self._spawn(number)
        self.deadline = now + self.options.start_limit_s

    def _died(self, now):
        self.deaths.append(now)
        while self.deaths and now - self.deaths[0] > 60:
            self.deaths.popleft()

    def _interrupt(self, number):
        """The epoch is over. `number`: the rank that was lost with its cache, or None."""
        if self.group.region is not None:
            self.group.region.abort()
        self.batching.forget_steps()
        if self.shift is not None:
            self.plan, keep = self.shift.rank_lost(number)
            self.keep = self.keep and keep
        self.gate_closed = False
        self.suspects = None
        self.phase = "starting"
        if number is not None and self.keep:
            gone = [sequence for sequence in self.batching.running.values()
                    if number in self.group.replicas[sequence.replica].ranks]
            for sequence in gone:
                self._evict_lost(sequence)

    def suspect(self, why):
        """Someone does not go on: who does not even answer is replaced; else all begin a new epoch."""
        if self.suspects is not None:
            return
        log("suspect", why=f'"{why}"')
        if self.group.region is not None:
            self.group.region.abort()
        self._pings += 1
        self.suspects = (set(self.group.ranks), time.monotonic() + PING_LIMIT_S)
        self.group.send_all({"op": "ping", "number": self._pings})

    def _look_after(self, now):
        oldest = self.batching.oldest_step()
        if self.suspects is None and self.phase == "running" and oldest is not None and now - oldest > self.options.step_limit_s:
            self.suspect(f"a step has taken {now - oldest:.1f} s")
        if self.suspects is not None:
            silent, deadline = self.suspects
            if not silent:
                self._died(now)  # nobody did, but this must not go on for ever either
                if len(self.deaths) > self.options.most_deaths:
                    self._fail("the ranks do not come to an end of their steps")
                    return
                self._interrupt(None)
                self._build()
            elif now > deadline:
                self.suspects = None
                for number in sorted(silent):
                    self._lost(number, "it does not answer")
        elif self.deadline is not None and now > self.deadline:
            late = [n for n, rank in self.group.ranks.items() if not rank.started]
            if self.group.plan is None and any(self.group.ranks[number].host is None for number in late):
                self._fail("the ranks did not start in time")
                return
            self.deadline = None
            if self.phase == "building":
                late = late or sorted(set(self.group.ranks) - self.built)
            for number in late:
                self._lost(number, "it did not join in time")
