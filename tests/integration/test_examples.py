"""The configurations of examples/: three frameworks side by side over one picture, and the load models. Their environments are large,
so scripts/setup makes them only when asked (--with); what has none is NOT RUN."""
import json
import re
import shutil
import socket
import subprocess
import unittest
from pathlib import Path

import numpy as np

import support
from cluster import Cluster, wait_until

PICTURES = support.SHARED / "data/images"
PEOPLE = 29                  # on the group photo


def example(folder, name):
    """The configuration examples/NAME on free ports, with the environments of build/envs."""
    shutil.copytree(support.ROOT / "examples" / name, folder)
    (folder / "plugins").mkdir(exist_ok=True)
    file = folder / "gearbox.toml"
    text = re.sub(r'(listen = "tcp://127\.0\.0\.1):\d+"', r'\1:0"', file.read_text())
    file.write_text(re.sub(r'(python = ")(\w+/bin/python")', rf'\1{support.ROOT}/build/envs/\2', text))


def shared_part(one, other):
    """Intersection over union of two boxes (left, top, right, bottom)."""
    def area(box):
        return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])
    common = area([max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])])
    return common / (area(one) + area(other) - common)


def bare(text):
    return "".join(text.split()).lower()


def rows(tensor):
    """The nested lists of a tensor of the answer."""
    values, shape = tensor["data"], tensor["shape"]
    for size in reversed(shape[1:]):
        values = [values[at:at + size] for at in range(0, len(values), size)]
    return values


class Example(unittest.TestCase):
    """Brings the cluster of one example up, once for all tests of a class."""
    name = None
    environments = ()

    @classmethod
    def setUpClass(cls):
        if cls.name is None:
            raise unittest.SkipTest("the base of the others")
        for environment in cls.environments:
            support.needs(support.ROOT / f"build/envs/{environment}/bin/python", f"environment {environment} (scripts/setup --with)")
        cls.cluster = Cluster(configs=example, name=cls.name)
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.start({"GEARBOX_STATE": str(cls.cluster.state)})  # what models keep lies there, too
        cls.cluster.wait_ready(300)
        cls.cluster.add_user()
        cls.keys = cls.cluster.enrol()

    def ask(self, file, task):
        """The outputs for one file."""
        code, answers, err = self.cluster.send([file], task=task, keys=self.keys)
        self.assertEqual(code, 0, f"{err}{answers}")
        return answers[0]["outputs"]


class Frameworks(Example):
    name = "frameworks"
    environments = ("onnx", "torch", "tensorflow")

    def same_faces(self, first, second, count):
        """Both found `count` faces, and each of the one is one of the other."""
        ours, theirs = rows(first), rows(second)
        self.assertEqual((len(ours), len(theirs)), (count, count))
        partner = [max(range(count), key=lambda index: shared_part(box, theirs[index])) for box in ours]
        self.assertEqual(sorted(partner), list(range(count)), "two faces of one framework are one of the other's")
        for box, index in zip(ours, partner):
            self.assertGreater(shared_part(box, theirs[index]), 0.99)  # rounding alone is below 1e-5
        return partner

    def test_pytorch_and_tensorflow_find_the_same_29_faces(self):
        photo = support.needs(PICTURES / "solvay_1927.jpg", "the group photo")
        by_torch, by_tf = self.ask(photo, "faces-torch"), self.ask(photo, "faces-tf")
        partner = self.same_faces(by_torch["boxes"], by_tf["boxes"], PEOPLE)
        points, others = rows(by_torch["landmarks"]), rows(by_tf["landmarks"])
        for face, index in enumerate(partner):
            self.assertAlmostEqual(by_torch["scores"]["data"][face], by_tf["scores"]["data"][index], places=3)
            left, top, right, bottom = rows(by_torch["boxes"])[face]
            for (x, y), (other_x, other_y) in zip(points[face], others[index]):
                self.assertLess(abs(x - other_x) + abs(y - other_y), 0.5)        # pixels
                self.assertTrue(left < x < right and top < y < bottom, points[face])
            left_eye, right_eye, nose, left_mouth, right_mouth = points[face]
            self.assertTrue(left_eye[0] < right_eye[0] and left_mouth[0] < right_mouth[0], points[face])
            self.assertTrue(max(left_eye[1], right_eye[1]) < nose[1] < min(left_mouth[1], right_mouth[1]), points[face])

    def test_one_face_and_none(self):
        portrait = support.needs(PICTURES / "astronaut.png", "the portrait")
        for task in ("faces-torch", "faces-tf"):
            self.assertEqual(len(rows(self.ask(portrait, task)["boxes"])), 1)
            nobody = self.ask(PICTURES / "cat.png", task)
            self.assertEqual([nobody[name]["shape"] for name in ("boxes", "scores", "landmarks")], [[0, 4], [0], [0, 5, 2]])

    def test_one_picture_crosses_three_frameworks(self):
        photo = support.needs(PICTURES / "solvay_1927.jpg", "the group photo")
        tag = support.needs(PICTURES / "text_tag.jpg", "the picture with text")
        labels = json.loads((PICTURES / "text_labels.json").read_text())[tag.name]
        both = self.cluster.scratch / "both.png"     # the photo, and the tag in its sky
        code = ("import sys\nfrom PIL import Image\nphoto, tag = (Image.open(name).convert('RGB') for name in sys.argv[1:3])\n"
                "photo.paste(tag.resize((340, 255)), (0, 0))\nphoto.save(sys.argv[3])\n")
        subprocess.run([support.ENVIRONMENT, "-c", code, photo, tag, both], check=True, timeout=60)
        answer = self.ask(both, "faces-and-text")
        self.same_faces(answer["faces_torch"], answer["faces_tf"], PEOPLE)
        self.assertEqual(answer["landmarks_torch"]["shape"], [PEOPLE, 5, 2])
        self.assertEqual(answer["landmarks_tf"]["shape"], [PEOPLE, 5, 2])
        found = [bare(line) for line in answer["lines"]["data"]]
        self.assertEqual(len(found), answer["line_boxes"]["shape"][0])
        for label in labels:
            self.assertIn(bare(label["text"]), found)

    def test_each_worker_runs_in_its_own_environment(self):
        wanted = {"ppocr-det": "onnx", "ppocr-rec": "onnx", "face-torch": "torch", "face-tf": "tensorflow"}
        found = {}
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(str(self.cluster.state) in word for word in words) and "--python" in words:
                python = Path(words[words.index("--python") + 1])
                found[Path(words[words.index("--model") + 1]).name] = python.parent.parent.name
        self.assertEqual(found, wanted)


class Load(Example):
    name = "load"
    environments = ("torch",)

    def test_each_thing_that_is_found_is_classified(self):
        answer = self.ask(support.ROOT / "docs/examples/pictures/ear_tag.jpg", "detect-classify")
        self.assertEqual(answer["boxes"]["shape"], [8, 4])
        self.assertEqual((answer["classes"]["shape"], answer["scores"]["shape"]), ([8], [8]))
        for left, top, right, bottom in rows(answer["boxes"]):
            self.assertTrue(0 <= left < right and 0 <= top < bottom)
        again = self.ask(support.ROOT / "docs/examples/pictures/ear_tag.jpg", "detect-classify")
        self.assertEqual(again["classes"], answer["classes"], "the same seed, the same picture, the same order")

    def test_a_raw_picture_of_the_networks_own_size(self):
        raw = self.cluster.scratch / "raw.ppm"
        raw.write_bytes(b"P6 224 224 255\n" + bytes(index % 251 for index in range(224 * 224 * 3)))
        self.assertEqual(self.ask(raw, "classify")["label"]["shape"], [1])

    def test_echoes_three_megabytes(self):
        raw = self.cluster.scratch / "raw.pgm"
        data = bytes(index % 253 for index in range(3_000_000))
        raw.write_bytes(b"P5 2000 1500 255\n" + data)
        answer = self.ask(raw, "echo")["data"]
        self.assertEqual(bytes(answer["data"]), data)


class Chat(Example):
    name = "chat"
    environments = ("llm",)

    def control(self, **command):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(300)
            sock.connect(str(self.cluster.state / "run/groups/smollm2.sock"))
            sock.sendall(json.dumps(command).encode() + b"\n")
            with sock.makefile("rb") as answers:
                return json.loads(answers.readline())

    def sender(self, question, tokens):
        file = self.cluster.scratch / f"{len(question)}.npy"
        asked = json.dumps({"prompt": question, "max_tokens": tokens}).encode()
        np.save(file, np.frombuffer(asked, np.uint8))
        return self.cluster.start_send([file], task="chat", keys=self.keys, more=["--tensor", "prompt", "--timeout-ms", 600000])

    def text(self, sender):
        out, err = sender.communicate(timeout=300)
        self.assertEqual(sender.returncode, 0, f"{err}{out}")
        return bytes(json.loads(out)["outputs"]["text"]["data"]).decode()

    def test_it_answers_and_says_the_same_while_it_shifts(self):
        """3 kv heads on two ranks: 2 and 1 of them."""
        for gear in (1, 2):
            self.assertTrue(self.control(op="shift", gear=gear)["ok"])
            self.assertEqual(self.text(self.sender("What is the capital of France?", 20)), "The capital of France is Paris.")
        question = "Tell me a story about the sea."
        told = self.text(self.sender(question, 80))
        self.assertGreater(len(told), 200)
        tokens = self.control(op="status")["tokens"]
        again = self.sender(question, 80)
        try:
            wait_until("its first tokens", lambda: self.control(op="status")["tokens"] > tokens + 3, 60, 0.02)
            shifts = [self.control(op="shift", gear=gear) for gear in (5, 4)]
            status = self.control(op="status")
            self.assertTrue(all(shift["ok"] for shift in shifts), shifts)
            self.assertGreater(shifts[0]["imported_bytes"] + shifts[0]["pause_bytes"], 0)  # it was speaking
            self.assertEqual(self.text(again), told)
        finally:
            again.kill()
        self.assertEqual(status["gear"], 4)


if __name__ == "__main__":
    unittest.main()
