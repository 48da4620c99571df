"""The six gears as plans, even or uneven: plan_of_gear()."""
from .plan import Plan, PlanError, RankPart, Replica, Stage, even, ranges, validated

MOST_PARTS = 16  # shares of positions are rounded to sixteenths


def _at_least(total, shares, least, what):
    """even(), but nobody gets less than `least`."""
    if total < least * len(shares):
        raise PlanError(f"{len(shares)} ranks cannot share {total} {what}")
    return [least + more for more in even(total - least * len(shares), shares)] if len(set(shares)) == 1 else \
        _lifted(even(total, shares), least)


def _lifted(sizes, least):
    while min(sizes) < least:
        sizes[sizes.index(max(sizes))] -= 1
        sizes[sizes.index(min(sizes))] += 1
    return sizes


def _columns(count, shape, tensor):
    """How many of `count` ranks each column of a stage has: they share its kv heads, and the positions among them. Where there are fewer
    kv heads than columns are asked for, each column has one, and some have more ranks than others."""
    return [count // tensor] * tensor if tensor <= shape.kv_heads else even(count, [1] * shape.kv_heads)


def _stage(layers, numbers, shares, shape, tensor, first, last):
    """A stage of len(numbers) ranks, cut into `tensor` columns of heads."""
    columns = ranges(_columns(len(numbers), shape, tensor))
    heads = ranges(_at_least(shape.kv_heads, [sum(shares[begin:end]) for begin, end in columns], 1, "kv heads"))
    hidden = ranges(even(shape.hidden, shares))
    vocab = ranges(even(shape.vocab, shares)) if first or last else [(0, 0)] * len(numbers)
    ranks = []
    for (begin, end), own_heads in zip(columns, heads):
        own = shares[begin:end]
        weights = (1,) * len(own) if len(set(own)) == 1 else tuple(_lifted(even(MOST_PARTS, own), 1))
        ranks += [RankPart(numbers[i], own_heads, hidden[i], vocab[i], i - begin, weights) for i in range(begin, end)]
    return Stage(layers, tuple(ranks))


def _replica(numbers, shares, shape, tensor, pipeline):
    """len(numbers) ranks in `pipeline` stages of `tensor` ways; what is left splits the positions."""
    width = len(numbers) // pipeline
    by_stage = [shares[s * width:(s + 1) * width] for s in range(pipeline)]
    layers = ranges(_at_least(shape.layers, [sum(each) for each in by_stage], 1, "layers"))
    return Replica(tuple(
        _stage(layers[s], numbers[s * width:(s + 1) * width], by_stage[s], shape, tensor, s == 0, s == pipeline - 1)
        for s in range(pipeline)), float(sum(shares)))


# gear → (name, the numbers of ranks it can be made with, how one replica of how many ranks is cut: (ranks, tensor, pipeline))
_GEARS = {
    1: ("data parallel", lambda n: True, lambda n: (1, 1, 1)),
    2: ("tensor parallel by 2", lambda n: n % 2 == 0, lambda n: (2, 2, 1)),
    3: ("tensor parallel by 4", lambda n: n % 4 == 0, lambda n: (4, 4, 1)),
    4: ("sequence parallel", lambda n: True, lambda n: (n, 1, 1)),
    5: ("pipeline parallel", lambda n: True, lambda n: (n, 1, n)),
    6: ("hybrid", lambda n: n in (4, 8), lambda n: (n, 2, 2)),
}
_NEEDS = {2: "an even number", 3: "a multiple of 4", 6: "4 or 8"}


def gear_name(gear):
    return _GEARS[gear][0]


def plan_of_gear(gear, ranks, shape, shares=None):
    """`shares`: what each rank can carry beside the others, e.g. [2, 1, 1, 1]; even where it is not given.

    Errors: PlanError, which says why this gear cannot be made of so many ranks.
    """
    if gear not in _GEARS:
        raise PlanError(f"gear {gear!r} is none of 1 to 6")
    shares = [1] * ranks if shares is None else list(shares)
    if len(shares) != ranks or min(shares) <= 0:
        raise PlanError(f"gear {gear}: shares must be {ranks} numbers above 0")
    name, possible, cut = _GEARS[gear]
    if not possible(ranks):
        raise PlanError(f"gear {gear} ({name}) is made of {_NEEDS[gear]} of ranks, not of {ranks}")
    size, tensor, pipeline = cut(ranks)
    try:
        replicas = tuple(_replica(list(range(at, at + size)), shares[at:at + size], shape, tensor, pipeline)
                         for at in range(0, ranks, size))
        return validated(Plan(replicas, gear), shape)
    except PlanError as error:
        raise PlanError(f"gear {gear} ({name}) with {ranks} ranks: {error}") from None
