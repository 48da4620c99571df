"""Sequence: one prompt and what has been made of it; Stream: its tokens, as whoever asked for them takes them."""
import collections
import dataclasses
import threading
import time
import typing

from .shape import BLOCK


class Refused(Exception):
    """A request that cannot be served as it is."""


class Overloaded(Exception):
    """Too many wait already."""


@dataclasses.dataclass
class Request:
    prompt: typing.Sequence[int]
    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    ends: typing.Sequence[int] = ()     # token ids that end it; they are not handed on


class Stream:
    """Threads: the driver's puts, any one takes."""

    def __init__(self, changed=None):
        """`changed()` is called, by the driver's thread, when there is something to take."""
        self._tokens = collections.deque()  # (id, margin)
        self._changed = threading.Condition()
        self._tell = changed or (lambda: None)
        self._over = False
        self.error = None
        self.overloaded = False             # that is the reason of the error
        self.cancelled = False

    def put(self, token, margin):
        with self._changed:
            self._tokens.append((token, margin))
            self._changed.notify_all()
        self._tell()

    def end(self, error=None):
        with self._changed:
            if not self._over:
                self._over, self.error = True, error
            self._changed.notify_all()
        self._tell()

    def take(self, timeout):
        """([(id, margin)], over): all that has come; waits for something until `timeout` seconds are over."""
        until = time.monotonic() + timeout
        with self._changed:
            while not self._tokens and not self._over:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            found = list(self._tokens)
            self._tokens.clear()
            return found, self._over

    def all(self, timeout):
        """Every token up to the end. Errors: RuntimeError with the reason; TimeoutError."""
        until, found, over = time.monotonic() + timeout, [], False
        while not over:
            more, over = self.take(max(0.0, until - time.monotonic()))
            found += more
            if not over and time.monotonic() >= until:
                raise TimeoutError(f"{len(found)} tokens, and not the last one")
        if self.error:
            raise RuntimeError(self.error)
        return found


class Sequence:
    def __init__(self, number, request, stream):
        self.number, self.request, self.stream = number, request, stream
        self.tokens = list(request.prompt)
        self.prompt_length = len(self.tokens)
        self.cached = 0            # positions whose keys and values are in the cache
        self.blocks = 0            # blocks that the ranks hold units of
        self.slot = -1
        self.replica = -1
        self.next_replica = -1     # in the plan that is being prepared
        self.imported = 0          # blocks that the next owners have
        self.in_flight = False
        self.ends = frozenset(request.ends)
        self.came_at, self.first_at = 0.0, None  # monotonic seconds, of load.py

    @property
    def pending(self):
        """Rows that are to be computed before its next token is known."""
        return len(self.tokens) - self.cached

    @property
    def full_blocks(self):
        return self.cached // BLOCK

    def evict(self):
        """Its cache is gone: prompt and tokens so far are to be computed anew; what was handed on is not handed on again."""
        self.cached = self.blocks = self.imported = 0
        self.replica = self.next_replica = -1
        self.in_flight = False


def blocks_of(positions):
    return -(-positions // BLOCK)
