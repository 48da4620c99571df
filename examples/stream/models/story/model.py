"""Tells a story of as many words as it is asked for. The parts are cut anywhere, inside of characters too, as those of a
language model are: whoever shows them has to put the characters together.
"""
import time

import numpy

WORDS = "Es war einmal ein schöner Käfer, der aß Bärlauch in 東京 und in Łódź – naïve 🐞! ".split(" ")[:-1]
CUT = 5  # bytes of a part


def words_of(prompt):
    """{name: value} of "words=200 pause_ms=10 Once upon a time"."""
    found = {}
    for word in bytes(prompt).decode("utf-8", "replace").split():
        name, equals, value = word.partition("=")
        if equals and value.isdigit():
            found[name] = int(value)
    return found


class Model:
    def load(self, record, device):
        pass

    def stream(self, request):
        asked = words_of(request["prompt"])
        pause = asked.get("pause_ms", 0) / 1000
        held = b""
        for number in range(asked.get("words", 50)):
            held += f"{WORDS[number % len(WORDS)]} ".encode()
            while len(held) >= CUT:
                yield {"text": numpy.frombuffer(held[:CUT], numpy.uint8)}
                held = held[CUT:]
                if pause:
                    time.sleep(pause)
        if held:
            yield {"text": numpy.frombuffer(held, numpy.uint8)}
