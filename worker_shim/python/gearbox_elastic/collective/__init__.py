"""What ranks exchange within a step. Links is the interface; `shared` (memory of one host) and `gloo` (torch.distributed) give it.

All of them add in a way that gives every rank the same bits, so that ranks never disagree on a replicated value.
"""


class CollectiveError(Exception):
    """The epoch is over: a rank is gone, or the driver has ended it. The rank leaves the step and waits for the next message."""


class Links:
    """One rank's connections in one epoch. Threads: the rank's main thread; abort() from any."""

    def __init__(self):
        self.moved_bytes = 0  # what this rank has put in or sent

    def all_reduce(self, x):
        """Sums `x` over the ranks of the stage; may write to `x`, returns the sum. Alone in the stage: `x` itself."""
        raise NotImplementedError

    def gather_positions(self, x):
        """[ranks that share the positions, ...]: each one's `x`, in order."""
        raise NotImplementedError

    def send(self, x):
        """To the ranks of the next stage that take it from this one."""
        raise NotImplementedError

    def receive(self, like):
        """From the stage before, into `like`, which is returned."""
        raise NotImplementedError

    def barrier(self):
        """Waits for the ranks of the stage."""
        raise NotImplementedError

    def abort(self):
        raise NotImplementedError

    def close(self):
        raise NotImplementedError
