"""Driver: the engine core of a group. One thread of its own, "gearbox-elastic", runs everything; the rest are its callers.

It starts the ranks, sends them steps, hands tokens on, changes plans (shift.py), replaces ranks that die, and listens to a control
socket (control.py).
"""
import collections
import concurrent.futures
import os
import selectors
import sys
import threading
import time

from .batching import Batching
from .commands import Commands
from .control import Control
from .group import Group
from .log import log
from .record import Record
from .sequences import Overloaded, Stream
from .tidying import Tidying
from .wire import WireClosed

PING_LIMIT_S = 2.0
SWITCH_S = 0.0001  # its thread must not wait 5 ms for one that takes tokens


class GroupFailed(Exception):
    """The group cannot go on."""


class Driver(Commands):
    """Threads: start(), submit(), ask() and close() from any."""

    def __init__(self, options, on_tokens=None):
        """`on_tokens()`: called by the driver's thread when there may be something to take of a stream, once for all of a step.
        Errors: ValueError, OSError: options, checkpoint or record are no good."""
        self.options = options
        self.group = Group(options)
        self.record = Record(options.state)
        self.plan = self.group.first_plan(self.record.plan)  # to be built
        self.group.epoch = self.record.epoch
        self.batching = Batching(self.group)
        self.tidying = Tidying()
        self.shift = None
        self.draining = None         # (plan, done) while a drain waits for the running to end
        self.gate_closed = False
        self.history = collections.deque(maxlen=1024)
        self.phase = "starting"      # starting, building, running, failed
        self.keep = False            # may the next build keep the caches
        self.built = set()
        self.deaths = collections.deque()
        self.failure = None
        self.suspects = None         # (pings not answered, deadline)
        self.building_region = None
        self.deadline = None         # of starting and building
        self.figures, self.figure_waiters = {}, []
        self.when_running = []       # called when the group runs again, or never will
        self._pings = 0
        self._on_tokens, self._told = on_tokens, False
        self._inbox = collections.deque()
        self._ready = threading.Event()
        self._stopping = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._woken)
        self.control = Control(self, options.control) if options.control else None
        self._thread = threading.Thread(target=self._run, name="gearbox-elastic", daemon=True)

    # -- for callers ---------------------------------------------------------------------------------------------------------

    def start(self, wait=True):
        """Errors: GroupFailed."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._thread.start()
        if wait:
            self._ready.wait(self.options.start_limit_s)
            if self.phase != "running":
                why = self.failure or "the ranks did not start in time"
                self.close()
                raise GroupFailed(why)
        return self

    def submit(self, request):
        """A Stream of its tokens. Errors: Refused, Overloaded, GroupFailed."""
        if self.failure:
            raise GroupFailed(self.failure)
        self.batching.check(request)
        if len(self.batching.waiting) >= self.options.max_waiting:
            raise Overloaded(f"{self.options.max_waiting} requests wait already")
        stream = Stream(self._touched)
        self._post(lambda: self._add(request, stream))
        return stream

    def cancel(self, stream):
        stream.cancelled = True
        self._post(lambda: None)

    def ask(self, command, timeout=None):
        """What the control socket takes, and its answer: status, price, shift, drain, abort, history, figures, defragment."""
        if not self._thread.is_alive():
            return {"ok": False, "why": self.failure or "the group does not run"}
        future = concurrent.futures.Future()
        self._post(lambda: self.command(command, lambda answer: future.done() or future.set_result(answer)))
        return future.result(timeout)

    def close(self):
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self):
        try:
            os.write(self._wake_write, b"x")
        except (BlockingIOError, OSError):
            pass  # it is awake already, or gone

    def _post(self, work):
        self._inbox.append(work)
        self.wake()

    def _add(self, request, stream):
        try:
            if self.failure:
                raise GroupFailed(self.failure)
            self.batching.add(request, stream)
        except Exception as error:
            stream.overloaded = isinstance(error, Overloaded)
            stream.end(f"{error}")

    # -- the loop ------------------------------------------------------------------------------------------------------------

    def _run(self):
        try:
            for number in range(self.options.ranks):
                self._spawn(number)
            self.deadline = time.monotonic() + self.options.start_limit_s
            while not self._stopping and self.phase != "failed":
                self._turn()
        except Exception as error:
            import traceback
            traceback.print_exc()
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._end()

    def _turn(self):
        for key, _ in self._selector.select(0.05 if self._watching() else 0.25):
            key.data()
        while self._inbox:
            self._inbox.popleft()()
        now = time.monotonic()
        lost, self.group.lost = self.group.lost, set()
        for number in sorted(lost):
            self._lost(number, "its socket failed")
        self._look_after(now)
        if self.shift is not None:
            self.shift.tick(now)
        if self.draining is not None and not self.batching.running and self.phase == "running":
            self._drained()
        if self.phase == "running" and not self.gate_closed and self.suspects is None:
            self.batching.fill()
            self.group.restock()
            if self.shift is None and self.draining is None:
                self.tidying.tick(now, self.batching)

        self._tell_tokens()

    def _touched(self):
        self._told = True

    def _tell_tokens(self):
        if self._told and self._on_tokens is not None:
            self._told = False
            self._on_tokens()

    def _watching(self):
        return self.shift is not None or self.suspects is not None or self.phase != "running"

    def _woken(self):
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass

    def _spawn(self, number):
        rank = self.group.spawn(number)
        self._selector.register(rank.wire.sock, selectors.EVENT_READ, lambda: self._read(rank))

    def _read(self, rank):
        if self.group.ranks.get(rank.number) is not rank:
            return
        try:
            messages = rank.wire.feed()
        except WireClosed as error:
            self._lost(rank.number, str(error))
            return
        for head, blob, _ in messages:
            if self.group.ranks.get(rank.number) is not rank:
                return  # it was replaced meanwhile
            self._message(rank.number, head, blob)

    def _message(self, number, head, blob):
        operation = head["op"]
        if operation == "sampled":
            self.batching.sampled(number, head, blob)
        elif operation == "started":
            self._started(number)
        elif operation == "built":
            self._built(number, head)
        elif operation == "left":
            if self.phase == "running" and head["epoch"] == self.group.epoch:
                self.suspect(f"rank {number} left the step: {head['why']}")
            elif self.phase == "building" and head["epoch"] == self.group.epoch:
                self.suspect(f"rank {number} could not join: {head['why']}")
        elif operation == "pong":
            if self.suspects is not None and head["number"] == self._pings:
                self.suspects[0].discard(number)
        elif operation == "figures":
            self._figured(number, head["figures"])
        elif operation == "defragmented":
            self.tidying.defragmented(head["units"])
        elif self.shift is not None:
            self.shift.on_message(number, head)

    # -- building and mending ------------------------------------------------------------------------------------------------

    def _started(self, number):
        self.group.ranks[number].started = True
        self.group.introduce(number)
        if all(rank.started for rank in self.group.ranks.values()):
            self._build()

    def _build(self):
        """All ranks join a new epoch of self.plan."""
        self.group.epoch = self.group.new_epoch()
        self.phase, self.built = "building", set()
        self.deadline = time.monotonic() + self.options.start_limit_s
        region, more, descriptors = self.group.meeting_place(self.plan)
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
        code = rank.process.wait()
        log("rank_lost", rank=number, pid=rank.pid, why=f'"{why}"', code=code)
        self.deaths.append(now)
        while self.deaths and now - self.deaths[0] > 60:
            self.deaths.popleft()
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
                self.deaths.append(now)  # nobody died, but this must not go on for ever either
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
            if self.group.plan is None:
                self._fail("the ranks did not start in time")
                return
            self.deadline = None
            late = [n for n, rank in self.group.ranks.items() if not rank.started] or sorted(set(self.group.ranks) - self.built)
            for number in late:
                self._lost(number, "it did not join in time")

    def _fail(self, why):
        self.failure, self.phase = why, "failed"
        log("failed", why=f'"{why}"')
        self.batching.fail_all(why)
        self._tell_running()

    def _end(self):
        if self.control is not None:
            self.control.close()
        self.group.close()
        while self._inbox:  # who asked just now is told, and does not wait for ever
            self._inbox.popleft()()
        self.failure = self.failure or "the group has ended"
        self.batching.fail_all(self.failure)
        self._tell_running()
        for done in self.figure_waiters:
            done({"ok": False, "why": self.failure})
        if self.shift is not None:
            self.shift.done({"ok": False, "why": self.failure})
        self._selector.close()
        self._tell_tokens()
