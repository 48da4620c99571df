"""The steady load of a chaos run, and the book of it: what was submitted, and every end that its sender was told of.

A lane is one device that sends, waits for all its answers, and sends again. pi_client comes back after every cut by itself;
`broker submit` does not, and says so. Standard library only.
"""
import collections
import itertools
import json
import random
import subprocess
import threading
import time

import chaos_site
import cluster

# No client may give up before what was killed has come back: pauses of the supervisor grow to 30 s.
PATIENCE_MS = 240_000
WITHIN = PATIENCE_MS / 1000 + 30
# With which a request may end where workers are killed. All else would be a request that nobody answers for any more: pi_client
# has to come back until the node has said one of these; `broker submit` tries once.
REASONS = {"stream_broken", "quarantined", "worker_lost", "model_unavailable"}
REASONS_OF_ONE_TRY = REASONS | {"closed", "unreachable", "io_error"}


class Request:
    """One file, or one prompt, on its way."""

    def __init__(self, kind, name, expected):
        self.kind = kind
        self.name = name
        self.expected = expected
        self.token = None     # what the ledger calls it
        self.id = None        # the broker's name for it
        self.parts = []       # numbers, as they came
        self.said = b""       # what they held
        self.ends = []        # (seconds, reason or None, answer or None): exactly one, or something is wrong
        self.note = ""        # for people


class Book:
    def __init__(self):
        self.lock = threading.Lock()
        self.requests = []

    def open(self, request):
        with self.lock:
            self.requests.append(request)
        return request

    def end(self, request, reason=None, answer=None):
        with self.lock:
            request.ends.append((time.monotonic(), reason, answer))

    def counts(self):
        """{name: number}, and the lines that tell of each fault."""
        found = collections.Counter(submitted=len(self.requests), answered=0, failed=0, lost=0, doubled=0, wrong=0)
        reasons, faults = collections.Counter(), []

        def fault(name, request, text):
            found[name] += 1
            faults.append(f"{name}: {request.kind} {request.name} request={request.id}: {text} {request.note}".strip())
        for request in self.requests:
            if not request.ends:
                fault("lost", request, "no end")
                continue
            if len(request.ends) > 1:
                fault("doubled", request, f"{len(request.ends)} ends: {[reason for _, reason, _ in request.ends]}")
            if request.parts != list(range(len(request.parts))):
                twice = len(set(request.parts)) < len(request.parts)
                fault("doubled" if twice else "wrong", request, f"parts came as {request.parts[:50]}")
            _, reason, answer = request.ends[0]
            if reason is None:
                found["answered"] += 1
                if answer != request.expected:
                    fault("wrong", request, f"{str(answer)[:200]} in place of {str(request.expected)[:200]}")
            elif reason not in (REASONS_OF_ONE_TRY if request.kind == "local" else REASONS):
                fault("lost", request, f"the sender gave it up: {reason}")
            else:
                found["failed"] += 1
                reasons[f"{request.kind}: {reason}"] += 1
                if request.said and request.said != request.expected[:len(request.said)]:
                    fault("wrong", request, "the parts before its end are not the beginning of the answer")
        return found, reasons, faults


class Lane(threading.Thread):
    """Sends until `stop` is set; what is under way then goes on to its end."""

    def __init__(self, site, book, name, keys, central, seed):
        super().__init__(name=name)
        self.site, self.book, self.keys, self.central = site, book, keys, central
        self.random = random.Random(f"{seed}-{name}")
        self.stop = threading.Event()
        self.numbers = itertools.count()
        self.folder = site.scratch / f"lane-{name}"
        self.folder.mkdir(exist_ok=True)
        self.broke = None     # the lane's own fault, not the broker's

    def run(self):
        try:
            while not self.stop.is_set():
                self.once()
        except Exception as broke:  # the main thread tells it
            self.broke = broke

    def once(self):
        """Sends one bunch and waits for all its ends."""
        raise NotImplementedError

    def pictures(self, count, sizes, order=""):
        """{path: bytes} of so many new pictures."""
        made = {}
        for _ in range(count):
            path = self.folder / f"{next(self.numbers)}.jpg"
            data = cluster.jpeg(self.random.randrange(*sizes), order)
            path.write_bytes(data)
            made[path] = data
        return made

    def client(self, task, files, by_file, more=()):
        """pi_client send; `by_file`: file as it names it -> Request."""
        words = [*self.site.client_words("send", "anna", self.keys, self.central), "--task", task, "--json", "--timeout-ms",
                 str(PATIENCE_MS), "--first-contact-ms", str(PATIENCE_MS), *more, *files]
        self.converse(words, by_file)

    def converse(self, words, by_file):
        with open(self.folder / "stderr", "w+") as errors:
            sender = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=errors, text=True)
            watchdog = threading.Timer(WITHIN, sender.kill)
            watchdog.start()
            try:
                for line in sender.stdout:
                    if line.startswith("["):
                        for each in json.loads(line):
                            self.take(each, by_file)
                    elif line.startswith("{"):
                        self.take(json.loads(line), by_file)
            finally:
                sender.wait()
                watchdog.cancel()
                watchdog.join()
            errors.seek(0)
            said = errors.read()[-300:].strip()
        for request in by_file.values():
            if not request.ends:
                self.without_end(request, sender.returncode, said)

    def without_end(self, request, code, said):
        request.note = f"{request.note} (exit code {code}: {said})"

    def take(self, line, by_file):
        request = by_file[line["file"]]
        request.id = line.get("request", request.id)
        if "part" in line:
            request.parts.append(line["part"])
            request.said += bytes(line["outputs"]["text"]["data"])
        elif line["ok"]:
            self.book.end(request, answer=self.answer_in(line, request))
        else:
            request.note = line["error"]["detail"]
            self.book.end(request, line["error"]["name"])

    def answer_in(self, line, request):
        raise NotImplementedError


class Pictures(Lane):
    """Uploads: small ones that travel with the submit, and large ones that a cut catches in the middle."""

    def __init__(self, *words, count, sizes):
        super().__init__(*words)
        self.count, self.sizes = count, sizes

    def once(self):
        made = self.pictures(self.count, self.sizes)
        by_file = {}
        for path, data in made.items():
            request = by_file[str(path)] = self.book.open(Request("picture", path.name, chaos_site.fingerprint(data)))
            request.token = request.expected
        self.client("mark", made, by_file)
        for path in made:
            path.unlink()

    def answer_in(self, line, request):
        return line["outputs"]["text"]["data"][0]


class Pipelines(Lane):
    def once(self):
        made = self.pictures(3, (1_000, 200_000))
        by_file = {}
        for path, data in made.items():
            whole = chaos_site.fingerprint(data)
            request = by_file[str(path)] = self.book.open(
                Request("pipeline", path.name, [*chaos_site.fingerprints_of_pieces(data), whole]))
            request.token = whole
        self.client("pieces", made, by_file)
        for path in made:
            path.unlink()

    def answer_in(self, line, request):
        return line["outputs"]["pieces"]["data"] + line["outputs"]["whole"]["data"]


class Streams(Lane):
    """Answers in parts, by turns of a model that is repeatable and of one that is not."""

    def once(self):
        number = next(self.numbers)
        model = ("song", "story")[number % 2]
        words = self.random.randrange(50, 300)
        path = self.folder / f"{number}.npy"
        chaos_site.npy(path, f"words={words} pause_ms=5 number={number}".encode())
        request = self.book.open(Request(model, path.name, chaos_site.story(words)))
        self.client(model, ["--input", f"prompt={path}"], {f"prompt={path}": request}, ["--stream"])
        path.unlink()

    def answer_in(self, line, request):
        return request.said if line["parts"] == len(request.parts) else f"{line['parts']} parts, {len(request.parts)} came"


class Local(Lane):
    """`broker submit`, which tries once: a node that dies under it, or is not there, is a failure with that reason."""

    def once(self):
        made = self.pictures(2, (1_000, 60_000))
        by_file = {}
        for path, data in made.items():
            request = by_file[str(path)] = self.book.open(Request("local", path.name, chaos_site.fingerprint(data)))
            request.token = request.expected
        self.converse([self.site.broker, "submit", "--state", self.site.state, "--task", "mark", "--json", "--timeout-ms", "60000",
                       *made], by_file)
        for path in made:
            path.unlink()
        if all(request.ends and request.ends[0][1] for request in by_file.values()):
            self.stop.wait(0.5)  # nobody is there just now

    def answer_in(self, line, request):
        return line["tensors"][0]["values"][0]


def lanes(site, book, central, seed, keys):
    """One of each, and two that upload. `keys`: folders of five enrolled devices."""
    keys = iter(keys)
    common = (central, seed)
    return [Pictures(site, book, "small", next(keys), *common, count=8, sizes=(1_000, 60_000)),
            Pictures(site, book, "large", next(keys), *common, count=3, sizes=(300_000, 3_000_000)),
            Pipelines(site, book, "pipelines", next(keys), *common),
            Streams(site, book, "streams", next(keys), *common),
            Local(site, book, "local", next(keys), *common)]
