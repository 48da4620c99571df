"""The class that a model package names, without a node: requests, stop words, the end of a generator, workers beside each other."""
import json
import os
import tempfile
import unittest

from support import elastic

ENGINE = """
ranks = 2
gear = 2
cache_mb = 4
max_running = 4
[random]
seed = 3
dim = 64
hidden = 96
layers = 3
heads = 4
kv_heads = 2
vocab = 300
positions = 128
[defaults]
max_tokens = 20
ignore_end = true
"""


class StopWords(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()

    def feed(self, stops, pieces):
        from gearbox_elastic.stop_text import StopText
        stop = StopText(stops)
        out = []
        for piece in pieces:
            out.append(stop.feed(piece))
            if stop.over:
                return out, True
        return [*out, stop.rest()], False

    def test_a_stop_word_in_pieces_ends_the_text_before_it(self):
        self.assertEqual(self.feed([b"END"], [b"abE", b"N", b"Dxy"]), ([b"ab", b"", b""], True))
        self.assertEqual(self.feed([b"\n\n", b"."], [b"a\n", b"b.", b"c"]), ([b"a", b"\nb"], True))

    def test_what_only_began_like_one_is_given(self):
        self.assertEqual(self.feed([b"END"], [b"abE", b"NE", b"x"]), ([b"ab", b"EN", b"Ex", b""], False))
        self.assertEqual(self.feed([b"END"], [b"abEN"]), ([b"ab", b"EN"], False))

    def test_without_stop_words_nothing_is_held_back(self):
        self.assertEqual(self.feed([], [b"ab", b"c"]), ([b"ab", b"c", b""], False))


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        import numpy
        import gearbox_worker
        from gearbox_elastic.model import Model
        cls.np, cls.worker, cls.bad_input = numpy, gearbox_worker, gearbox_worker.BadInput
        folder = tempfile.TemporaryDirectory(prefix="gearbox-elastic-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        with open(os.path.join(cls.folder, "engine.toml"), "w", encoding="utf-8") as file:
            file.write(ENGINE)
        os.environ["GEARBOX_STATE"] = os.path.join(cls.folder, "state")
        cls.addClassCleanup(os.environ.pop, "GEARBOX_STATE")
        cls.record = gearbox_worker.Record(name="tiny", folder=cls.folder)
        cls.model = Model()
        cls.model.load(cls.record, "")
        cls.addClassCleanup(cls.model.close)

    def stream(self, **asked):
        prompt = asked if asked.get("prompt") is not None else "ab"
        text = json.dumps(prompt) if isinstance(prompt, dict) else prompt
        return self.model.stream({"prompt": self.np.frombuffer(text.encode(), self.np.uint8)})

    def parts(self, **asked):
        return self.worker.parts_of(self.stream(**asked))

    def text(self, **asked):
        parts = list(self.parts(**asked))
        return b"".join(bytes(part["text"]) for part in parts), [token for part in parts for token in part["tokens"].tolist()]

    def test_the_same_seed_the_same_text(self):
        one, tokens = self.text(prompt="ab", temperature=1.0, seed=5, max_tokens=30)
        self.assertEqual(len(tokens), 30)
        self.assertEqual(self.text(prompt="ab", temperature=1.0, seed=5, max_tokens=30), (one, tokens))
        self.assertNotEqual(self.text(prompt="ab", temperature=1.0, seed=6, max_tokens=30)[1], tokens)
        self.assertEqual(self.text()[1], self.text(prompt="ab")[1])  # plain text, defaults of the package

    def test_inputs_of_their_own_count_as_well(self):
        np = self.np
        asked = {"prompt": np.frombuffer(b"ab", np.uint8), "max_tokens": np.array([7], np.int32)}
        self.assertEqual([len(part["tokens"]) for part in self.worker.parts_of(self.model.stream(asked))], [1] * 7)

    def test_each_token_is_a_part_and_what_stop_words_held_back_is_the_last_one(self):
        asked = {"prompt": "ab", "temperature": 1.0, "seed": 5, "max_tokens": 30}
        whole = list(self.parts(**asked))
        self.assertEqual([len(part["tokens"]) for part in whole], [1] * 30)
        text = b"".join(bytes(part["text"]) for part in whole)
        request = {"prompt": self.np.frombuffer(json.dumps(asked).encode(), self.np.uint8),
                   "stop": self.np.array([text[-1:] + b"that never comes"], object)}
        held = list(self.worker.parts_of(self.model.stream(request)))
        self.assertEqual([len(part["tokens"]) for part in held], [1] * 30 + [0])
        self.assertEqual(bytes(held[-1]["text"]), text[-1:])
        self.assertEqual(b"".join(bytes(part["text"]) for part in held), text)

    def test_without_a_seed_the_requests_own_counts(self):
        def tokens(own, **asked):
            self.worker.request_seed, before = lambda item=0: own, self.worker.request_seed
            try:
                return self.text(prompt="ab", temperature=1.0, max_tokens=30, **asked)[1]
            finally:
                self.worker.request_seed = before
        self.assertEqual(tokens(5), tokens(5))
        self.assertNotEqual(tokens(5), tokens(6))
        self.assertEqual(tokens(6, seed=5), tokens(5))

    def test_more_than_may_wait_are_told_to_come_again(self):
        self.model.driver.batching.hold, self.model.options.max_waiting = True, 2
        streams = [self.stream(prompt="a", max_tokens=3) for _ in range(3)]
        try:
            for stream in streams[:2]:
                self.assertIs(next(stream), self.worker.NOTHING_YET)
            with self.assertRaisesRegex(self.worker.Overloaded, "wait already") as refused:
                next(self.worker.parts_of(streams[2]))
            self.assertEqual(refused.exception.retry_after_ms, 1000)
        finally:
            self.model.driver.batching.hold, self.model.options.max_waiting = False, 1024
        self.assertEqual([len(list(self.worker.parts_of(stream))) for stream in streams[:2]], [3, 3])

    def test_a_stop_word_ends_the_text(self):
        whole, _ = self.text(prompt="ab", temperature=1.0, seed=5, max_tokens=30)
        word = next(byte for byte in whole[5:] if byte < 128)  # of a stop word that JSON can say
        cut, _ = self.text(prompt="ab", temperature=1.0, seed=5, max_tokens=30, stop=[chr(word)])
        self.assertEqual(cut, whole[:whole.find(word)])

    def test_what_is_wrong_with_a_request_is_its_fault(self):
        for asked, why in (({"prompt": "a" * 128}, "the model takes 127"), ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
                           ({"prompt": "a", "temperature": -1}, "temperature"), ({"prompt": "a", "top_p": 0}, "top_p"),
                           ({"prompt": "a", "stop": ["x"] * 17}, "more than 16 stop words"), ({"prompt": "a", "seed": "x"}, "invalid literal"),
                           ({"prompt": "a", "speed": 2}, "unknown key 'speed'")):
            with self.subTest(why), self.assertRaisesRegex(self.bad_input, why):
                list(self.parts(**asked))

    def test_a_generator_that_is_closed_ends_its_sequence(self):
        parts = self.parts(prompt="a", max_tokens=120)
        next(parts)
        parts.close()
        elastic.wait_for(lambda: self.model.driver.ask({"op": "status"}, 60)["running"] == 0)
        self.assertEqual(self.model.open, 0)

    def test_one_that_waits_gives_way_to_others(self):
        """More generators than may run: those that have no cache yet have nothing yet, and all come to their ends in turn."""
        open_parts = {number: self.stream(prompt="a" * (number + 1), max_tokens=40) for number in range(9)}
        tokens, waits = dict.fromkeys(open_parts, 0), 0
        while open_parts:
            none_came = True
            for number, parts in list(open_parts.items()):
                part = next(parts, None)
                if part is None:
                    del open_parts[number]
                elif part is self.worker.NOTHING_YET:
                    waits += 1
                    continue
                else:
                    tokens[number] += len(part["tokens"])
                none_came = False
            if none_came:  # until the engine calls wake()
                self.assertTrue(self.worker._woken.wait(30))
                self.worker._woken.clear()
        self.assertEqual(set(tokens.values()), {40})
        self.assertGreater(waits, 0)

    def test_workers_of_one_model_have_states_of_their_own(self):
        from gearbox_elastic.model import Model, state_folder
        folder, lock = state_folder("tiny")
        os.close(lock)
        self.assertTrue(folder.endswith("elastic/tiny-1"), folder)
        self.assertTrue(self.model.options.control.endswith("run/groups/tiny.sock"))
        with self.assertRaisesRegex(ValueError, "CPUs only"):
            Model().load(self.record, "cuda:0")

    def test_it_gives_an_example_for_the_probe(self):
        self.assertTrue(list(self.worker.parts_of(self.model.stream(self.model.example()))))


if __name__ == "__main__":
    unittest.main()
