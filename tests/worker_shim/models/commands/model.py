"""Each command is one way in which legal Python can surprise its host."""
import array
import ctypes
import os
import signal
import sys
import threading

import numpy as np

import gearbox_worker

KEPT = []


class Bad(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def good(**changes):
    answer = {"number": np.ones(2, np.float32), "text": "ok", "parts": []}
    answer.update(changes)
    return answer


class NoLength(list):
    def __len__(self):
        raise ValueError("no length")


class NoItems(list):
    def __getitem__(self, at):
        raise ValueError("no items")


class NoText(str):
    def __str__(self):
        raise ValueError("no text")


class Shapeless:
    __array_interface__ = {"shape": ("\ud800",), "typestr": 7, "version": 3}


class Model:
    def load(self, record, device):
        self.batches = []

    def example(self):
        return {"command": np.array([b"probe"], object), "data": np.arange(3, dtype=np.uint8)}

    def infer(self, batch):
        self.batches.append(len(batch))
        given = [self.obey(item["command"][0].decode(), item["data"]) for item in batch] + self.extra(batch)
        return {b"no_length": NoLength, b"no_items": NoItems}.get(batch[0]["command"][0], list)(given)

    def extra(self, batch):
        if batch[0]["command"][0] == b"one_more_of_several" and len(batch) > 1:
            return [good()]
        return [good()] if batch[0]["command"][0] == b"one_more" else []

    def obey(self, command, data):
        return getattr(self, command)(data)

    # in order
    def probe(self, data):
        return good(text=f"probe of {data.tolist()}")

    def one_more(self, data):
        return good()

    def one_more_of_several(self, data):
        return good()

    def echo(self, data):
        return good(parts=[data, data[::2]])

    def batch_sizes(self, data):
        return good(number=np.array(self.batches, np.float32))

    def threads(self, data):
        return good(text=os.environ["OMP_NUM_THREADS"])

    def prefix(self, data):
        return good(text=sys.prefix)

    def in_place(self, data):
        room = gearbox_worker.empty(3, np.float32)
        room[:] = [1, 2, 3]
        return good(number=room, text=type(room.base).__name__)

    def strided(self, data):
        return good(number=np.arange(6, dtype=np.float32)[::3])

    def plain_list(self, data):
        return good(number=[1.5, 2.5])

    def one_number(self, data):
        return good(number=7.0)

    def big_endian(self, data):
        return good(number=np.array([1, 2], ">f4"))

    def special_numbers(self, data):
        return good(number=array.array("f", [1.0, float("nan"), float("inf"), float("-inf"), -0.0, 1e-45]))

    def not_utf8(self, data):
        return good(text=b"\xff\xfe\x80caf\xe9")

    def text_list(self, data):
        return good(text=["\u00e4 \u20ac"])

    def read_only(self, data):
        data[0] = 1

    # refusals
    def bad_input(self, data):
        raise gearbox_worker.BadInput("not like this")

    def bad_picture_item(self, data):
        return gearbox_worker.BadPicture("cut")

    # objects that raise when they are looked at
    def no_length(self, data):
        return good()

    def no_items(self, data):
        return good()

    def surrogate_key(self, data):
        return good(**{"\ud800": 1})

    def text_key(self, data):
        return {**good(), NoText("other"): 1}

    def shapeless(self, data):
        return good(number=Shapeless())

    def surrogate_message(self, data):
        raise ValueError("\ud800")

    # faults
    def raises(self, data):
        raise ValueError("first line\nsecond line")

    def unprintable(self, data):
        raise Bad()

    def system_exit(self, data):
        sys.exit("enough")

    def keyboard_interrupt(self, data):
        raise KeyboardInterrupt

    def wrong_dtype(self, data):
        return good(number=np.ones(2))

    def wrong_shape(self, data):
        return good(number=np.ones((2, 2), np.float32))

    def missing(self, data):
        return {"number": np.ones(1, np.float32), "text": "x"}

    def undeclared(self, data):
        return good(nmuber=1)

    def no_dict(self, data):
        return [1, 2]

    def surrogate(self, data):
        return good(text="\ud800")

    def no_list(self, data):
        return good(parts=7)

    def object_part(self, data):
        return good(parts=[np.array([object()])])

    def too_large(self, data):
        return good(number=np.zeros(1 << 20, np.float32))

    def too_many(self, data):
        return good(parts=[np.zeros(1, np.uint8)] * 1000)

    def keep(self, data):
        KEPT.append(data[1:])
        return good()

    def kept(self, data):
        return good(parts=list(KEPT), number=np.array([len(KEPT)], np.float32))

    def killed(self, data):
        os.kill(os.getpid(), signal.SIGKILL)

    def segfault(self, data):
        ctypes.string_at(8)

    def hang(self, data):
        threading.Event().wait()

    def native_hang(self, data):
        libc = ctypes.PyDLL(None)     # keeps the GIL: nothing of Python runs any more; and no signal ends this wait
        mutex = ctypes.create_string_buffer(64)
        libc.pthread_mutex_lock(mutex)
        libc.pthread_mutex_lock(mutex)
