"""The units of configs/systemd/: `systemd-analyze verify` has nothing to say, and they say what the supervisor relies on."""
import configparser
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[3]
UNITS = ROOT / "configs/systemd"


def needs(program):
    found = shutil.which(program)
    if not found:
        print(f"NOT RUN: {program} is not here", flush=True)
        raise unittest.SkipTest(f"{program} is not here")
    return found


def service():
    """Repeated keys are allowed in units; none of ours that is looked at here is."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(UNITS / "gearbox.service")
    return parser["Service"]


class Units(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gearbox-units-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def verify(self, text, drop_in=None):
        """What systemd-analyze says of a unit with this text; its program is one that is there."""
        unit = self.folder / "gearbox.service"
        unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.M))
        if drop_in is not None:
            (self.folder / "gearbox.service.d").mkdir(exist_ok=True)
            (self.folder / "gearbox.service.d/x.conf").write_text(drop_in)
        done = subprocess.run([needs("systemd-analyze"), "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
        # Older ones exit with 0 whatever they found; of units other than ours this machine's administrator knows.
        said = [line for line in (done.stdout + done.stderr).splitlines() if "gearbox" in line or line.startswith(str(self.folder))]
        return said, done.returncode

    def test_systemd_analyze_finds_nothing(self):
        said, code = self.verify((UNITS / "gearbox.service").read_text())
        self.assertEqual((said, code), ([], 0))

    def test_a_wrong_unit_would_be_found(self):
        text = (UNITS / "gearbox.service").read_text()
        for wrong in (text.replace("KillMode=process", "KillMode=some"), text.replace("[Service]", "[Service]\nNoSuchKey=1")):
            self.assertNotEqual(self.verify(wrong)[0], [])

    def test_the_drop_in_for_later_versions(self):
        version = int(subprocess.run([needs("systemd-analyze"), "--version"], capture_output=True, text=True,
                                     timeout=60).stdout.split()[1])
        if version < 254:
            print(f"NOT RUN: systemd {version} does not know DelegateSubgroup=, 254 does", flush=True)
            self.skipTest("systemd is older than 254")
        said, code = self.verify((UNITS / "gearbox.service").read_text(),
                                 (UNITS / "gearbox.service.d/subgroup.conf").read_text())
        self.assertEqual((said, code), ([], 0))

    def test_the_unit_says_what_the_supervisor_relies_on(self):
        unit = service()
        self.assertEqual(unit["Type"], "notify")
        self.assertEqual(unit["NotifyAccess"], "main")
        self.assertEqual(unit["KillMode"], "process", "children outlive a supervisor that crashed")
        self.assertEqual(unit["Delegate"], "yes")
        self.assertEqual(unit["LimitNOFILE"], "20000")
        self.assertEqual(unit["RestartPreventExitStatus"], "2")
        self.assertGreater(int(unit["WatchdogSec"]), 0)
        # The drain's default bound, and what comes after it.
        self.assertGreater(int(unit["TimeoutStopSec"]), 10 + 20 + 5 + 5)
        # What would break GPUs, compilers of models, and the cgroups of workers.
        for key in ("PrivateDevices", "MemoryDenyWriteExecute", "ProtectControlGroups", "PrivateNetwork", "SystemCallFilter"):
            self.assertNotIn(key, unit)


if __name__ == "__main__":
    unittest.main()
