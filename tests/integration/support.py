"""Where the tests here find the cluster module, the pictures, and how they say that something cannot be run."""
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import cluster  # noqa: E402,F401

SHARED = ROOT.parent / "shared"
ENVIRONMENT = ROOT / "build/envs/onnx/bin/python"


def needs(path, what):
    """Skips a test whose material is not on this machine, audibly."""
    if not Path(path).exists():
        print(f"NOT RUN: {what} is not here ({path})", flush=True)
        raise unittest.SkipTest(f"{what} is not here")
    return Path(path)
