"""Which token comes next. Greedy is the greatest logit; sampling is the greatest of logit / temperature + Gumbel noise.

The noise is a function of (seed, position, token id) alone: it needs no state, and each rank draws it for its own slice of the
vocabulary. So the same seed gives the same tokens in every gear, and after any number of shifts. Ties go to the lowest id.
"""
import numpy as np

from .batch import Sampled

_U = np.uint64


def _mixed(value):
    """splitmix64's finaliser: every bit of the input reaches every bit of the output."""
    value = (value ^ (value >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> _U(27))) * _U(0x94D049BB133111EB)
    return value ^ (value >> _U(31))


def gumbel(seeds, positions, first, end):
    """Noise for the tokens first..end-1: an array [rows, end - first] of float64."""
    with np.errstate(over="ignore"):
        key = _mixed(np.asarray(seeds, _U) + _U(0x9E3779B97F4A7C15))
        key = _mixed(key ^ (np.asarray(positions).astype(_U) * _U(0xD1B54A32D192ED03) + _U(0x632BE59BD9B4E019)))
        bits = _mixed(key[:, None] + np.arange(first, end, dtype=_U) * _U(0x9E3779B97F4A7C15))
    uniform = ((bits >> _U(11)).astype(np.float64) + 0.5) * 2.0 ** -53
    return -np.log(-np.log(uniform))


def candidates(logits, first, batch):
    """Sampled of a slice of the vocabulary that begins at `first`; logits: float32 [samples, width] of the sampled rows."""
    if logits.shape[1] == 0:  # a rank without a slice of the vocabulary
        none = np.full(len(logits), -np.inf)
        return Sampled(none, np.zeros(len(logits), np.int32), none, logits[np.flatnonzero(batch.whole)])
    values = logits.astype(np.float64)
    hot = np.flatnonzero(batch.temperatures > 0)
    if len(hot):
        values[hot] = values[hot] / batch.temperatures[hot, None].astype(np.float64) + gumbel(
            batch.seeds[hot], batch.positions[batch.sample[hot]] + 1, first, first + logits.shape[1])
    rows = np.arange(len(values))
    ids = values.argmax(1)
    best = values[rows, ids]
    values[rows, ids] = -np.inf
    second = values.max(1)
    return Sampled(best, ids + first, second, logits[np.flatnonzero(batch.whole)])


def choose(parts):
    """One token of each sampled row from the candidates of all slices, in the order of the vocabulary: (ids, margins)."""
    best, second, ids = parts[0].best.copy(), parts[0].second.copy(), parts[0].ids.copy()
    for part in parts[1:]:
        above = part.best > best  # equal: the earlier slice has the lower id
        second = np.where(above, np.maximum(best, part.second), np.maximum(second, part.best))
        ids = np.where(above, part.ids, ids)
        best = np.where(above, part.best, best)
    return ids, best - second


def choose_top_p(logits, seed, position, temperature, top_p):
    """As choose(), for one row of which all logits are there: only among the likeliest tokens that together have `top_p`."""
    logits = logits.astype(np.float64)
    scaled = logits / temperature
    weights = np.exp(scaled - scaled.max())
    order = np.argsort(-weights, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    kept = order[:int(np.searchsorted(reached, top_p)) + 1]
    values = np.full(len(logits), -np.inf)
    values[kept] = scaled[kept] + gumbel([seed], [position], 0, len(logits))[0][kept]
    best = int(values.argmax())
    top = values[best]
    values[best] = -np.inf
    second = values.max()
    return best, float(top - second) if np.isfinite(second) else float("inf")
