"""Fits positive parameters of a model to measured times: Levenberg and Marquardt's least squares on logarithms, so that 5 % count alike
for a step of 2 ms and one of 200 ms, and no parameter can fall below zero. numpy and standard library only."""
import math
import typing

import numpy as np

STEP = 0.05          # of a parameter's logarithm, for the slopes: above the rounding of the simulator's histograms
MOST_CHANGE = 1.0    # of a logarithm in one round
ENOUGH = 1e-3        # a round that betters the sum of squares by less is the last one


class Fit(typing.NamedTuple):
    values: dict       # of the parameters
    residuals: list    # predicted / measured - 1 of each
    rounds: int

    def mean_error(self):
        return sum(map(abs, self.residuals)) / len(self.residuals)


def fit(start, predict, measured, most_rounds=12):
    """`start`: {name: value above 0}. `predict(values)`: a list as long as `measured`, all above 0. A parameter that changes nothing
    stays where it was. Errors: ValueError."""
    if not measured or len(measured) < len(start) or min(measured) <= 0 or min(start.values()) <= 0:
        raise ValueError("fitting needs at least as many times as parameters, and all of them above 0")
    names = list(start)
    at = np.log([start[name] for name in names])
    wanted = np.log(measured)

    def off(logs):
        return np.log(predict({name: math.exp(value) for name, value in zip(names, logs)})) - wanted

    here, damping, rounds = off(at), 1e-2, 0
    for rounds in range(1, most_rounds + 1):
        slopes = np.empty((len(measured), len(names)))
        for i in range(len(names)):
            beside = at.copy()
            beside[i] += STEP
            slopes[:, i] = (off(beside) - here) / STEP
        square, better = slopes.T @ slopes, None
        for _ in range(6):
            change = -np.linalg.solve(square + damping * (np.diag(np.diag(square)) + 1e-6 * np.eye(len(names))), slopes.T @ here)
            there = at + np.clip(change, -MOST_CHANGE, MOST_CHANGE)
            then = off(there)
            if then @ then < here @ here:
                better = there, then
                break
            damping *= 10
        if better is None:
            break
        gained = 1 - (better[1] @ better[1]) / max(here @ here, 1e-300)
        (at, here), damping = better, damping / 10
        if gained < ENOUGH:
            break
    return Fit({name: float(math.exp(value)) for name, value in zip(names, at)}, [float(math.expm1(value)) for value in here], rounds)
