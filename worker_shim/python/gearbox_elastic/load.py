"""Load: what comes to a group and how fast it is answered: counters since its start, medians of the last minute."""
import collections
import statistics
import time

SPAN_S = 60.0
MOST_SAMPLES = 1000


class _Median:
    """Of what was added within SPAN_S."""

    def __init__(self):
        self._samples = collections.deque(maxlen=MOST_SAMPLES)

    def add(self, value, now):
        self._samples.append((now, value))

    def value(self, now):
        """None: nothing was added."""
        while self._samples and now - self._samples[0][0] > SPAN_S:
            self._samples.popleft()
        return statistics.median(value for _, value in self._samples) if self._samples else None


class Load:
    """Times are monotonic seconds. Threads: the driver's."""

    def __init__(self):
        self.arrived = self.finished = self.prompt_tokens = self.output_tokens = 0
        self._first, self._each = _Median(), _Median()

    def came(self, sequence, now):
        self.arrived += 1
        self.prompt_tokens += sequence.prompt_length
        sequence.came_at = now

    def told(self, sequence, now):
        """A token of it was handed on."""
        if sequence.first_at is None:
            sequence.first_at = now
            self._first.add((now - sequence.came_at) * 1000, now)

    def ended(self, sequence, now):
        """It is answered whole."""
        count = len(sequence.tokens) - sequence.prompt_length
        self.finished += 1
        self.output_tokens += count
        if count > 1 and sequence.first_at is not None:
            self._each.add((now - sequence.first_at) * 1000 / (count - 1), now)

    def as_dict(self, waiting):
        """`waiting`: the sequences that hold no cache."""
        now = time.monotonic()
        oldest = min((sequence.came_at for sequence in waiting), default=now)
        return {"arrived": self.arrived, "finished": self.finished, "prompt_tokens": self.prompt_tokens,
                "output_tokens": self.output_tokens, "oldest_wait_ms": (now - oldest) * 1000,
                "first_token_ms": self._first.value(now), "per_token_ms": self._each.value(now)}
