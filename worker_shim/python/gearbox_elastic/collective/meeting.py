"""Where ranks of several hosts meet: what torch.distributed would keep in a store of its own, with a port of its own, goes through the
driver, as messages on the streams that are there already.

A rank that has something to tell sends it to its driver, which tells all others; each keeps what it has heard, by epoch.
"""
import threading

import torch.distributed as dist


class Meetings:
    """What this rank has heard, and which epochs are over. Threads: any."""

    def __init__(self, wire):
        self._wire = wire
        self._changed = threading.Condition()
        self._kept = {}       # epoch → {key: bytes}
        self._over = set()
        self._first = 0       # epochs before this one are over, too

    def is_over(self, epoch):
        return epoch in self._over or epoch < self._first

    def heard(self, epoch, key, value):
        with self._changed:
            if not self.is_over(epoch):
                self._kept.setdefault(epoch, {})[key] = value
                self._changed.notify_all()

    def over(self, epoch):
        with self._changed:
            self._over.add(epoch)
            self._kept.pop(epoch, None)
            self._changed.notify_all()

    def over_before(self, epoch):
        with self._changed:
            self._first = max(self._first, epoch)
            self._over = {each for each in self._over if each >= self._first}
            self._kept = {each: kept for each, kept in self._kept.items() if each >= self._first}
            self._changed.notify_all()

    def tell(self, epoch, key, value):
        """Errors: WireClosed."""
        self.heard(epoch, key, value)
        self._wire.send({"op": "met", "epoch": epoch, "key": key}, value)

    def wait(self, epoch, key, limit_s):
        """Errors: RuntimeError: the epoch is over, or nobody has told it in time."""
        with self._changed:
            there = self._changed.wait_for(lambda: self.is_over(epoch) or key in self._kept.get(epoch, ()), limit_s)
            if self.is_over(epoch):
                raise RuntimeError("this epoch is over")
            if not there:
                raise RuntimeError(f"a rank has not told in {limit_s:.0f} s where it listens")
            return self._kept[epoch][key]


class MeetingStore(dist.Store):
    """What gloo asks of a store, for one epoch."""

    def __init__(self, meetings, epoch, limit_s):
        super().__init__()
        self._meetings, self._epoch, self._limit_s = meetings, epoch, limit_s

    def set(self, key, value):
        self._meetings.tell(self._epoch, key, bytes(value) if not isinstance(value, str) else value.encode())

    def get(self, key):
        return self._meetings.wait(self._epoch, key, self._limit_s)

    def wait(self, keys, timeout=None):
        for key in keys:
            self._meetings.wait(self._epoch, key, self._limit_s)
