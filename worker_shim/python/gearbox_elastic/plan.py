"""Plan: which rank holds which part of the model. Every gear is one, and so is every uneven split.

A plan is a list of replicas; each has stages (ranges of layers, in order); each stage has ranks. A rank has a range of kv heads
(its query heads follow), of hidden columns, of the vocabulary (in the first stage embedding rows, in the last one the classifier),
and a part of the positions: ranks of one stage with the same heads share the blocks of 16 positions out among them.

    {"gear": 2, "replicas": [{"weight": 1, "stages": [{"layers": [0, 5], "ranks": [
        {"rank": 0, "kv_heads": [0, 2], "hidden": [0, 86], "vocab": [0, 256], "positions": {"part": 0, "weights": [1]}}, ...]}]}]}
"""
import dataclasses
import typing

MOST_RANKS = 64
MOST_WEIGHT = 64  # the sum of the weights of positions: the pattern of blocks is that long


class PlanError(ValueError):
    """A plan that cannot be, with the place."""


def even(total, shares):
    """`total` cut into len(shares) whole numbers in proportion, by largest remainders; earlier ones first where equal."""
    whole = sum(shares)
    exact = [total * share / whole for share in shares]
    cut = [int(value) for value in exact]
    order = sorted(range(len(shares)), key=lambda i: (cut[i] - exact[i], i))
    for i in order[:total - sum(cut)]:
        cut[i] += 1
    return cut


def ranges(sizes):
    """Sizes as ranges that follow each other."""
    at, found = 0, []
    for size in sizes:
        found.append((at, at + size))
        at += size
    return found


@dataclasses.dataclass(frozen=True)
class RankPart:
    rank: int
    kv_heads: typing.Tuple[int, int]
    hidden: typing.Tuple[int, int]
    vocab: typing.Tuple[int, int]
    part: int = 0                            # which of those that share the positions
    weights: typing.Tuple[int, ...] = (1,)   # how many blocks of each round each of them takes

    def as_dict(self):
        return {"rank": self.rank, "kv_heads": list(self.kv_heads), "hidden": list(self.hidden), "vocab": list(self.vocab),
                "positions": {"part": self.part, "weights": list(self.weights)}}


@dataclasses.dataclass(frozen=True)
class Stage:
    layers: typing.Tuple[int, int]
    ranks: typing.Tuple[RankPart, ...]

    def as_dict(self):
        return {"layers": list(self.layers), "ranks": [part.as_dict() for part in self.ranks]}


@dataclasses.dataclass(frozen=True)
class Replica:
    stages: typing.Tuple[Stage, ...]
    weight: float = 1.0                      # its share of the sequences

    @property
    def ranks(self):
        return [part.rank for stage in self.stages for part in stage.ranks]

    def as_dict(self):
        return {"weight": self.weight, "stages": [stage.as_dict() for stage in self.stages]}


@dataclasses.dataclass(frozen=True)
class Plan:
    replicas: typing.Tuple[Replica, ...]
    gear: typing.Optional[int] = None        # for people; the engine never looks at it

    @property
    def ranks(self):
        return [rank for replica in self.replicas for rank in replica.ranks]

    def as_dict(self):
        return {"gear": self.gear, "replicas": [replica.as_dict() for replica in self.replicas]}


class _Reader:
    """Takes a JSON value apart, and names the place of what is wrong."""

    def __init__(self, value, place):
        self.value, self.place = value, place

    def fail(self, why):
        raise PlanError(f"{self.place}: {why}")

    def keys(self, required, optional=()):
        if not isinstance(self.value, dict):
            self.fail("is no object")
        for key in required:
            if key not in self.value:
                self.fail(f"has no '{key}'")
        for key in self.value:
            if key not in required and key not in optional:
                self.fail(f"has an unknown key '{key}'")
        return self

    def at(self, key):
        return _Reader(self.value[key], f"{self.place}.{key}" if isinstance(key, str) else f"{self.place}[{key}]")

    def each(self, most):
        if not isinstance(self.value, list) or not 1 <= len(self.value) <= most:
            self.fail(f"is no list of 1 to {most}")
        return [self.at(i) for i in range(len(self.value))]

    def integer(self, low, high):
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            self.fail(f"is no whole number from {low} to {high}")
        return self.value

    def number(self, low, high):
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not low <= self.value <= high:
            self.fail(f"is no number from {low} to {high}")
        return self.value

    def span(self, high):
        if not isinstance(self.value, list) or len(self.value) != 2:
            self.fail("is no [first, end]")
        first, end = self.at(0).integer(0, high), self.at(1).integer(0, high)
        if end < first:
            self.fail(f"ends at {end}, before its beginning {first}")
        return (first, end)


def _rank_of(reader, shape):
    reader.keys(("rank", "kv_heads", "hidden", "vocab"), ("positions",))
    part, weights = 0, (1,)
    if "positions" in reader.value:
        positions = reader.at("positions").keys(("part", "weights"))
        weights = tuple(each.integer(1, MOST_WEIGHT) for each in positions.at("weights").each(MOST_RANKS))
        if sum(weights) > MOST_WEIGHT:
            positions.at("weights").fail(f"sum up to more than {MOST_WEIGHT}")
        part = positions.at("part").integer(0, len(weights) - 1)
    return RankPart(reader.at("rank").integer(0, MOST_RANKS - 1), reader.at("kv_heads").span(shape.kv_heads),
                    reader.at("hidden").span(shape.hidden), reader.at("vocab").span(shape.vocab), part, weights)


def plan_of_dict(value, shape):
    """Reads and validates. Errors: PlanError."""
    reader = _Reader(value, "plan").keys(("replicas",), ("gear",))
    gear = value.get("gear")
    if gear is not None:
        reader.at("gear").integer(1, 6)
    replicas = []
    for replica in reader.at("replicas").each(MOST_RANKS):
        replica.keys(("stages",), ("weight",))
        stages = []
        for stage in replica.at("stages").each(MOST_RANKS):
            stage.keys(("layers", "ranks"))
            stages.append(Stage(stage.at("layers").span(shape.layers),
                                tuple(_rank_of(rank, shape) for rank in stage.at("ranks").each(MOST_RANKS))))
        weight = replica.at("weight").number(0.01, 1000) if "weight" in replica.value else 1.0
        replicas.append(Replica(tuple(stages), float(weight)))
    return validated(Plan(tuple(replicas), gear), shape)


def _covers(spans, end, place, what):
    at = 0
    for first, last in sorted(spans):
        if first != at:
            raise PlanError(f"{place}: {what} {min(first, at)} to {max(first, at) - 1} are held by {'nobody' if first > at else 'two'}")
        at = last
    if at != end:
        raise PlanError(f"{place}: {what} {at} to {end - 1} are held by nobody")


def validated(plan, shape):
    """The plan itself, when it is whole for `shape`. Errors: PlanError."""
    seen = set()
    for r, replica in enumerate(plan.replicas):
        at = 0
        for s, stage in enumerate(replica.stages):
            place = f"plan.replicas[{r}].stages[{s}]"
            if stage.layers[0] != at or stage.layers[1] <= at:
                raise PlanError(f"{place}.layers: begin at {stage.layers[0]} and end at {stage.layers[1]}; layer {at} is due")
            at = stage.layers[1]
            _validate_stage(stage, shape, place, s == 0, s == len(replica.stages) - 1)
            for part in stage.ranks:
                if part.rank in seen:
                    raise PlanError(f"{place}: rank {part.rank} stands twice in the plan")
                seen.add(part.rank)
        if at != shape.layers:
            raise PlanError(f"plan.replicas[{r}]: layers {at} to {shape.layers - 1} are held by nobody")
    return plan


def _validate_stage(stage, shape, place, first, last):
    shared = {}
    for part in stage.ranks:
        if part.kv_heads[0] == part.kv_heads[1]:
            raise PlanError(f"{place}: rank {part.rank} has no kv head")
        shared.setdefault(part.kv_heads, []).append(part)
    _covers(list(shared), shape.kv_heads, place, "kv heads")
    for heads, parts in shared.items():
        if any(part.weights != parts[0].weights for part in parts):
            raise PlanError(f"{place}: the ranks of kv heads {list(heads)} do not agree on the weights of positions")
        if sorted(part.part for part in parts) != list(range(len(parts[0].weights))):
            raise PlanError(f"{place}: the positions of kv heads {list(heads)} are not shared out once each")
    _covers([part.hidden for part in stage.ranks if part.hidden[0] < part.hidden[1]], shape.hidden, place, "hidden columns")
    spans = [part.vocab for part in stage.ranks if part.vocab[0] < part.vocab[1]]
    if first or last:
        _covers(spans, shape.vocab, place, "vocabulary rows")
    elif spans:
        raise PlanError(f"{place}: a stage in the middle has no use for vocabulary rows")
