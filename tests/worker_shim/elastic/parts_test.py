"""The parts that need no ranks: cache arena, sampling, batches on the wire, files, options, record."""
import os
import socket
import tempfile
import time
import unittest

from gearbox_elastic.shape import ModelShape

from support import elastic


class Part(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        import numpy
        cls.np = numpy


class Cache(Part):
    def arena(self, units=64, slots=3):
        from gearbox_elastic.cache import Arena, arena_bytes
        shape = elastic.small_shape()
        fd = os.memfd_create("arena")
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, arena_bytes(shape, slots, units))
        return Arena(shape, slots, units, fd, own=True)

    def test_gives_the_lowest_free_units_and_takes_them_back_once(self):
        arena = self.arena()
        self.assertEqual(arena.allocate(3).tolist(), [0, 1, 2])
        arena.release(self.np.array([1, 1, -1]))
        self.assertEqual((arena.free_count, arena.allocate(2).tolist()), (62, [1, 3]))
        with self.assertRaises(MemoryError):
            arena.allocate(61)
        self.assertEqual(arena.free_count, 60)

    def test_a_unit_in_both_tables_is_freed_once(self):
        arena = self.arena()
        arena.table[1, 0, 0, :2] = arena.allocate(2)
        arena.next_table[1, 0, 0, 0] = arena.table[1, 0, 0, 0]
        arena.next_table[1, 0, 1, 0] = arena.allocate(1)[0]
        arena.free_slot(1)
        self.assertEqual((arena.free_count, int(arena.free.sum())), (64, 64))

    def test_an_abort_gives_up_what_only_the_next_plan_has(self):
        arena = self.arena()
        arena.table[0, 0, 0, :2] = arena.allocate(2)
        arena.next_table[0, 0, 0, 0] = arena.table[0, 0, 0, 0]
        arena.next_table[0, 1, 0, 0] = arena.allocate(1)[0]
        arena.clear_next()
        self.assertEqual((arena.free_count, arena.table[0, 0, 0, :2].tolist()), (62, [0, 1]))

    def test_defragmenting_keeps_what_each_unit_holds(self):
        arena = self.arena()
        units = arena.allocate(20)
        arena.by_unit[:20] = self.np.arange(20)[:, None]
        arena.release(units[::2])
        arena.table[0, 0, 0, :10] = units[1::2]
        self.assertEqual(arena.largest_run(), 44)
        moved = arena.defragment()
        self.assertEqual((moved, arena.largest_run(), arena.free_count), (5, 54, 54))
        held = arena.by_unit[arena.table[0, 0, 0, :10], 0]
        self.assertEqual(held.tolist(), list(range(1, 20, 2)))

    def test_a_table_is_found_by_its_epoch(self):
        arena = self.arena()
        arena.begin(4)
        arena.table[0, 0, 0, 0] = 7
        arena.flip(5)
        self.assertEqual((arena.table_of(4)[0, 0, 0, 0], arena.table_of(5)[0, 0, 0, 0]), (7, -1))
        arena.clear_next()
        with self.assertRaises(RuntimeError):
            arena.table_of(4)


class Sampling(Part):
    def batch(self, temperatures, seeds):
        from gearbox_elastic.batch import Batch
        n = len(temperatures)
        return Batch(range(n), range(n), [9] * n, range(n), seeds, temperatures, [0] * n)

    def test_any_slicing_of_the_vocabulary_chooses_the_same(self):
        from gearbox_elastic.sampling import candidates, choose
        random = self.np.random.default_rng(3)
        logits = random.standard_normal((40, 101)).astype(self.np.float32)
        batch = self.batch([0, 0.5, 1, 2] * 10, range(40))
        whole, margins = choose([candidates(logits, 0, batch)])
        for cuts in ((50,), (1, 2, 3), (0, 33, 101), (100,)):
            edges = [0, *cuts, 101]
            parts = [candidates(logits[:, a:b], a, batch) for a, b in zip(edges, edges[1:])]
            ids, same = choose(parts)
            self.assertEqual(ids.tolist(), whole.tolist())
            self.assertTrue(self.np.array_equal(margins, same))

    def test_greedy_is_the_greatest_and_of_equal_ones_the_first(self):
        from gearbox_elastic.sampling import candidates, choose
        logits = self.np.zeros((1, 10), self.np.float32)
        logits[0, [4, 7]] = 2
        parts = [candidates(logits[:, :5], 0, self.batch([0], [1])), candidates(logits[:, 5:], 5, self.batch([0], [1]))]
        ids, margins = choose(parts)
        self.assertEqual((ids[0], margins[0]), (4, 0))

    def test_noise_makes_tokens_as_frequent_as_their_probability(self):
        from gearbox_elastic.sampling import gumbel
        np = self.np
        logits = np.log([0.5, 0.25, 0.2, 0.05])
        n = 20000
        chosen = (logits + gumbel(np.arange(n), np.full(n, 3), 0, 4)).argmax(1)
        for token, share in enumerate((0.5, 0.25, 0.2, 0.05)):
            self.assertAlmostEqual((chosen == token).mean(), share, delta=0.015)
        by_position = (logits + gumbel(np.full(n, 5), np.arange(n), 0, 4)).argmax(1)
        self.assertAlmostEqual((by_position == 0).mean(), 0.5, delta=0.015)
        self.assertAlmostEqual((by_position[1:] == by_position[:-1]).mean(), 0.355, delta=0.02)  # neighbours are independent

    def test_top_p_takes_none_but_the_likeliest(self):
        from gearbox_elastic.sampling import choose_top_p
        logits = self.np.log([0.05, 0.5, 0.25, 0.2])
        chosen = {choose_top_p(logits, seed, 0, 1.0, 0.7)[0] for seed in range(300)}
        self.assertEqual(chosen, {1, 2})
        self.assertEqual(choose_top_p(logits, 1, 0, 1.0, 0.1), (1, float("inf")))


class OnTheWire(Part):
    def test_batches_and_candidates_come_as_they_went(self):
        from gearbox_elastic.batch import Batch, Sampled
        for rows in (1, 2, 3):
            one = Batch(range(rows), range(5, 5 + rows), range(9, 9 + rows), [rows - 1], [2 ** 64 - 1], [0.5], [1])
            same = Batch.unpack(*one.pack())
            for name in ("slots", "tokens", "positions", "sample", "seeds", "temperatures", "whole"):
                self.assertEqual(getattr(one, name).tolist(), getattr(same, name).tolist(), name)
        np = self.np
        found = Sampled(np.array([1.5, -np.inf]), np.array([3, 4]), np.array([0.5, 0]), np.array([[1, 2, 3]], np.float32))
        same = Sampled.unpack(*found.pack())
        for name in ("best", "ids", "second", "logits"):
            self.assertEqual(getattr(found, name).tolist(), getattr(same, name).tolist(), name)

    def test_messages_with_descriptors_keep_their_order(self):
        from gearbox_elastic.wire import Wire, WireClosed
        one, other = socket.socketpair()
        sender, receiver = Wire(one), Wire(other)
        self.addCleanup(receiver.close)
        read, write = os.pipe()
        sender.send({"op": "a"}, b"x" * 100)
        sender.send({"op": "b"}, descriptors=[write])
        sender.send({"op": "c"})
        os.close(write)
        self.assertEqual(receiver.receive()[:2], ({"op": "a"}, b"x" * 100))
        head, _, descriptors = receiver.receive()
        os.write(descriptors[0], b"!")
        self.assertEqual((head, os.read(read, 1)), ({"op": "b"}, b"!"))
        os.close(descriptors[0])
        os.close(read)
        self.assertEqual(receiver.receive()[0], {"op": "c"})
        one.sendall(b"\xff" * 8)
        with self.assertRaises(WireClosed):
            receiver.receive()
        sender.close()


class Files(Part):
    def test_a_random_checkpoint_is_the_same_for_the_same_seed(self):
        from gearbox_elastic.checkpoint import open_checkpoint
        shape = elastic.small_shape()
        with elastic.random_checkpoint(shape, 1) as one, elastic.random_checkpoint(shape, 1) as same, \
                elastic.random_checkpoint(shape, 2) as other:
            read = []
            for path in (one, same, other):
                with open(path, "rb") as file:
                    read.append(file.read())
            self.assertEqual(read[0], read[1])
            self.assertNotEqual(read[0], read[2])
            opened = open_checkpoint(one)
            self.assertEqual(opened.shape.kv_heads, 3)
            whole = opened.rows("w2", 2, 0, shape.dim)
            self.assertEqual(opened.columns("w2", 2, 10, 20).tolist(), whole[:, 10:20].tolist())
            self.assertEqual(os.listdir(os.path.dirname(one)), ["random.bin"])

    def test_slices_are_copies_of_nothing_more(self):
        from gearbox_elastic.checkpoint import open_checkpoint
        with elastic.random_checkpoint(elastic.small_shape()) as path:
            opened = open_checkpoint(path)
            for piece in (opened.rows("w1", 0, 3, 5), opened.columns("wo", 0, 3, 5), opened.vector("att_norm", 1)):
                self.assertTrue(piece.base is None and piece.flags.owndata and piece.flags.c_contiguous)

    def test_a_damaged_checkpoint_is_an_error_with_its_name(self):
        from gearbox_elastic.checkpoint import open_checkpoint
        with elastic.random_checkpoint(elastic.small_shape()) as path:
            with open(path, "rb") as file:
                good = file.read()
            for bad in (b"", good[:20], good[:-1], good + b"x", b"\0" * 100, b"\xff" * 28 + good[28:]):
                with open(path, "wb") as file:
                    file.write(bad)
                with self.assertRaisesRegex(ValueError, "random.bin"):
                    open_checkpoint(path)

    def test_the_tokenizer_knows_the_golden_prompts_and_texts(self):
        lines = elastic.golden()
        from gearbox_elastic.tokenizer import Llama2Tokenizer
        tokenizer = Llama2Tokenizer(elastic.DATA / "tok512.bin", 512)
        for line in lines:
            self.assertEqual(tokenizer.encode(line["prompt"]), line["prompt_ids"])
            self.assertEqual(b"".join(tokenizer.piece(token) for token in line["greedy_ids"]).decode(), line["text"])

    def test_what_has_no_token_travels_as_bytes(self):
        elastic.golden()
        from gearbox_elastic.tokenizer import Llama2Tokenizer
        tokenizer = Llama2Tokenizer(elastic.DATA / "tok512.bin", 512)
        for text in ("\U0001f41e Käfer", b"\xff\xfe", "a\nb"):
            raw = text if isinstance(text, bytes) else text.encode()
            self.assertEqual(b"".join(tokenizer.piece(token) for token in tokenizer.encode(text)).lstrip(b" "), raw)


class Settings(Part):
    def test_the_load_is_counted(self):
        from gearbox_elastic.load import SPAN_S, Load
        from gearbox_elastic.sequences import Request, Sequence, Stream
        load = Load()
        now = time.monotonic()
        one, two = (Sequence(number, Request([1, 2, 3]), Stream()) for number in range(2))
        load.came(one, now - 10)
        load.came(two, now - 4)
        for at in (now - 9, now - 8.5, now - 8):
            one.tokens.append(7)
            load.told(one, at)
        load.ended(one, now - 8)
        told = load.as_dict([two])
        self.assertEqual([told[key] for key in ("arrived", "finished", "prompt_tokens", "output_tokens")], [2, 1, 6, 3])
        self.assertAlmostEqual(told["first_token_ms"], 1000, delta=1)
        self.assertAlmostEqual(told["per_token_ms"], 500, delta=1)
        self.assertGreaterEqual(told["oldest_wait_ms"], 4000)
        load.told(two, now + SPAN_S)  # what is older than a minute does not count any more
        self.assertAlmostEqual(load._first.value(now + SPAN_S), (SPAN_S + 4) * 1000, delta=1)
        self.assertIsNone(Load().as_dict([])["first_token_ms"])

    def test_the_parameters_are_those_of_the_file(self):
        shape = ModelShape(dim=64, hidden=172, layers=5, heads=8, kv_heads=4, vocab=512, positions=512)
        tables = 2 * shape.positions * shape.head_size // 2
        self.assertEqual(28 + 4 * (shape.parameters + tables), 1_056_540)  # stories260K.bin

    def test_a_wrong_option_is_named(self):
        from gearbox_elastic.options import Options
        for values, why in (({"rank": 4}, "unknown key 'rank'"), ({"ranks": "4"}, "ranks = '4'"), ({"ranks": 0}, "ranks = 0"),
                            ({"collective": "mpi"}, "collective"), ({"cache_mb": True}, "cache_mb")):
            with self.assertRaisesRegex(ValueError, why):
                Options.of_dict(values)

    def test_the_record_outlives_its_writer_and_damage_is_put_aside(self):
        from gearbox_elastic.record import Record
        with tempfile.TemporaryDirectory() as folder:
            Record(folder).write({"gear": 3}, 7, 2)
            again = Record(folder)
            self.assertEqual((again.plan, again.epoch, again.term), ({"gear": 3}, 7, 2))
            path = os.path.join(folder, "gear.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"plan"')
            self.assertEqual((Record(folder).plan, sorted(os.listdir(folder))), (None, ["gear.json.damaged"]))


if __name__ == "__main__":
    unittest.main()
