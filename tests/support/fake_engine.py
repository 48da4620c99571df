"""A group's driver without a model: speaks the JSON lines of one, keeps gear, epoch and term like one, and does as it is told.

    fake_engine.py STATE_FOLDER NAME [--ranks 4] [--gear 1] [--model NAME] [--refuse 3] [--shape] [--load]

It listens on STATE_FOLDER/run/groups/NAME.sock and remembers in STATE_FOLDER/fake-NAME.json. Beside the operations of a driver it
takes {"op": "tell", ...}: "silent": true answers no status; "hold": true lets a shift stand in its middle until it is false again;
"refuse": [gears]; "load": {counters}; "pid": what it says is its driver's. Its ranks are one process that sleeps, so that there is something to look at.
"""
import argparse
import json
import os
import selectors
import socket
import subprocess
import sys

POSSIBLE = {1: lambda n: True, 2: lambda n: n % 2 == 0, 3: lambda n: n % 4 == 0, 4: lambda n: True, 5: lambda n: True,
            6: lambda n: n in (4, 8)}
SHAPE = {"layers": 32, "width": 4096, "heads": 32, "kv_heads": 32, "head_width": 128, "parameters": 6_740_000_000}


class Engine:
    def __init__(self, options):
        self.options = options
        self.file = os.path.join(options.state, f"fake-{options.name}.json")
        self.record = {"gear": options.gear, "epoch": 1, "term": 0}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as file:
                self.record = json.load(file)
        self.refused = set(options.refuse)
        self.silent = self.hold = False
        self.pid = 0
        self.shifting = None  # (gear, term, answer, client)
        self.history = []
        self.seen = []        # orders to shift, with their terms
        self.load = {"arrived": 0, "finished": 0, "prompt_tokens": 0, "output_tokens": 0, "oldest_wait_ms": 0,
                     "first_token_ms": None, "per_token_ms": None}
        self.rank = subprocess.Popen(["sleep", "1000"])
        self.selector = selectors.DefaultSelector()
        folder = os.path.join(options.state, "run/groups")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(folder, options.name + ".sock")
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def run(self):
        print("ready", flush=True)
        try:
            while True:
                for key, _ in self.selector.select():
                    key.data(key.fileobj)
        finally:
            self.rank.kill()
            self.rank.wait()

    def accept(self, listener):
        client, _ = listener.accept()
        self.selector.register(client, selectors.EVENT_READ, self.read)

    def read(self, client):
        try:
            data = client.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(client)
            client.close()
            return
        for line in data.splitlines():
            command = json.loads(line)
            answer = getattr(self, "do_" + command["op"])(command, client)
            if answer is not None:
                self.answer(client, answer)

    @staticmethod
    def answer(client, answer):
        try:
            client.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # it did not wait for it

    def save(self):
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            json.dump(self.record, file)
        os.replace(self.file + ".new", self.file)

    def do_status(self, _command, _client):
        if self.silent:
            return None
        status = {"ok": True, "pid": self.pid, "phase": "running", "plan": None, **self.record,
                  "ranks": [{"rank": n, "pid": self.rank.pid, "used_units": 10 * n, "units": 100} for n in range(self.options.ranks)],
                  "shift": "preparing" if self.shifting else None, "running": 3, "waiting": 1, "tokens": 1000, "steps": 100,
                  "evicted": 0, "shifts": len(self.history), "collective": "shared", "seen": self.seen}
        if self.options.model:
            status["model"] = self.options.model
        if self.options.shape:
            status["shape"] = SHAPE
        if self.options.load:
            status["load"] = self.load
        return status

    def no_to(self, gear):
        if gear not in POSSIBLE or not POSSIBLE[gear](self.options.ranks):
            return {"ok": False, "why": f"gear {gear} is not made of {self.options.ranks} ranks"}
        if self.shifting:
            return {"ok": False, "why": "another shift is going on"}
        if gear in self.refused:
            return {"ok": False, "fits": False, "why": "rank 0: the cache lacks 12 units", "prices": []}
        return None

    def do_price(self, command, _client):
        return self.no_to(command["gear"]) or {"ok": True, "fits": True, "prices": []}

    def do_shift(self, command, client):
        self.seen.append({"gear": command["gear"], "term": command["term"]})
        if command["term"] < self.record["term"]:
            return {"ok": False, "why": f"term {command['term']} is older than {self.record['term']}"}
        if command["term"] > self.record["term"]:
            self.record["term"] = command["term"]
            self.save()
        no = self.no_to(command["gear"])
        if no:
            return no
        self.shifting = (command["gear"], command["term"], client)
        if not self.hold:
            self.commit()
        return None

    def commit(self):
        gear, term, client = self.shifting
        self.shifting = None
        report = {"ok": True, "gear": gear, "from_gear": self.record["gear"], "epoch": self.record["epoch"] + 1, "term": term,
                  "pause_ms": 12.5, "shift_ms": 80.0, "imported_bytes": 4096}
        self.record.update(gear=gear, epoch=report["epoch"])
        self.save()
        self.history.append(report)
        self.answer(client, report)

    def do_history(self, _command, _client):
        return {"ok": True, "history": self.history}

    def do_abort(self, _command, _client):
        return {"ok": False}

    def do_tell(self, command, _client):
        self.silent = command.get("silent", self.silent)
        self.refused = set(command.get("refuse", self.refused))
        self.pid = command.get("pid", self.pid)
        self.load.update(command.get("load", {}))
        self.hold = command.get("hold", self.hold)
        if not self.hold and self.shifting:
            self.commit()
        return {"ok": True}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("state")
    parser.add_argument("name")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--gear", type=int, default=1)
    parser.add_argument("--model", default="")
    parser.add_argument("--refuse", type=int, action="append", default=[])
    parser.add_argument("--shape", action="store_true")
    parser.add_argument("--load", action="store_true")
    Engine(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
