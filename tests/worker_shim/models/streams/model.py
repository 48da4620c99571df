"""Streams of all kinds, good and bad; says on stderr what happens to its generators."""
import os
import sys
import threading

import numpy

import gearbox_worker

HALF = "é".encode()


def say(text):
    print(text, file=sys.stderr, flush=True)


class Parts:
    """Iterable, no generator, and without close()."""

    def __init__(self, count):
        self.left = count

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return {"text": "part", "number": [self.left]}


class Model:
    def load(self, record, device):
        self.open = 0
        self.probed = b"count 100"
        if os.environ.get("STREAMS_PROBED"):
            self.probed = os.environ["STREAMS_PROBED"].encode()

    def example(self):
        return {"command": numpy.array([self.probed], object)}

    def stream(self, request):
        words = request["command"][0].decode().split()
        if words[0] == "raise_at_once":
            raise ValueError("not even a generator")
        if words[0] == "no_iterable":
            return 7
        if words[0] == "list":
            return [{"text": "a", "number": [0]}, {"text": "b", "number": [1]}]
        if words[0] == "full":
            raise gearbox_worker.Overloaded("no room for it", retry_after_ms=int(words[1]))
        if words[0] == "iterator":
            return Parts(int(words[1]))
        return self.tell(words, request)

    def tell(self, words, request):
        name = words[-1]
        self.open += 1
        try:
            if words[0] == "count":
                for number in range(int(words[1])):
                    say(f"{name} makes {number} of {self.open} open")
                    yield {"text": f"{name} {number}", "number": numpy.array([number])}
            elif words[0] == "later":  # number, and who wakes it up: a thread after so many ms, or nobody
                came, asked = threading.Event(), 0
                if words[2] != "nobody":
                    timer = threading.Timer(int(words[2]) / 1000, lambda: (came.set(), gearbox_worker.wake()))
                    timer.start()
                for number in range(int(words[1])):
                    while not came.is_set() and not (words[2] == "nobody" and asked >= 3):
                        asked += 1
                        yield gearbox_worker.NOTHING_YET
                    yield {"text": f"{name} {number} after {asked}", "number": [asked]}
            elif words[0] == "never":
                say(f"{name} begins")
                while True:
                    yield gearbox_worker.NOTHING_YET
            elif words[0] == "seed":
                yield {"text": "seed", "number": numpy.array([gearbox_worker.request_seed() % (1 << 63)])}
                yield {"text": "seed", "number": numpy.array([gearbox_worker.request_seed() % (1 << 63)])}
            elif words[0] == "fills":
                yield {"text": "good", "number": [0]}
                raise gearbox_worker.Overloaded()
            elif words[0] == "raise_after":
                for number in range(int(words[1])):
                    yield {"text": "good", "number": [number]}
                raise ValueError("in the middle")
            elif words[0] == "half":
                for byte in HALF:
                    yield {"text": bytes([byte]), "number": [byte]}
            elif words[0] == "wrong":
                yield {"text": "good", "number": [0]}
                yield {"text": "no number"}
            elif words[0] == "large":
                yield {"text": "x" * (1 << 20), "number": [0]}
            elif words[0] == "stubborn":
                while True:
                    try:
                        yield {"text": "on", "number": [0]}
                    except GeneratorExit:
                        say("stubborn heard it")
                        raise ValueError("not now")
            elif words[0] == "exit":
                yield {"text": "good", "number": [0]}
                sys.exit(3)
        except GeneratorExit:
            say(f"{name} was closed")
            raise
        finally:
            self.open -= 1
