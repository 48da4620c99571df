"""The two OCR models in their environment: read every labelled line, refuse pictures that are not whole.

Runs itself again under the environment's python: $GEARBOX_ONNX_PYTHON, else the one in the state folder.
"""
import importlib.util
import json
import os
import sys
import types
import unittest

SOURCE = os.environ.get("GEARBOX_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
SHARED = os.path.join(SOURCE, "../shared")


def environment_python():
    state = os.environ.get("GEARBOX_STATE") or (
        "/var/lib/gearbox" if os.geteuid() == 0
        else os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "gearbox"))
    for python in (os.environ.get("GEARBOX_ONNX_PYTHON"), os.path.join(state, "envs/onnx/bin/python")):
        if python and os.access(python, os.X_OK):
            return python
    return None


def load(name):
    folder = os.path.join(SOURCE, "configs/models", name)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(folder, "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Model()
    model.load(types.SimpleNamespace(threads=1), "cpu")
    return model


def file_bytes(path):
    import numpy
    return numpy.fromfile(path, numpy.uint8)


def squeezed(text):
    return "".join(text.split())


class Reading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.detect, cls.recognise = load("ppocr-det"), load("ppocr-rec")

    def read(self, image):
        found = self.detect.infer([{"image": image}])[0]
        lines = self.recognise.infer([{"crop": crop} for crop in found["crops"]]) if found["crops"] else []
        return found, [line["text"] for line in lines]

    def labelled(self):
        path = os.path.join(SHARED, "data/images/text_labels.json")
        if not os.path.exists(path):
            print("NOT RUN: the labelled pictures are not there")
            self.skipTest("no labelled pictures")
        with open(path) as file:
            return {name: [line["text"] for line in lines] for name, lines in json.load(file).items()}

    def picture(self, name):
        return os.path.join(SHARED, "data/images", name)

    def test_reads_every_labelled_line_in_order(self):
        for name, lines in self.labelled().items():
            _, texts = self.read(file_bytes(self.picture(name)))
            wanted, read = [squeezed(line) for line in lines], [squeezed(text) for text in texts]
            self.assertEqual([line for line in read if line in wanted], wanted, f"{name}: {texts}")

    def test_a_raw_frame_gives_what_its_file_gives(self):
        import numpy
        from PIL import Image
        name = next(iter(self.labelled()))
        raw = numpy.asarray(Image.open(self.picture(name)).convert("RGB"))
        found, texts = self.read(raw)
        from_file, texts_from_file = self.read(file_bytes(self.picture(name)))
        self.assertEqual(texts, texts_from_file)
        self.assertEqual(found["boxes"].tolist(), from_file["boxes"].tolist())

    def test_a_line_reads_the_same_alone_and_in_a_batch(self):
        name = next(iter(self.labelled()))
        crops = self.detect.infer([{"image": file_bytes(self.picture(name))}])[0]["crops"]
        together = self.recognise.infer([{"crop": crop} for crop in crops])
        alone = [self.recognise.infer([{"crop": crop}])[0] for crop in crops]
        self.assertEqual([one["text"] for one in together], [one["text"] for one in alone])

    def test_boxes_of_a_large_picture_are_in_its_own_pixels(self):
        import cv2
        import numpy
        picture = numpy.full((3000, 4000, 3), 255, numpy.uint8)
        cv2.putText(picture, "GEARBOX", (1000, 2000), cv2.FONT_HERSHEY_SIMPLEX, 12, (0, 0, 0), 24)
        found, texts = self.read(picture)
        self.assertEqual([squeezed(text) for text in texts], ["GEARBOX"])
        left, top = found["boxes"][0].min(0)
        self.assertTrue(900 < left < 1100 and 1500 < top < 1800, found["boxes"])

    def test_a_picture_without_text_gives_no_lines(self):
        import numpy
        found, texts = self.read(numpy.full((64, 64, 3), 128, numpy.uint8))
        self.assertEqual((texts, found["boxes"].shape, found["scores"].shape), ([], (0, 4, 2), (0,)))


class Pictures(unittest.TestCase):
    """picture.decode refuses what is not whole, by its header where that is enough."""

    def refused(self, data):
        import numpy
        from gearbox_worker import BadPicture
        from picture import decode
        with self.assertRaises(BadPicture) as caught:
            decode(numpy.frombuffer(data, numpy.uint8))
        return str(caught.exception)

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, os.path.join(SOURCE, "configs/models/ppocr-det"))

    def encoded(self, kind):
        import io
        import numpy
        from PIL import Image
        file = io.BytesIO()
        noise = numpy.random.default_rng(1).integers(0, 255, (40, 60, 3), numpy.uint8)
        Image.fromarray(noise).save(file, kind)
        return file.getvalue()

    def test_takes_whole_ones(self):
        import numpy
        from picture import decode
        for kind in ("JPEG", "PNG"):
            self.assertEqual(decode(numpy.frombuffer(self.encoded(kind), numpy.uint8)).shape, (40, 60, 3))

    def test_refuses_them_cut_anywhere(self):
        for kind in ("JPEG", "PNG"):
            data = self.encoded(kind)
            for size in [*range(0, len(data), 97), len(data) - 1, len(data) - 2]:
                self.assertTrue(self.refused(data[:size]))

    def test_refuses_an_altered_png(self):
        data = bytearray(self.encoded("PNG"))
        data[len(data) // 2] ^= 1
        self.assertIn("checksum", self.refused(bytes(data)))

    def test_refuses_a_huge_one_from_its_header(self):
        import io
        from PIL import Image
        file = io.BytesIO()
        Image.new("1", (20000, 20000)).save(file, "PNG")   # 50 KB that would become 1.2 GB
        self.assertIn("20000 x 20000", self.refused(file.getvalue()))

    def test_refuses_other_files(self):
        self.assertIn("neither JPEG nor PNG", self.refused(b"GIF89a" + b"\0" * 100))
        self.assertIn("empty", self.refused(b""))

    def test_answers_each_case_as_its_name_says(self):
        folder = os.path.join(SHARED, "cases")
        if not os.path.isdir(folder):
            print("NOT RUN: the shared cases are not there")
            self.skipTest("no cases")
        from picture import decode
        for name in sorted(os.listdir(folder)):
            if name.startswith(("c51", "c52")) and os.path.isfile(os.path.join(folder, name)):
                data = file_bytes(os.path.join(folder, name))
                if "good" in name or name == "c51_png_called.jpg":   # nobody told the model a name
                    self.assertEqual(decode(data).shape[2], 3, name)
                else:
                    self.refused(data.tobytes())


if __name__ == "__main__":
    python = environment_python()
    if python is None:
        print("NOT RUN: there is no ONNX environment (scripts/make-env onnx DIR, then GEARBOX_ONNX_PYTHON=DIR/bin/python)")
        sys.exit(0)
    if os.environ.get("GEARBOX_OCR_RUNS_IN") != python:
        os.environ["GEARBOX_OCR_RUNS_IN"] = python
        os.execv(python, [python, "-B", os.path.abspath(__file__)])
    unittest.main(argv=[sys.argv[0], "-v"])
