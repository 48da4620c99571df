"""The example configuration with its two real networks: are the labelled lines read?"""
import json
import unittest

import support
from cluster import Cluster, example_configs


def bare(text):
    return "".join(text.split()).lower()


class ReadText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        support.needs(support.ENVIRONMENT, "the ONNX environment")
        cls.cluster = Cluster(configs=example_configs, python=support.ENVIRONMENT)
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.start()
        cls.cluster.wait_ready(180)
        cls.cluster.add_user()
        cls.keys = cls.cluster.enrol()

    def lines_of(self, files):
        code, answers, err = self.cluster.send(files, task="read-text", keys=self.keys)
        self.assertEqual(code, 0, err)
        found = {}
        for answer in answers:
            found[answer["file"]] = [bare(line) for line in answer["outputs"]["lines"]["data"]]
        return found

    def test_reads_every_labelled_line(self):
        labels = json.loads(support.needs(support.SHARED / "data/images/text_labels.json", "the labelled pictures").read_text())
        files = {str(support.SHARED / "data/images" / name): truth for name, truth in labels.items()}
        found = self.lines_of(list(files))
        for file, truth in files.items():
            for label in truth:
                text = bare(label["text"] if isinstance(label, dict) else label)
                self.assertIn(text, found[file], file)

    def test_reads_the_ear_tag_of_the_examples(self):
        pictures = support.ROOT / "docs/examples/pictures"
        found = self.lines_of([pictures / "ear_tag.jpg"])
        truth = [bare(line) for line in (pictures / "ear_tag.txt").read_text().splitlines() if line.strip() and not line.startswith("#")]
        for line in truth:
            self.assertIn(line, found[str(pictures / "ear_tag.jpg")])

    def test_says_what_is_wrong_with_a_picture_and_reads_the_next(self):
        good = support.ROOT / "docs/examples/pictures/ear_tag.jpg"
        cut = self.cluster.scratch / "cut.jpg"
        cut.write_bytes(good.read_bytes()[:400])
        code, answers, _ = self.cluster.send([cut, good], task="read-text", keys=self.keys)
        self.assertEqual(code, 1)
        answer = {each["file"]: each for each in answers}
        self.assertEqual(answer[str(cut)]["error"]["name"], "bad_picture")
        self.assertTrue(answer[str(good)]["ok"])


if __name__ == "__main__":
    unittest.main()
