"""The half of worker_shim that is easier said in Python: all that runs once, or only when something is unusual.

The path of a normal call is in C++ (model_host.cpp): it never comes here.
"""
import atexit
import gc
import importlib.util
import os
import sys
import traceback

import numpy

import gearbox_worker

MODEL_FAILED = 40  # Errc::model_failed
REFUSALS = (gearbox_worker.BadInput.code, gearbox_worker.BadPicture.code)
MOST_AGAIN_MS = 3600000
DTYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1", "INT16": "i2", "INT32": "i4",
    "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8", "BYTES": "O",
}


def load(record, file, class_name, device):
    """Imports the model's file and loads the model; returns the instance. Raises what the model raises."""
    sys.setswitchinterval(0.0001)  # a busy Python thread beside the handler would delay each call by 5 ms
    spec = importlib.util.spec_from_file_location("gearbox_model", os.path.join(record["folder"], file))
    module = importlib.util.module_from_spec(spec)
    sys.modules["gearbox_model"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, class_name):
        raise AttributeError(f"{file} has no class {class_name}")
    model = getattr(module, class_name)()
    for name in ("load", "stream" if record.get("stream") else "infer"):
        if not callable(getattr(model, name, None)):
            raise AttributeError(f"class {class_name} has no method {name}()")
    model.load(gearbox_worker.Record(**record), device)
    return model


def failure(error, folder):
    """(code, "Type: reason", where in the model's folder, milliseconds to wait) of an exception; the reason is one line."""
    try:
        line = " / ".join("".join(traceback.format_exception_only(type(error), error)).split("\n")).strip(" /")
    except BaseException as second:  # an exception whose __str__ raises
        line = f"{type(error).__name__} (and its text cannot be had: {type(second).__name__})"
    code, again = MODEL_FAILED, 0
    if isinstance(error, gearbox_worker.BadInput) and error.code in REFUSALS:
        code = error.code
    elif isinstance(error, gearbox_worker.Overloaded):
        code, again = gearbox_worker.Overloaded.code, again_ms(error)
    if code != MODEL_FAILED:  # the code says what kind it is
        line = line.partition(": ")[2] or line
    where = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(folder):
            where = f"{os.path.basename(file)}:{number}"
    return (code, line.encode("utf-8", "backslashreplace"), where, again)


def again_ms(error):
    try:
        return min(max(int(error.retry_after_ms), 0), MOST_AGAIN_MS)
    except Exception:  # a model's own idea of a number: nothing is advised then
        return 0


def zeros(shape, dtype):
    """A probe's input."""
    if dtype == "BYTES":
        return objects([b""] * int(numpy.prod(shape, dtype=numpy.int64)), shape)
    return numpy.zeros(shape, DTYPES[dtype])


def objects(elements, shape):
    """A BYTES tensor as the model sees it: an array of bytes objects."""
    flat = numpy.empty(len(elements), object)
    flat[:] = elements
    return flat.reshape(shape)


def contiguous(value, dtype):
    """Anything array-like as an array that can be copied as it lies: native byte order, row-major.

    `dtype` is what the record declares ("" for any); it is used for lists and numbers, which have no type of their own.
    An array keeps its type: the caller compares, and nothing is rounded behind the model's back.
    """
    array = numpy.asarray(value)
    if not (hasattr(value, "dtype") or hasattr(value, "__array__")) and dtype:
        array = as_declared(array, dtype)
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise TypeError(f"an array of {array.dtype} is no tensor")
    return numpy.array(array, array.dtype.newbyteorder("="), order="C", copy=True).reshape(array.shape)


def as_declared(array, dtype):
    """Numbers of a list, which have no type of their own, as the declared one, when that can hold them: fractions are no integers, and what
    is too large for the type is refused; a float may lose digits."""
    wanted = numpy.dtype(DTYPES[dtype])
    if array.size == 0:
        return array.astype(wanted)
    if array.dtype.kind not in "biuf":
        odd = first_odd(array)
        raise TypeError(f"{dtype} cannot hold {odd!r:.60}" if isinstance(odd, int) else f"{odd!r:.60} is no number")
    with numpy.errstate(all="ignore"):
        given = array.astype(wanted)
        if wanted.kind == "f":
            fits = numpy.isfinite(given) | ~numpy.isfinite(array)
        elif array.dtype.kind == "f":
            # A float just above the largest integer rounds to it: the way back alone would not tell.
            fits = (given == array) & (numpy.abs(array) < 2.0**63)
        else:
            fits = (given == array) & ((given < 0) == (array < 0))
    if not numpy.all(fits):
        raise TypeError(f"{dtype} cannot hold {array[~fits].reshape(-1)[0].item()!r}")
    return given


def first_odd(array):
    """Of what numpy has no numbers for: the first that is none, or else the largest."""
    elements = array.reshape(-1).tolist()
    for element in elements:
        if not isinstance(element, (int, float)):
            return element
    return max(elements, key=abs)


def texts(value):
    """(shape, list of bytes) of a BYTES output given as an array of strings, bytes or objects, or as nested lists."""
    array = value if isinstance(value, numpy.ndarray) else numpy.array(value, object)
    return array.shape, [encoded(element) for element in array.reshape(-1).tolist()]


def encoded(element):
    if isinstance(element, str):
        return element.encode("utf-8")
    if isinstance(element, (bytes, bytearray, memoryview)):
        return bytes(element)
    raise TypeError(f"an element is {type(element).__name__}, not str or bytes")


def collect():
    gc.collect()


def finish(model):
    """Gives the model and exit handlers their chance; the caller bounds the time."""
    try:
        if model is not None and callable(getattr(model, "close", None)):
            model.close()
        atexit._run_exitfuncs()
    except BaseException as error:
        print(f"worker_shim: on the way out: {type(error).__name__}: {error}", file=sys.stderr)
