"""Model: a group of ranks as one model of a node. A package names it in its model.py, with its options in engine.toml:

    from gearbox_elastic.model import Model

Inputs: `prompt` (UINT8: text, or a JSON object with "prompt" and any of max_tokens, temperature, top_p, seed, stop, ignore_end); each of
those may also be an input of its own. Outputs: `text` (UINT8 [-1]) and `tokens` (INT32 [-1]), in parts of one token each: so the same
request gives the same parts, whenever it is run.
"""
import collections
import fcntl
import json
import os
import secrets
import sys

import numpy as np

import gearbox_worker

from .checkpoint_digest import checkpoint_digest
from .driver import Driver, GroupFailed
from .folders import base_folder
from .options import read_options
from .rank_host import RankHost
from .random_checkpoint import write_random_checkpoint
from .sequences import Overloaded, Refused, Request
from .shape import ModelShape
from .stop_text import StopText
from .tokenizer import open_tokenizer

MOST_STOPS = 16
MOST_STATES = 16
DEFAULTS = {"max_tokens": 128, "temperature": 0.0, "top_p": 1.0, "seed": None, "stop": [], "ignore_end": False}


def state_folder(name):
    """A folder that is this process's alone while it lives, and the next one's afterwards: (path, the descriptor of its lock).

    Workers of the same model each have one of their own."""
    base = base_folder()
    for number in range(MOST_STATES):
        folder = os.path.join(base, "elastic", name if number == 0 else f"{name}-{number}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder, lock
        except BlockingIOError:
            os.close(lock)
    raise RuntimeError(f"{MOST_STATES} workers of {name} have state folders already")


class Model:
    def load(self, record, device):
        if device not in ("", "cpu"):
            raise ValueError(f"device {device!r}: the elastic engine computes on CPUs only so far")
        options = read_options(os.path.join(record.folder, "engine.toml"))
        self._lock = None
        if not options.state:
            options.state, self._lock = state_folder(record.name)
        self._find_checkpoint(options)
        self.options = options
        self.open = 0
        self.probe = None
        if options.role == "ranks":
            self._lend(record.name)
            return
        if not options.control:
            options.control = self._socket_of(options.state)
        options.node_socket = options.node_socket or os.path.join(base_folder(), "run", "node.sock")
        for host in options.hosts or ():
            host.setdefault("group", record.name)
        self.driver = Driver(options, gearbox_worker.wake)
        self.tokenizer = open_tokenizer(options.tokenizer, options.checkpoint, self.driver.group.shape)
        self.driver.start()

    def _lend(self, name):
        """This process answers nobody: it starts ranks for groups of other hosts."""
        own = {"checkpoint": os.path.abspath(self.options.checkpoint), "digest": checkpoint_digest(self.options.checkpoint),
               "address": self.options.address}
        if self.options.memory_mb:
            own["budget_bytes"] = self.options.memory_mb << 20
        self.probe = secrets.token_hex(16).encode()  # only the node's own look at a new worker knows it
        self.driver = RankHost(self.options, own, os.path.join(base_folder(), "run", "ranks", name + ".sock"))

    @staticmethod
    def _socket_of(state):
        """Where the broker looks for groups: named as the folder of their state."""
        groups = os.path.join(base_folder(), "run", "groups")
        os.makedirs(groups, mode=0o700, exist_ok=True)
        return os.path.join(groups, os.path.basename(state) + ".sock")

    @staticmethod
    def _find_checkpoint(options):
        if options.checkpoint.startswith("package:"):
            package, _, path = options.checkpoint[len("package:"):].partition("/")
            options.checkpoint = gearbox_worker.package_file(package, path)
        elif options.random is not None and not os.path.exists(options.checkpoint):
            values = dict(options.random)
            seed = values.pop("seed", 1)
            if not options.checkpoint:
                options.checkpoint = os.path.join(options.state, "random.bin")
            if not os.path.exists(options.checkpoint):
                write_random_checkpoint(options.checkpoint, ModelShape(**values), seed)

    def _asked(self, request):
        """Errors: BadInput."""
        text = bytes(request["prompt"])
        asked = dict(DEFAULTS, **(self.options.defaults or {}))
        if text.lstrip()[:1] == b"{":
            try:
                given = json.loads(text)
                text = given.pop("prompt")
                if not isinstance(text, str):
                    raise ValueError("its prompt is no text")
            except (ValueError, KeyError) as error:
                raise gearbox_worker.BadInput(f"prompt: it begins with {{ and is no JSON object with a prompt: {error}") from None
            unknown = sorted(set(given) - set(DEFAULTS))
            if unknown:
                raise gearbox_worker.BadInput(f"prompt: unknown key '{unknown[0]}'")
            asked.update(given)
        for name in DEFAULTS:
            if name in request:
                value = request[name]
                asked[name] = [bytes(each) for each in value.reshape(-1)] if name == "stop" else value.reshape(-1)[0].item()
        return text, asked

    def _request(self, text, asked):
        try:
            stops = [stop.encode() if isinstance(stop, str) else bytes(stop) for stop in asked["stop"]]
            if len(stops) > MOST_STOPS:
                raise ValueError(f"more than {MOST_STOPS} stop words")
            if self.options.template:
                text = self.options.template.replace("{prompt}", text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
            shape = self.driver.group.shape
            prompt = self.tokenizer.encode(text, shape.bos)
            seed = gearbox_worker.request_seed() if asked["seed"] is None else int(asked["seed"])
            request = Request(prompt, int(asked["max_tokens"]), float(asked["temperature"]), float(asked["top_p"]),
                              seed % (1 << 64), () if asked["ignore_end"] else shape.ends)
        except (ValueError, TypeError) as error:
            raise gearbox_worker.BadInput(str(error)) from None
        return request, StopText(stops)

    def stream(self, request):
        if self.probe is not None:
            if bytes(request["prompt"]) != self.probe:
                raise gearbox_worker.BadInput("this model lends ranks to groups on other hosts, and answers nothing itself")
            return iter([self._part(b"", [])])
        text, asked = self._asked(request)
        return self._parts(*self._request(text, asked))

    def _parts(self, request, stop):
        gearbox_worker.note_input_tokens(len(request.prompt))
        try:
            stream = self.driver.submit(request)
        except Refused as error:
            raise gearbox_worker.BadInput(str(error)) from None
        except Overloaded as error:
            raise gearbox_worker.Overloaded(str(error)) from None
        except GroupFailed as error:
            self._give_up(error)
        self.open += 1
        try:
            came = collections.deque()
            while not stop.over:
                tokens, over = stream.take(0)
                came.extend(token for token, _ in tokens)
                if came:
                    token = came.popleft()
                    yield self._part(stop.feed(self.tokenizer.piece(token)), [token])
                elif over:
                    break
                else:
                    yield gearbox_worker.NOTHING_YET
            if not stop.over:
                self._check_end(stream)
                rest = stop.rest()
                if rest:
                    yield self._part(rest, [])
        finally:
            self.open -= 1
            self.driver.cancel(stream)

    def _check_end(self, stream):
        if not stream.error:
            return
        if self.driver.failure:
            self._give_up(stream.error)
        if stream.overloaded:
            raise gearbox_worker.Overloaded(stream.error)
        raise RuntimeError(stream.error)

    @staticmethod
    def _part(piece, tokens):
        return {"text": np.frombuffer(piece, np.uint8), "tokens": np.array(tokens, np.int32)}

    @staticmethod
    def _give_up(error):
        """Nothing of this process can serve any more: the node starts another one."""
        print(f"gearbox_elastic: event=given_up why=\"{error}\"", file=sys.stderr, flush=True)
        os._exit(70)

    def example(self):
        if self.probe is not None:
            return {"prompt": np.frombuffer(self.probe, np.uint8)}
        return {"prompt": np.frombuffer(b'{"prompt": "Once", "max_tokens": 2}', np.uint8)}

    def close(self):
        self.driver.close()
