"""Driver: the engine core of a group. One thread of its own, "gearbox-elastic", runs everything; the rest are its callers.

It starts the ranks, sends them steps, hands tokens on, changes plans (shift.py), replaces ranks that die (mending.py), and listens to a
control socket (control.py).
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
from .mending import Mending
from .record import Record
from .sequences import Overloaded, Stream
from .tidying import Tidying
from .wire import WireClosed

SWITCH_S = 0.0001  # its thread must not wait 5 ms for one that takes tokens


class GroupFailed(Exception):
    """The group cannot go on."""


class Driver(Commands, Mending):
    """Threads: start(), submit(), ask() and close() from any."""

    def __init__(self, options, on_tokens=None):
        """`on_tokens()`: called by the driver's thread when there may be something to take of a stream, once for all of a step.
        Errors: ValueError, OSError: options, checkpoint or record are no good."""
        self.options = options
        self.group = Group(options)
        self.record = Record(options.state)
        self.plan = self.group.first_plan(self.record.plan)  # to be built
        self.wanted = None           # in place of that, when the hosts it needs are back
        self.return_at = 0.0         # not before
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
                if self.group.host_of(number) is None:  # the others are called in the loop
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
        self._look_after_hosts(now)
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
        return self.shift is not None or self.suspects is not None or self.phase != "running" or \
            any(host.missing_since is not None for host in self.group.hosts)

    def _woken(self):
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass

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
        elif operation == "met":
            others = [other for other, rank in self.group.ranks.items() if other != number and rank.started]
            self.group.send_all(head, blob, ranks=others)
        elif operation == "started":
            self._started(number, head)
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
            self.shift.on_message(number, head, blob)

    # -- the end --------------------------------------------------------------------------------------------------------------------

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
