"""Shift: one change of plan, from price to release, as a machine of states that the driver's loop advances.

    pricing → preparing → (fetching →) importing → recording → stopping → (bringing →) switching → releasing → over

Up to recording it can end at any point and nothing has changed. From the moment the record is durable the group ends in the new
plan, whatever dies: with the cache taken over, or, when a rank was lost on the way, with the cache computed anew.
Between hosts the owners of cache are asked for it first: fetching, bringing.
Steps go on all the time but between stopping and switching: until the last steps of the old plan are back.
"""
import threading
import time

from .crossings import Crossings
from .next_blocks import NextBlocks
from .stop_point import stop_point

IMPORT_UNITS = 512        # copied by each rank in one go between two steps, at most
IMPORT_ROUNDS = 200
BEFORE = ("pricing", "preparing", "fetching", "importing")  # nothing is recorded yet
ENOUGH_BLOCKS = 1         # of full blocks per sequence left to the switch


class Shift:
    """Threads: the driver's; the record is written by one of its own."""

    def __init__(self, driver, plan, term, only_price, done):
        """`done(answer)` hears how it ended, once."""
        self.driver, self.group, self.plan, self.term, self.only_price, self.done = driver, driver.group, plan, term, only_price, done
        self.epoch = driver.group.new_epoch()
        self.prices, self.answers = {}, set()
        self.region = self.blocks = self.crossings = None
        self.moved = []  # the sequences of the moves that are being imported
        self.rounds = 0
        self.recorded = False
        self.writer = self.write_error = None
        self.began = time.monotonic()
        self.report = {"gear": plan.gear, "from_gear": driver.group.plan.gear, "epoch": self.epoch, "term": term, "weight_bytes": 0,
                       "imported_bytes": 0, "pause_bytes": 0, "pause_ms": 0.0, "wait_ms": 0.0, "copy_ms": 0.0, "shift_ms": 0.0}
        self.blocks = NextBlocks(self.group, plan, list(driver.batching.running.values()))
        self._enter("pricing", driver.options.price_limit_s)
        stop_point("shift.price")
        self._ask({"op": "price", "shift": self.epoch, "plan": plan.as_dict(),
                   "moves": self.blocks.moves_left(driver.batching.running.values())})

    def _enter(self, state, limit):
        self.state, self.answers = state, set()
        self.deadline = time.monotonic() + limit if limit else None

    def _ask(self, head, descriptors=()):
        self.group.send_all(head, descriptors=descriptors)

    def _all_answered(self, rank):
        self.answers.add(rank)
        return len(self.answers) == len(self.group.ranks)

    def on_message(self, rank, head, blob):
        if head["op"] == "exported":
            self._exported(rank, head, blob)
            return
        handler = getattr(self, "on_" + head["op"], None)
        if handler is not None:
            handler(rank, head)

    def tick(self, now):
        if self.state == "recording" and not self.writer.is_alive():
            self._written()
        if self.state == "stopping" and not self.driver.batching.steps:  # at once where no step is on its way: nothing would wake us
            self._switch()
        elif self.deadline is not None and now > self.deadline:
            silent = sorted(set(self.group.ranks) - self.answers)
            self.deadline = None
            if self.state in ("fetching", "bringing"):
                silent = self.crossings.missing
            if self.state in BEFORE:
                self.fail(f"{self.state}: no answer of rank {', '.join(map(str, silent))}")
            else:
                self.driver.suspect(f"{self.state}: no answer of rank {', '.join(map(str, silent))}")

    def on_priced(self, rank, head):
        if self.state != "pricing" or head["shift"] != self.epoch:
            return
        self.prices[rank] = head["price"]
        if not head["price"]["fits"]:
            self.fail(f"rank {rank}: {head['price']['why']}")
        elif self._all_answered(rank):
            self._priced()

    def _priced(self):
        if self.only_price:
            self._over({"ok": True, "fits": True, "prices": self._prices()})
            return
        self.report["weight_bytes"] = sum(price["weight_bytes"] for price in self.prices.values())
        self._enter("preparing", self.driver.options.prepare_limit_s)
        stop_point("shift.prepare")
        self.driver.batching.next_blocks = self.blocks
        self._rejoin()
        try:
            self.region, more, descriptors = self.group.meeting_place(self.plan, self.epoch)
        except (OSError, ValueError) as error:
            self.fail(f"no memory to meet in: {error}")
            return
        self._ask(dict(more, op="prepare", epoch=self.epoch, plan=self.plan.as_dict()), descriptors)

    def _rejoin(self):
        """Sequences have come and gone while it was priced."""
        self.blocks = self.driver.batching.next_blocks = NextBlocks(self.group, self.plan, list(self.driver.batching.running.values()))

    def _prices(self):
        return [dict(self.prices[rank], rank=rank) for rank in sorted(self.prices)]

    def on_prepared(self, rank, head):
        if self.state != "preparing" or head["epoch"] != self.epoch:
            return
        if head["why"]:
            self.fail(f"rank {rank}: {head['why']}")
        elif self._all_answered(rank):
            self._import()

    def _import(self):
        sequences = list(self.driver.batching.running.values())
        left = sum(each.full_blocks - each.imported for each in sequences)
        moves = []
        if self.rounds < IMPORT_ROUNDS and left > ENOUGH_BLOCKS * len(sequences) * 0.5:
            moves = self.blocks.moves(sequences, IMPORT_UNITS)
        if not moves:
            self._record(sequences)
            return
        self.rounds += 1
        self.moved = [self.driver.batching.running[move.slot] for move in moves]
        self._fetch("fetching", moves)

    def _fetch(self, state, moves):
        """What these moves need of other hosts, if anything; then they are made."""
        self.crossings = Crossings(self.group, self.plan, self.blocks.roles, moves)
        if self.crossings.complete:
            self._fetched(state)
            return
        self._enter(state, self.driver.options.price_limit_s + self.driver.options.step_limit_s)
        self.crossings.ask(self.group, self.epoch, self.rounds)

    def _exported(self, rank, head, blob):
        if self.state not in ("fetching", "bringing") or head["epoch"] != self.epoch or head["round"] != self.rounds:
            return
        self.crossings.take(rank, head, blob)
        if self.crossings.complete:
            self._fetched(self.state)

    def _fetched(self, state):
        if state == "bringing":
            self._switch_over()
            return
        # A slot may belong to another sequence by now.
        running = self.driver.batching.running
        self.crossings.without({number for number, move in enumerate(self.crossings.moves)
                                if running.get(move.slot) is not self.moved[number] or self.moved[number].imported < move.end})
        self._enter("importing", self.driver.options.price_limit_s + self.driver.options.step_limit_s)
        self.crossings.send(self.group, {"op": "import", "epoch": self.epoch, "round": self.rounds})

    def on_imported(self, rank, head):
        if self.state != "importing" or head["epoch"] != self.epoch or head["round"] != self.rounds:
            return
        self.report["imported_bytes"] += head["bytes"]
        if self._all_answered(rank):
            self._import()

    def _record(self, sequences):
        short = self.blocks.missing_room(sequences, spare=1)
        if short is not None:
            self.fail(f"rank {short[0]}: the cache lacks {short[1]} units")
            return
        self._enter("recording", None)
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()

    def _write(self):
        """Beside the steps: the disk may take its time. From here on there is no way back."""
        try:
            stop_point("shift.record")
            self.driver.record.write(self.plan.as_dict(), self.epoch, max(self.term, self.driver.record.term))
            self.recorded = True
        except OSError as error:
            self.write_error = str(error)
        self.driver.wake()

    def _written(self):
        if not self.recorded:
            self.fail(f"the record cannot be written: {self.write_error}")
            return
        self._enter("stopping", None)  # the step limit watches over what is on its way
        self.driver.gate_closed = True

    def _switch(self):
        """No step is on its way: every rank is at the same token boundary."""
        batching, group = self.driver.batching, self.group
        stop_point("shift.switch")
        while self.blocks.missing_room(batching.running.values(), spare=0) is not None:
            batching.evict(max(batching.running.values(), key=lambda each: each.number))  # it has grown since it was counted
        self.rounds += 1
        self._fetch("bringing", self.blocks.moves_left(batching.running.values()))

    def _switch_over(self):
        batching, group = self.driver.batching, self.group
        sequences = list(batching.running.values())
        self._enter("switching", self.driver.options.step_limit_s)
        # The worst case of all sequences: the replica that has been idle for longest.
        busy = [replica.idle_since for replica in group.replicas if replica.sequences and replica.idle_since]
        self.last_token = min(busy, default=time.monotonic_ns())
        self.ended_at = self.last_token
        self.report["wait_ms"] = (time.monotonic_ns() - self.last_token) / 1e6  # of the first idle replica for the last one
        self.crossings.send(group, {"op": "switch", "epoch": self.epoch})
        extra = self.blocks.old_units(sequences)
        for sequence in sequences:
            sequence.replica, sequence.next_replica, sequence.imported = sequence.next_replica, -1, 0
        batching.next_blocks = None
        group.take(self.plan, self.epoch, self.region)
        self.region = None
        for sequence in sequences:
            group.replicas[sequence.replica].sequences.append(sequence)
        group.recount(sequences)
        group.extra = extra
        self.driver.gate_closed = False  # the first steps follow right behind the switch

    def on_switched(self, rank, head):
        if self.state != "switching" or head["epoch"] != self.epoch:
            return
        self.report["pause_bytes"] += head["bytes"]
        self.report["copy_ms"] = max(self.report["copy_ms"], (head["ended"] - head["began"]) / 1e6)
        own = self.group.host_of(rank) is None
        self.ended_at = max(self.ended_at, head["ended"] if own else time.monotonic_ns())  # another host has another clock
        if self._all_answered(rank):
            self.report["pause_ms"] = (self.ended_at - self.last_token) / 1e6
            self._enter("releasing", self.driver.options.step_limit_s)
            stop_point("shift.release")
            self._ask({"op": "release", "epoch": self.epoch})

    def on_released(self, rank, head):
        if self.state == "releasing" and head["epoch"] == self.epoch and self._all_answered(rank):
            self.group.extra = [0] * len(self.group.extra)
            self._over({"ok": True, **self._report()})

    def _report(self):
        self.report["shift_ms"] = (time.monotonic() - self.began) * 1000
        return self.report

    def fail(self, why):
        """Before the record: all is as it was."""
        assert self.state in BEFORE or self.state == "recording", self.state
        if self.state != "pricing":
            self._ask({"op": "abort", "epoch": self.epoch})
        if self.region is not None:
            self.region.abort()
            self.region.close()
            self.region = None
        self.driver.batching.next_blocks = None
        self.group.extra = [0] * len(self.group.extra)
        for sequence in self.driver.batching.running.values():
            sequence.next_replica, sequence.imported = -1, 0
        self._over({"ok": False, "why": why, "fits": False, "prices": self._prices(), "gear": self.plan.gear, "epoch": self.group.epoch})

    def abort(self, why="aborted"):
        """As asked for from outside. False: it is too late."""
        if self.state in BEFORE:
            self.fail(why)
            return True
        return False

    def rank_lost(self, rank):
        """What the group is to be built with: (plan, may the caches that are left be kept)."""
        if self.state == "recording":
            self.writer.join()
        if self.state in ("stopping", "bringing", "switching") or (self.state == "recording" and self.recorded):
            if self.region is not None:
                self.region.abort()
                self.region.close()
                self.region = None
            self.driver.batching.next_blocks = None
            self.group.extra = [0] * len(self.group.extra)
            self._over({"ok": True, "recovered": True, **self._report()})
            return self.plan, False
        if self.state == "releasing":
            self.group.extra = [0] * len(self.group.extra)
            self._over({"ok": True, **self._report()})
            return self.plan, True
        self.fail(f"rank {rank} is gone")
        return self.group.plan, True

    def _over(self, answer):
        self.state = "over"
        self.driver.shift_over(self, answer)
        self.done(answer)
