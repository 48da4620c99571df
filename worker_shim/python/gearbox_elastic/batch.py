"""Batch: the rows of one step, as they travel from the driver to the ranks: any mix of prefill and decode, of several sequences."""
import numpy as np


class Batch:
    """`slots`, `tokens`, `positions`: one of each for every row; rows of one sequence follow each other, positions ascending.
    `sample`: rows whose next token is wanted, with `seeds`, `temperatures` (0: the greatest logit) and `whole` (all logits)."""

    def __init__(self, slots, tokens, positions, sample=(), seeds=(), temperatures=(), whole=()):
        self.slots = np.asarray(slots, np.int32)
        self.tokens = np.asarray(tokens, np.int32)
        self.positions = np.asarray(positions, np.int32)
        self.sample = np.asarray(sample, np.int32)
        self.seeds = np.asarray(seeds, np.uint64)
        self.temperatures = np.asarray(temperatures, np.float32)
        self.whole = np.asarray(whole, np.uint8)

    def pack(self):
        return {"rows": len(self.slots), "samples": len(self.sample)}, b"".join(
            (self.seeds.tobytes(), self.slots.tobytes(), self.tokens.tobytes(), self.positions.tobytes(), self.sample.tobytes(),
             self.temperatures.tobytes(), self.whole.tobytes()))

    @classmethod
    def unpack(cls, head, blob):
        rows, samples = head["rows"], head["samples"]
        at = 0

        def take(dtype, count):
            nonlocal at
            found = np.frombuffer(blob, dtype, count, at) if count else np.empty(0, dtype)
            at += found.nbytes
            return found

        seeds = take(np.uint64, samples)
        slots, tokens, positions = take(np.int32, rows), take(np.int32, rows), take(np.int32, rows)
        return cls(slots, tokens, positions, take(np.int32, samples), seeds, take(np.float32, samples), take(np.uint8, samples))


class Sampled:
    """What a rank of the last stage found in its slice of the vocabulary: the best value, its id and the second best value of each
    sampled row, and the logits of the rows that asked for all."""

    def __init__(self, best, ids, second, logits):
        self.best, self.ids, self.second, self.logits = best, ids, second, logits

    def pack(self):
        return {"samples": len(self.ids), "whole": list(self.logits.shape)}, b"".join(
            (self.best.astype(np.float64).tobytes(), self.second.astype(np.float64).tobytes(),
             self.ids.astype(np.int32).tobytes(), self.logits.astype(np.float32).tobytes()))

    @classmethod
    def unpack(cls, head, blob):
        n, (rows, columns) = head["samples"], head["whole"]
        if n == 0:
            return cls(np.empty(0), np.empty(0, np.int32), np.empty(0), np.empty((0, 0), np.float32))
        logits = np.frombuffer(blob, np.float32, rows * columns, 20 * n).reshape(rows, columns) if rows * columns else \
            np.empty((rows, columns), np.float32)
        return cls(np.frombuffer(blob, np.float64, n), np.frombuffer(blob, np.int32, n, 16 * n),
                   np.frombuffer(blob, np.float64, n, 8 * n), logits)
