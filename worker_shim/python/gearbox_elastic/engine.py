"""Engine: what a rank process must be able to do so that a group of them can change its plan while it generates.

The driver and the rank's loop (rank.py) know nothing of models but this. `llama_engine.LlamaEngine` is the one that is shipped;
docs/engines.md tells how to bring another.
"""
import abc
import dataclasses
import typing


@dataclasses.dataclass
class Price:
    """What a plan would take on this rank, beside what it holds now."""
    fits: bool
    why: str                  # of a no
    weight_bytes: int         # to load beside the old ones
    units: int                # of cache, for the sequences as they are
    buffer_bytes: int         # while a step runs
    free_units: int
    largest_run: int          # of free units

    def as_dict(self):
        return dataclasses.asdict(self)


@dataclasses.dataclass
class Moved:
    """What a copy of cache has brought to this rank."""
    units: int = 0
    bytes: int = 0


class Move(typing.NamedTuple):
    """One sequence in a change of plan: `first`..`end` are its blocks of 16 positions."""
    slot: int
    old: int                  # its replica in the plan that runs; -1: it has no cache
    new: int                  # its replica in the next one
    first: int
    end: int


class Engine(abc.ABC):
    """Threads: all on the rank's main thread, but prepare(), which runs beside steps on a thread of its own.

    An engine is made with `settings` (a dict: "rank", "shape", "checkpoint", "slots", "units", "budget_bytes", "step_rows" ...) and the
    descriptor of its arena. What it raises in step() but CollectiveError ends the rank, which the driver then replaces.
    """

    @classmethod
    @abc.abstractmethod
    def shape_of(cls, checkpoint):
        """The driver asks for it, to check plans and count cache. Errors: ValueError, OSError."""

    @classmethod
    @abc.abstractmethod
    def arena_bytes(cls, shape, slots, units):
        """How large the driver makes the shared memory of each rank's cache."""

    @abc.abstractmethod
    def attach(self, rank, units, descriptor):
        """Another rank's arena, to copy from; again when that rank was replaced. The descriptor is the engine's to close."""

    @abc.abstractmethod
    def build(self, plan, epoch, links, keep):
        """Takes this plan at once: at the beginning, and after a rank was lost. `keep`: the plan is the one that ran, and so is the
        cache; else all cache is given up. Whatever was being prepared is dropped."""

    @abc.abstractmethod
    def price(self, plan, moves):
        """Price of a plan; changes nothing."""

    @abc.abstractmethod
    def prepare(self, plan, epoch, links):
        """Loads the weights of the next plan beside those that run. Errors: any; they abort the shift."""

    @abc.abstractmethod
    def import_cache(self, moves, brought=None):
        """Takes these blocks over for the prepared plan, from whoever has them now; they are full and do not change any more, and
        steps go on meanwhile. `brought`: {(number of the move, owner): what its export_cache() gave}, of the owners on other hosts; it is
        given only where there are some. Returns Moved."""

    @abc.abstractmethod
    def export_cache(self, move, rank):
        """Bytes of what this rank owns of a move's blocks, and `rank`, on another host, shall own by the prepared plan. Changes nothing;
        steps go on before and after."""

    @abc.abstractmethod
    def switch(self, moves, brought=None):
        """The prepared plan is now the one that runs; what import_cache() has not brought is taken over now: nobody steps. The old
        owners' cache stays readable until release(). Returns Moved."""

    @abc.abstractmethod
    def release(self):
        """Gives up the old plan's weights and cache."""

    @abc.abstractmethod
    def abort(self):
        """Gives up what was prepared; the plan that runs is not touched. May come at any time before switch(), also twice."""

    @abc.abstractmethod
    def free(self, slots):
        """These sequences are over."""

    @abc.abstractmethod
    def step(self, batch):
        """One step. Returns Sampled on the ranks of the last stage, else None. Errors: CollectiveError: the epoch is over."""

    @abc.abstractmethod
    def defragment(self, most=None):
        """Makes the free cache one piece, between two steps and while no shift is going on; moves at most `most` units, so that the next step
        is not late. Returns how many were moved; the driver asks again while they are as many as it allowed."""

    @abc.abstractmethod
    def figures(self):
        """A dict for people and tests: weight_bytes, moved_bytes, units, free_units ..."""
