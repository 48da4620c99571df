"""What a model may use of the process that serves it. See docs/models.md for the contract.

    class Model:
        def load(self, record, device): ...           # once
        def infer(self, batch): ...                   # a list of {input name: array} -> a list of {output name: array}
        def stream(self, request): ...                # with stream = true in model.toml, in place of infer(): one
                                                      # {input name: array}; yields {output name: array} for each part
        def example(self): ...                        # optional: one item for the readiness probe
        def close(self): ...                          # optional: called once when the worker ends, within two seconds
"""
import importlib.util
import os

try:
    from _gearbox_worker import empty
except ImportError:  # outside worker_shim: in a model's own unit tests
    def empty(shape, dtype, item=0):
        """An array for an output. Inside worker_shim it lies in shared memory already, so that the answer needs no copy."""
        import numpy
        return numpy.empty(shape, dtype)

__all__ = ["BadInput", "BadPicture", "Record", "empty", "package_file"]


class BadInput(Exception):
    """Raise it (or put it in place of an answer) when the request is at fault and not the model."""
    code = 10  # Errc::bad_input


class BadPicture(BadInput):
    """A picture that is cut, corrupt, empty or of absurd size."""
    code = 14  # Errc::bad_picture


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
