"""Batching: which sequences run, on which replica, and what goes into each step: continuous batching over a bounded cache.

A sequence is admitted when its tokens so far fit; when a running one finds no room to grow, the youngest of its replica gives up
its cache and waits at the front: its tokens are computed anew later, and it goes on as if nothing had been.
"""
import bisect
import time

import numpy as np

from .batch import Batch, Sampled
from .load import Load
from .sampling import choose, choose_top_p
from .sequences import Overloaded, Refused, Sequence, Stream, blocks_of


SHORT_STEP_ROWS = 64


class Step:
    __slots__ = ("number", "replica", "rows", "sampled", "parts", "sent")


class Batching:
    """Threads: the driver's."""

    def __init__(self, group):
        self.group = group
        self.waiting = []        # by number: those that were evicted are older, and so come first
        self.running = {}        # slot → sequence
        self.free_slots = list(range(group.options.max_running - 1, -1, -1))
        self.steps = {}          # number → Step on its way
        self.next_sequence = self.next_step = 0
        self.evicted = self.tokens = self.steps_done = 0
        self.load = Load()
        self.hold = False        # while the group is drained: nobody is admitted
        self.next_blocks = None  # while a shift is prepared: it counts cache for the next plan, too
        self.last_result = time.monotonic_ns()

    def check(self, request):
        """Errors: Refused."""
        shape = self.group.shape
        if not request.prompt:
            raise Refused("the prompt has no token")
        if not all(0 <= token < shape.vocab for token in request.prompt):
            raise Refused(f"a token of the prompt is not from 0 to {shape.vocab - 1}")
        if len(request.prompt) >= shape.positions:
            raise Refused(f"the prompt has {len(request.prompt)} tokens, the model takes {shape.positions - 1}")
        if request.max_tokens < 1:
            raise Refused("max_tokens is less than 1")
        if not 0 <= request.temperature <= 100 or not 0 < request.top_p <= 1:
            raise Refused("temperature is not from 0 to 100, or top_p not above 0 and at most 1")

    def add(self, request, stream=None):
        """Errors: Refused, Overloaded."""
        self.check(request)
        if len(self.waiting) >= self.group.options.max_waiting:
            raise Overloaded(f"{len(self.waiting)} requests wait already")
        sequence = Sequence(self.next_sequence, request, stream or Stream())
        self.next_sequence += 1
        self.load.came(sequence, time.monotonic())
        self.waiting.append(sequence)
        return sequence.stream

    def admit(self):
        group = self.group
        while self.waiting and self.free_slots and not self.hold:
            sequence = self.waiting[0]
            if sequence.stream.cancelled:
                self.waiting.pop(0).stream.end("cancelled")
                continue
            blocks = blocks_of(len(sequence.tokens))
            if not group.ever_fits(blocks):
                if group.is_short:
                    return  # it fits when the host is back
                self.waiting.pop(0).stream.end(f"the cache of a rank cannot hold {len(sequence.tokens)} positions")
                continue
            for replica in sorted(group.replicas, key=lambda each: (len(each.sequences) + 1) / each.weight):
                # Beside others with a block to spare, so that it is not evicted by its next token.
                if group.fits(replica, 0, min(blocks + (1 if replica.sequences else 0), group.shape.blocks)):
                    self.waiting.pop(0)
                    self._place(sequence, replica, blocks)
                    break
            else:
                return

    def _place(self, sequence, replica, blocks):
        sequence.slot = self.free_slots.pop()
        sequence.replica, sequence.blocks = replica.number, blocks
        self.running[sequence.slot] = sequence
        replica.sequences.append(sequence)
        self.group.count(sequence, 0, blocks, 1)
        if self.next_blocks is not None:
            self.next_blocks.joined(sequence)

    def remove(self, sequence):
        """It holds no cache any more, wherever it goes from here."""
        if self.next_blocks is not None:
            self.next_blocks.left(sequence)
        self.group.count(sequence, 0, sequence.blocks, -1)
        self.group.replicas[sequence.replica].sequences.remove(sequence)
        del self.running[sequence.slot]
        self.free_slots.append(sequence.slot)
        self.group.send_all({"op": "free", "slots": [sequence.slot]})
        sequence.slot = -1

    def evict(self, sequence):
        self.remove(sequence)
        sequence.evict()
        self.evicted += 1
        bisect.insort(self.waiting, sequence, key=lambda each: each.number)

    def fill(self):
        """Sends every step that can be sent."""
        self.admit()
        for replica in self.group.replicas:
            while replica.in_flight < replica.depth and self._send_step(replica):
                pass

    def _send_step(self, replica):
        """One step of sequences that are on no other. False: there is nothing to do."""
        for sequence in [each for each in replica.sequences if each.stream.cancelled and not each.in_flight]:
            self.remove(sequence)
            sequence.stream.end("cancelled")
        ready = [each for each in replica.sequences if not each.in_flight]
        ready.sort(key=lambda each: each.number)
        share = -(-len(replica.sequences) // replica.depth)  # so that every stage has work
        step = Step()
        step.rows, step.sampled, step.parts = [], [], {}
        slots, tokens, positions, sample = [], [], [], []
        # A shift waits for the steps that are on their way: no long ones shortly before it.
        room = min(self.group.options.prefill_rows, SHORT_STEP_ROWS if self.next_blocks is not None else 1 << 30)
        for sequence in ready:
            if len(step.rows) >= share:
                break
            if sequence.slot < 0 or (sequence.pending > 1 and room <= 0):
                continue
            count = 1 if sequence.pending == 1 else min(sequence.pending, room)
            if not self._grow(sequence, replica, blocks_of(sequence.cached + count), step):
                continue
            room -= count if sequence.pending > 1 else 0
            first = sequence.cached
            slots += [sequence.slot] * count
            tokens += sequence.tokens[first:first + count]
            positions += range(first, first + count)
            if first + count == len(sequence.tokens):
                sample.append(len(slots) - 1)
                step.sampled.append(sequence)
            step.rows.append((sequence, count))
            sequence.in_flight = True
        if not step.rows:
            return False
        asked = [sequence.request for sequence in step.sampled]
        batch = Batch(slots, tokens, positions, sample, [request.seed for request in asked],
                      [request.temperature for request in asked], [self._whole(request) for request in asked])
        head, blob = batch.pack()
        step.number, step.replica, step.sent = self.next_step, replica, time.monotonic()
        self.next_step += 1
        head.update(op="step", epoch=self.group.epoch, step=step.number, replica=replica.number)
        self.steps[step.number] = step
        replica.in_flight += 1
        self.group.send_all(head, blob, replica.ranks)
        return True

    @staticmethod
    def _whole(request):
        return request.top_p < 1 and request.temperature > 0

    def _grow(self, sequence, replica, blocks, step):
        """Room for it up to `blocks`; makes some by evicting the youngest. False: not in this step, or not any more."""
        if blocks <= sequence.blocks:
            return True
        while not self.group.fits(replica, sequence.blocks, blocks):
            others = [each for each in replica.sequences if not each.in_flight]
            youngest = max(others, key=lambda each: each.number)
            if youngest is sequence and len(replica.sequences) == 1 and not any(self.group.extra):
                if self.group.is_short:
                    self.evict(sequence)
                    return False
                self.remove(sequence)
                sequence.stream.end(f"the cache of a rank cannot hold {sequence.cached + 1} positions")
                return False
            self.evict(youngest)
            if youngest is sequence:
                return False
        self.group.count(sequence, sequence.blocks, blocks, 1)
        sequence.blocks = blocks
        return True

    def sampled(self, rank, head, blob):
        """A rank of a last stage has answered. True: the step is complete."""
        step = self.steps.get(head["step"])
        if step is None or head["epoch"] != self.group.epoch:
            return False
        step.parts[rank] = Sampled.unpack(head, blob)
        if len(step.parts) < len(step.replica.last_ranks):
            return False
        del self.steps[step.number]
        step.replica.in_flight -= 1
        self.last_result = step.replica.idle_since = time.monotonic_ns()
        self.steps_done += 1
        parts = [step.parts[number] for number in step.replica.last_ranks]
        for sequence, count in step.rows:
            sequence.in_flight = False
            sequence.cached += count
        if step.sampled:
            ids, margins = choose(parts)
            whole = 0
            for i, sequence in enumerate(step.sampled):
                token, margin = int(ids[i]), float(margins[i])
                request = sequence.request
                if self._whole(request):
                    row = [value for part in parts for value in part.logits[whole]]
                    whole += 1
                    token, margin = self._by_top_p(row, sequence)
                self._token(sequence, token, margin)
        return True

    @staticmethod
    def _by_top_p(row, sequence):
        request = sequence.request
        return choose_top_p(np.array(row, np.float32), request.seed, len(sequence.tokens), request.temperature, request.top_p)

    def _token(self, sequence, token, margin):
        if sequence.stream.cancelled:
            self.remove(sequence)
            sequence.stream.end("cancelled")
            return
        over = token in sequence.ends
        if not over:
            sequence.tokens.append(token)
            self.tokens += 1
            sequence.stream.put(token, margin)
            self.load.told(sequence, time.monotonic())
            over = (len(sequence.tokens) - sequence.prompt_length >= sequence.request.max_tokens or
                    len(sequence.tokens) >= self.group.shape.positions)
        if over:
            self.load.ended(sequence, time.monotonic())
            self.remove(sequence)
            sequence.stream.end()

    def forget_steps(self):
        """What was on its way is void; its rows are sent again."""
        self.steps.clear()
        for replica in self.group.replicas:
            replica.in_flight = 0
        for sequence in self.running.values():
            sequence.in_flight = False

    def oldest_step(self):
        return min((step.sent for step in self.steps.values()), default=None)

    def fail_all(self, why):
        for sequence in self.waiting + list(self.running.values()):
            sequence.stream.end(why)
        self.waiting, self.running, self.steps = [], {}, {}
