"""Sets up, builds and runs all tests. What the machine forbids prints "NOT RUN: reason"; it is counted, never silently passed.

The last line is "N passed, N failed, N skipped".
Exit codes: 0 no test failed, 1 a test or a build failed, 2 wrong usage.
"""
import argparse
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "test-logs"
# Which tests the sanitizer builds run: where memory, threads or bytes from outside are in play.
SANITIZED = {"asan": "base|link|net|pi_client|shm|worker_pool|codec|codec_chain|session|journal|sinks|gpu|watch|plugin_records|plugin_live|live",
             "tsan": "net|shm|worker_pool|store|session|journal|sinks|gpu|watch|plugin_records|plugin_live|live"}


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.not_run = []
        self.failures = []

    def read_junit(self, file, where):
        for case in xml.parse(file).getroot().iter("testcase"):
            output = "".join(part.text or "" for part in case.iter("system-out"))
            not_run = re.findall(r"^.*?(NOT RUN: .*)$", output, re.M)
            self.not_run += [f"{where}: {case.get('name')}: {line}" for line in not_run]
            if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
                self.failed += 1
                self.failures.append(f"{where}: {case.get('name')}")
            elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
                self.skipped += max(1, len(not_run))
            else:
                self.passed += 1
                self.skipped += len(not_run)  # parts of it

    def broke(self, what):
        self.failed += 1
        self.failures.append(what)


def run(words, **more):
    print("+", " ".join(str(word) for word in words), flush=True)
    return subprocess.run([str(word) for word in words], cwd=ROOT, **more).returncode


def configure(preset, count, *options):
    log = LOGS / f"{preset}.configure.log"
    with open(log, "w") as out:
        if run(["cmake", "--preset", preset, *options], stdout=out, stderr=subprocess.STDOUT) != 0:
            print(log.read_text())
            count.broke(f"{preset}: configure")
            return False
    return True


def build(preset, count, targets=()):
    if run(["cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else [])]) != 0:
        count.broke(f"{preset}: build")
        return False
    return True


def ctest(preset, count, more, **environment):
    report = LOGS / f"{preset}.xml"
    report.unlink(missing_ok=True)
    # Most tests wait most of the time; those that compute take several of these places (PROCESSORS) or all (RUN_SERIAL).
    jobs = 2 * max(1, os.cpu_count() or 1)
    run(["ctest", "--test-dir", ROOT / "build" / preset, "--output-on-failure", "--output-junit", report, "-j", jobs,
         "--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000", "--no-tests=ignore", *more],
        env={**os.environ, **environment})
    if report.exists():
        count.read_junit(report, preset)
    else:
        count.broke(f"{preset}: ctest left no report")


def as_users_build_it(count):
    """The optimised build of scripts/demo: it has no tests, but its compiler sees more, and every warning is an error."""
    if configure("release", count, "-DGEARBOX_BENCH=OFF"):
        build("release", count)


def sanitizer_targets(preset):
    """The test programs that match, so that a sanitizer build is no larger than its tests; and the others."""
    listing = subprocess.run(["ninja", "-C", str(ROOT / "build" / preset), "-t", "targets", "all"], capture_output=True, text=True)
    names = set(re.findall(r"^(?:\S*/)?(\w+_test): CXX_EXECUTABLE_LINKER", listing.stdout, re.M))
    wanted = sorted(name for name in names if re.fullmatch(f"({SANITIZED[preset]})(_stress)?_test", name))
    return wanted, sorted(names - set(wanted))


def sanitizer(preset, count):
    if not configure(preset, count):
        return
    targets, others = sanitizer_targets(preset)
    if not targets:
        count.broke(f"{preset}: no test program matches {SANITIZED[preset]}")
        return
    if not build(preset, count, targets):
        return
    # Programs of other rooms were not built: ctest knows them as NAME_NOT_BUILT, without a label, but for those tests that share a process.
    ctest(preset, count, ["-L", "unit", "-LE", "long", "-E", f"^({'|'.join(others)})\\.together$"])


def fuzz(count, seconds):
    """Each parser of bytes from outside, for so long."""
    if not configure("fuzz", count):
        return
    listing = subprocess.run(["ninja", "-C", str(ROOT / "build/fuzz"), "-t", "targets", "all"], capture_output=True, text=True)
    targets = sorted(set(re.findall(r"^(?:\S*/)?(\w+_fuzz): CXX_EXECUTABLE_LINKER", listing.stdout, re.M)))
    if not targets:
        count.broke("fuzz: no fuzzer found")
    elif build("fuzz", count, targets):
        ctest("fuzz", count, ["-L", "fuzz", "--timeout", str(seconds + 120)], GEARBOX_FUZZ_SECONDS=str(seconds))


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__.split("\n")[0],
                                     epilog="Example: scripts/test --only supervisor\nThe last line counts passed, failed and skipped.")
    parser.add_argument("--long", action="store_true", help="also the long tests (soaks, fuzzing, kill storms)")
    parser.add_argument("--only", metavar="X", help="only tests whose name matches this expression; no sanitizer builds")
    parser.add_argument("--setup-failed", action="store_true", help=argparse.SUPPRESS)  # said by scripts/test itself
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    count = Count()
    began = time.monotonic()
    if options.setup_failed:
        count.broke("scripts/setup")
    only = ["-R", options.only] if options.only else []
    labels = [] if options.long else ["-LE", "long"]
    if configure("dev", count) and build("dev", count, ["all", "all_verify_interface_header_sets"]):
        ctest("dev", count, labels + only)
    if not options.only:
        as_users_build_it(count)
        for preset in SANITIZED:
            sanitizer(preset, count)
        fuzz(count, 600 if options.long else 2)
    print(f"\n{time.monotonic() - began:.0f} s")
    for failure in count.failures:
        print("FAILED:", failure)
    for line in count.not_run:
        print(line)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
