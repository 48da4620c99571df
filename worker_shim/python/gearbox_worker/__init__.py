"""What a model may use of the process that serves it. See docs/models.md for the contract.

    class Model:
        def load(self, record, device): ...           # once
        def infer(self, batch): ...                   # a list of {input name: array} -> a list of {output name: array}
        def stream(self, request): ...                # with stream = true in model.toml, in place of infer(): one
                                                      # {input name: array}; yields {output name: array} for each part,
                                                      # or NOTHING_YET
        def example(self): ...                        # optional: one item for the readiness probe
        def close(self): ...                          # optional: called once when the worker ends, within two seconds
"""
import importlib.util
import os

try:
    from _gearbox_worker import empty, note_input_tokens, request_seed, wake
except ImportError:  # outside worker_shim: in a model's own unit tests
    import threading

    _woken = threading.Event()

    def empty(shape, dtype, item=0):
        """An array for an output. Inside worker_shim it lies in shared memory already, so that the answer needs no copy."""
        import numpy
        return numpy.empty(shape, dtype)

    def request_seed(item=0):
        """A number of 64 bits that belongs to the request: the same when it is run again, by another worker, after its node's end."""
        return 0

    def note_input_tokens(tokens, item=0):
        """How long the prompt of the request is, in tokens: `broker explain` and recordings tell it."""

    def wake():
        """Generators that said NOTHING_YET are asked again at once. Any thread."""
        _woken.set()
else:
    _woken = None

ASK_AGAIN_S = 0.01  # as worker_shim does it

__all__ = ["BadInput", "BadPicture", "NOTHING_YET", "Overloaded", "Record", "empty", "note_input_tokens", "package_file", "parts_of", "request_seed", "wake"]


class _NothingYet:
    """What a generator of stream() yields in place of a part when it has none for now: nobody sees it, other generators have their turn, and
    this one is asked again when the model calls wake(), or after 10 ms."""

    def __repr__(self):
        return "NOTHING_YET"


NOTHING_YET = _NothingYet()


def parts_of(stream):
    """For a model's own unit tests: the parts of what stream() gave, without NOTHING_YET."""
    for part in stream:
        if part is not NOTHING_YET:
            yield part
        elif _woken is not None and _woken.wait(ASK_AGAIN_S):
            _woken.clear()


class BadInput(Exception):
    """Raise it (or put it in place of an answer) when the request is at fault and not the model."""
    code = 10  # Errc::bad_input


class BadPicture(BadInput):
    """A picture that is cut, corrupt, empty or of absurd size."""
    code = 14  # Errc::bad_picture


class Overloaded(Exception):
    """Raise it when the model has enough to do for now: the request goes to another worker, or is refused with the advice to come again
    after `retry_after_ms`. It is no fault of the model or of its worker."""
    code = 16  # Errc::overloaded

    def __init__(self, text="the model has enough to do", retry_after_ms=1000):
        super().__init__(text)
        self.retry_after_ms = retry_after_ms


class Record:
    """model.toml as load() gets it: name, version, folder, threads, max_batch."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f"Record({self.__dict__})"


def package_file(package, path):
    """The path of a file that an installed package carries; the package itself is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"package {package} is not installed in this environment")
    found = os.path.join(spec.submodule_search_locations[0], path)
    if not os.path.exists(found):
        raise FileNotFoundError(f"package {package} has no file {path}")
    return found
