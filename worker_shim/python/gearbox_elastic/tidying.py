"""Tidying: makes the free cache of each rank one piece, a little at a time, while there is not much to do.

The largest free piece is what plans are priced by. An order goes through the ranks' step stream, so it lies between two steps; and the
prices of a shift, for which its driver waits before anybody reads another rank's cache, lie behind it.
"""
EVERY_S = 1.0
MOST_UNITS = 64  # of a rank at once: some hundred kilobytes to copy, less than a step takes


class Tidying:
    """Threads: the driver's."""

    def __init__(self, every_s=EVERY_S):
        self.every_s = every_s
        self.moved = 0           # units, of all ranks, since the start
        self._looked = 0.0
        self._arrived = -1       # requests, at the last look
        self._full = False       # a rank has moved as much as it might: there is more

    def is_quiet(self, batching):
        """Nobody waits, nobody has come since the last look, and at most half of the places are taken."""
        quiet = not batching.waiting and batching.load.arrived == self._arrived
        self._arrived = batching.load.arrived
        return quiet and 0 < len(batching.running) <= (batching.group.options.max_running + 1) // 2

    def tick(self, now, batching):
        """`batching` runs, and no shift is going on."""
        if now - self._looked < (self.every_s / 10 if self._full else self.every_s):
            return
        self._looked = now
        if self.is_quiet(batching):
            self._full = False
            batching.group.send_all({"op": "defragment", "most": MOST_UNITS})

    def defragmented(self, units):
        self.moved += units
        self._full = self._full or units >= MOST_UNITS
