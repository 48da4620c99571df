"""scripts/setup and scripts/make-env: what they would install, and what they say when they cannot. Nothing is installed or fetched."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LARGE = ("python3-torch", "python3-torchvision", "libopenblas0-pthread")


class Tree(unittest.TestCase):
    """A copy of the scripts whose apt-get, dpkg-query and df are stand-ins; each writes down how it was called."""

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="gearbox-scripts-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.tools = self.scratch / "tools"
        self.calls = self.scratch / "calls"
        self.tools.mkdir()
        self.calls.touch()
        shutil.copytree(ROOT / "scripts", self.scratch / "scripts")
        shutil.copytree(ROOT / "configs/envs", self.scratch / "configs/envs")
        self.stand_in("apt-get")
        self.stand_in("sudo", '"$@"')
        self.installed("everything")
        self.free_mb(100_000)

    def stand_in(self, name, then="", folder=None):
        file = (folder or self.tools) / name
        file.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.calls}\n{then}\n')
        file.chmod(0o755)

    def installed(self, what):
        """dpkg-query knows: "everything", or all but the packages named."""
        absent = "" if what == "everything" else "".join(f'[[ "$*" == *" {name}" ]] && exit 1\n' for name in what)
        (self.tools / "dpkg-query").write_text(f"#!/bin/bash\n{absent}echo -n installed\n")
        (self.tools / "dpkg-query").chmod(0o755)

    def free_mb(self, megabytes):
        (self.tools / "df").write_text(f"#!/bin/bash\necho Avail\necho '  {megabytes}'\n")
        (self.tools / "df").chmod(0o755)

    def run_script(self, *words):
        done = subprocess.run([str(self.scratch / "scripts" / words[0]), *map(str, words[1:])], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{self.tools}:/usr/bin:/bin"})
        return done.returncode, done.stderr

    def called(self, name):
        return [line for line in self.calls.read_text().splitlines() if line.startswith(name + " ")]


class Setup(Tree):
    def setUp(self):
        super().setUp()
        self.stand_in("make-env", folder=self.scratch / "scripts")

    def test_plain_makes_the_small_environment_only(self):
        self.installed(LARGE)
        self.assertEqual(self.run_script("setup"), (0, ""))
        self.assertEqual(self.called("make-env"), ["make-env onnx build/envs/onnx"])
        self.assertEqual(self.called("apt-get"), [])

    def test_with_adds_environments_and_their_debian_packages(self):
        self.installed(LARGE)
        self.assertEqual(self.run_script("setup", "--with", "torch", "--with=tensorflow"), (0, ""))
        self.assertEqual(self.called("make-env"), [f"make-env {name} build/envs/{name}" for name in ("onnx", "torch", "tensorflow")])
        install = self.called("apt-get")[-1]
        self.assertEqual(tuple(install.split()[-3:]), LARGE)
        self.assertIn("--no-install-recommends", install)

    def test_all_there_asks_for_nothing(self):
        self.assertEqual(self.run_script("setup", "--no-env", "--with", "torch"), (0, ""))
        self.assertEqual(self.called("make-env"), ["make-env torch build/envs/torch"])
        self.assertEqual(self.called("apt-get"), [])

    def test_wrong_words_change_nothing(self):
        for words, reason in ((("--with", "torhc"), "there are: llm numpy onnx pybind11 tensorflow torch"), (("--with",), "needs the name"),
                              (("--with", "../envs/torch"), "no environment is called"), (("--wiht", "torch"), "no option")):
            code, said = self.run_script("setup", *words)
            self.assertEqual(code, 2, words)
            self.assertIn(reason, said)
        self.assertEqual(self.calls.read_text(), "")

    def test_a_full_disk_is_said_before_anything_is_installed(self):
        self.installed(LARGE)
        self.free_mb(600)
        code, said = self.run_script("setup", "--with", "torch")
        self.assertEqual(code, 1)
        self.assertIn("need about 1000 MB, and /usr has 600 MB free", said)
        self.assertEqual(self.called("apt-get"), [])


class MakeEnv(Tree):
    def test_names_the_debian_packages_that_are_missing(self):
        self.installed(LARGE[:2])
        code, said = self.run_script("make-env", "torch", self.scratch / "env")
        self.assertEqual(code, 1)
        self.assertIn("python3-torch python3-torchvision: scripts/setup --with torch, or apt-get install", said)
        self.assertFalse((self.scratch / "env").exists())

    def test_debian_packages_need_debians_python(self):
        other = self.scratch / "python3"
        shutil.copy("/usr/bin/python3", other)
        code, said = self.run_script("make-env", "--python", other, "torch", self.scratch / "env")
        self.assertEqual(code, 1)
        self.assertIn("only be made with /usr/bin/python3", said)

    def test_a_full_disk_is_said_before_anything_is_fetched(self):
        self.free_mb(500)
        code, said = self.run_script("make-env", "tensorflow", self.scratch / "env")
        self.assertEqual(code, 1)
        self.assertIn("'tensorflow' needs 1400 MB", said)
        self.assertEqual([entry.name for entry in self.scratch.glob("env*")], [])

    def test_one_that_is_up_to_date_is_left_alone(self):
        target = self.scratch / "env"
        (target / "bin").mkdir(parents=True)
        (target / "bin/python").symlink_to("/usr/bin/python3")
        digest = subprocess.run(["sha256sum", self.scratch / "configs/envs/torch.txt"], capture_output=True, text=True).stdout.split()[0]
        version = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True,
                                 text=True).stdout.strip()
        (target / ".gearbox-env").write_text(f"{version} {digest}\n")
        self.free_mb(0)                               # else it would say so
        self.assertEqual(self.run_script("make-env", "torch", target), (0, ""))

    def test_every_package_is_pinned_by_hash_and_none_is_pytorch(self):
        for file in (ROOT / "configs/envs").glob("*.txt"):
            text = file.read_text().replace("\\\n", " ")
            for line in filter(None, (line.partition("#")[0].strip() if line.startswith("#") else line for line in text.splitlines())):
                self.assertRegex(line, r"^[A-Za-z0-9._-]+==[0-9][^ ]* +(--hash=sha256:[0-9a-f]{64} *)+$", file)
                self.assertNotIn(line.split("==")[0], ("torch", "torchvision"), file)


if __name__ == "__main__":
    unittest.main()
