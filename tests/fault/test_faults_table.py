"""docs/faults.md names tests: each of them exists, and no line of the table is without one, unless it says so."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs/faults.md"


def cpp_tests():
    found = set()
    for file in (ROOT / "tests").rglob("*"):
        if file.suffix in (".cpp", ".hpp"):
            found |= {".".join(names) for names in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)", file.read_text(), re.M)}
    return found


def python_tests():
    """Class.test_name, also of the classes that a class here inherits from."""
    found = set()
    for file in (ROOT / "tests").rglob("*.py"):
        for name, body in re.findall(r"^class (\w+)\b[^\n]*:\n(.*?)(?=^\S|\Z)", file.read_text(), re.M | re.S):
            found |= {f"{name}.{test}" for test in re.findall(r"^    def (test_\w+)", body, re.M)}
    return found


class Table(unittest.TestCase):
    def rows(self):
        return re.findall(r"^\| ([A-T]\d+) \| (.*?) \| (.*) \|$", TABLE.read_text(), re.M)

    def test_each_named_test_exists(self):
        there = cpp_tests() | python_tests()
        self.assertGreater(len(there), 1000)
        for line, _, tests in self.rows():
            for name in re.findall(r"`([\w./]+)`", tests):
                if "/" in name:
                    self.assertTrue((ROOT / name).exists(), f"{line}: {name}")
                elif not re.fullmatch(r"[a-z]+(\.[a-z]+)+", name):  # a stop point
                    self.assertIn(name, there, line)

    def test_no_line_is_silent(self):
        rows = self.rows()
        self.assertEqual(len({line[0] for line, _, _ in rows}), 20, "a letter is missing")
        self.assertEqual(len({line for line, _, _ in rows}), len(rows))
        for line, _, tests in rows:
            self.assertTrue("`" in tests or "none yet" in tests, line)


if __name__ == "__main__":
    unittest.main()
