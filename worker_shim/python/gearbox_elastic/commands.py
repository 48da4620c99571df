"""Commands: what may be asked of a driver, by its control socket or by its process: status, price, shift, drain, abort ..."""
import os
import time

from .gears import plan_of_gear
from .log import log
from .shift import Shift


class Commands:
    """A part of Driver. Threads: the driver's."""

    def command(self, command, done):
        """`done(answer)` is called once, now or later. A wrong command is an answer, too."""
        try:
            name = command.get("op")
            handler = {"status": self._status, "price": self._shift, "shift": self._shift, "drain": self._drain, "abort": self._abort,
                       "history": self._history, "figures": self._figures, "defragment": self._defragment}.get(name)
            if handler is None:
                raise ValueError(f"no operation {name!r}")
            if self.failure or self._stopping:
                raise ValueError(self.failure or "the group is ending")
            handler(command, done)
        except (ValueError, TypeError, KeyError, OSError) as error:
            done({"ok": False, "why": str(error)})

    def _status(self, command, done):
        batching, group, shape = self.batching, self.group, self.group.shape
        done({"ok": True, "pid": os.getpid(), "phase": self.phase, "gear": group.plan.gear if group.plan else None,
              "plan": group.plan.as_dict() if group.plan else None, "epoch": group.epoch, "term": self.record.term,
              "ranks": [dict(rank.place(), rank=n, used_units=group.used[n], units=group.units) for n, rank in sorted(group.ranks.items())],
              "hosts": [host.as_dict() for host in group.hosts], "wants": self.wanted.as_dict() if self.wanted else None,
              "shift": self.shift.state if self.shift else None, "running": len(batching.running), "waiting": len(batching.waiting),
              "tokens": batching.tokens, "steps": batching.steps_done, "evicted": batching.evicted, "tidied": self.tidying.moved,
              "shifts": len(self.history),
              "collective": group.collective, "load": batching.load.as_dict(batching.waiting),
              "shape": {"layers": shape.layers, "width": shape.dim, "heads": shape.heads, "kv_heads": shape.kv_heads,
                        "head_width": shape.head_size, "parameters": shape.parameters}})

    def _asked_plan(self, command):
        if "plan" in command:
            plan = self.group.read_plan(command["plan"])
        else:
            plan = plan_of_gear(command.get("gear"), self.options.ranks, self.group.shape, command.get("shares", self.options.shares))
        for host in self.group.hosts:
            if set(host.numbers) & set(plan.ranks) - set(self.group.ranks):
                raise ValueError(f"host '{host.name}' with rank {host.numbers[0]} is away: {host.why}")
        return plan

    def _check_term(self, command):
        term = command.get("term", self.record.term)
        if isinstance(term, bool) or not isinstance(term, int) or term < 0:
            raise ValueError("term is no whole number from 0")
        if term < self.record.term:
            raise ValueError(f"term {term} is older than {self.record.term}")
        if term > self.record.term:
            # Durable before anything is done for it, so that an older one is refused also after a restart.
            self.record.write(self.record.plan or self.group.plan.as_dict(), self.group.epoch, term)
        return term

    def _shift(self, command, done):
        if self.phase != "running" or self.suspects is not None:
            raise ValueError("the group is being built")
        if self.shift is not None or self.draining is not None:
            raise ValueError("another shift is going on")
        plan = self._asked_plan(command)
        only_price = command["op"] == "price"
        term = self.record.term if only_price else self._check_term(command)
        self.shift = Shift(self, plan, term, only_price, done)

    def shift_over(self, shift, answer):
        self.shift = None
        if not shift.only_price:
            self.history.append(answer)
            if answer["ok"]:
                self.plan, self.wanted = shift.plan, None
            log("shift", **{key: value for key, value in answer.items() if not isinstance(value, (list, dict))})

    def _drain(self, command, done):
        """The old way: nobody new comes in, all running ones end, the ranks are started anew in the new plan."""
        if self.phase != "running" or self.shift is not None or self.draining is not None:
            raise ValueError("another shift is going on")
        plan = self._asked_plan(command)
        self._check_term(command)
        self.draining = (plan, done, time.monotonic())
        self.batching.hold = True

    def _drained(self):
        plan, done, began = self.draining
        self.draining = None
        self.batching.hold = False
        try:
            self.record.write(plan.as_dict(), self.group.new_epoch(), self.record.term)
        except OSError as error:
            done({"ok": False, "why": f"the record cannot be written: {error}"})
            return
        for number in sorted(self.group.ranks):
            rank = self.group.ranks[number]
            self._selector.unregister(rank.wire.sock)
            rank.close()
        self.group.ranks.clear()
        self.plan, self.keep, self.phase = plan, False, "starting"
        for number in range(self.options.ranks):
            if self.group.host_of(number) is None:
                self._spawn(number)
        for host in self.group.hosts:
            host.missing_since, host.retry_at = time.monotonic(), 0.0
        self.wanted = None
        self.deadline = time.monotonic() + self.options.start_limit_s
        self.when_running.append(lambda: done({
            "ok": self.phase == "running", "gear": plan.gear, "pause_ms": (time.monotonic() - began) * 1000, "why": self.failure or ""}))

    def _abort(self, command, done):
        done({"ok": self.shift is not None and self.shift.abort()})

    def _history(self, command, done):
        done({"ok": True, "history": list(self.history)})

    def _figures(self, command, done):
        self.figures = {}
        self.figure_waiters.append(done)
        self.group.send_all({"op": "figures"})

    def _figured(self, number, figures):
        self.figures[number] = figures
        if len(self.figures) == len(self.group.ranks):
            waiters, self.figure_waiters = self.figure_waiters, []
            for done in waiters:
                done({"ok": True, "ranks": [self.figures[n] for n in sorted(self.figures)]})

    def _defragment(self, command, done):
        if self.batching.steps or self.shift is not None:
            raise ValueError("only while nothing runs")
        self.group.send_all({"op": "defragment"})
        done({"ok": True})
