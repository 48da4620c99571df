"""The whole way once: builds the broker, starts it on free ports in a scratch folder, makes an account, sends a photograph as a
device would, prints the text that two networks read on it and where the time went, and stops everything again.

Exit codes: 0 the text is there and nothing is left behind, 1 something failed, 2 wrong usage.
"""
import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/support"))
import cluster  # noqa: E402


def say(text):
    print(f"\n== {text}", flush=True)


def build():
    log = ROOT / "build/release.configure.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "w") as out:
        if subprocess.run(["cmake", "--preset", "release", "-DGEARBOX_BENCH=OFF"], cwd=ROOT, stdout=out,
                          stderr=subprocess.STDOUT).returncode != 0:
            print(log.read_text())
            return False
    return subprocess.run(["cmake", "--build", "--preset", "release"], cwd=ROOT).returncode == 0


def demo(pictures, keep):
    with cluster.Cluster(build=ROOT / "build/release", configs=cluster.example_configs,
                         python=ROOT / "build/envs/onnx/bin/python") as run:
        say(f"starting (scratch folder {run.scratch})")
        run.start()
        run.wait_ready(180)
        cluster.wait_until("the line that says so", lambda: " node ready" in run.log(), 10)
        print("\n".join(line for line in run.log().splitlines() if line.startswith(("supervisor | central ready", "supervisor | node ready"))))

        say("an account, and a device that enrols with its password, once")
        user, password = run.add_user("anna")
        central = run.central()
        keys = run.enrol(user, password, "demo-device", central)
        print(f"user {user}, central {central[0]}, its key {central[1]}")

        say("the device sends " + ", ".join(str(picture) for picture in pictures))
        sent = subprocess.run([*run.client_words("send", user, keys, central), "--task", "read-text", *map(str, pictures)],
                              timeout=180, stdin=subprocess.DEVNULL)

        say("stopping")
        code = run.stop()
        left = run.leftovers()
        for line in left:
            print("LEFT BEHIND:", line)
        if keep:
            run.state.rename(keep)
        if not left:
            print("nothing is left: no process, no socket, no shared memory")
        if sent.returncode != 0 or code != 0:
            print(run.log())
            print(f"pi_client ended with {sent.returncode}, the broker with {code}")
        return 1 if left or sent.returncode != 0 or code != 0 else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.split("\n\n")[0],
                                     epilog="Example: scripts/demo docs/examples/pictures/ear_tag.jpg")
    parser.add_argument("pictures", nargs="*", type=Path, default=[ROOT / "docs/examples/pictures/ear_tag.jpg"], metavar="FILE",
                        help="photographs with text (default: an ear tag)")
    parser.add_argument("--no-setup", action="store_true", help="do not look for missing packages")
    parser.add_argument("--keep-state", type=Path, metavar="DIR", help="move keys, logs and results there afterwards")
    options = parser.parse_args()
    say("building")
    if not build():
        return 1
    try:
        return demo(options.pictures, options.keep_state)
    except (cluster.Failed, subprocess.TimeoutExpired) as failed:
        print(f"scripts/demo: {failed}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
