"""The process of one rank: takes the driver's messages one after another, and answers.

    python -m gearbox_elastic.rank DESCRIPTOR ENGINE    (its end of a socketpair, "module:class"; started by the driver only)

With one more word it is a rank of another host's driver: hosted_rank.py.

It ends when the socket does, and the kernel ends it when its driver's process is gone.
"""
import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback

from .batch import Batch
from .collective import CollectiveError
from .crossings import unpacked
from .engine import Move
from .inbox import Inbox
from .plan import plan_of_dict
from .role import Topology
from .stop_point import stop_point
from .wire import Wire, WireClosed

PR_SET_PDEATHSIG = 1
# While weights are loaded beside steps, each of a step's hundred calls would wait up to 5 ms for the loading thread.
SWITCH_S = 0.00002


class Rank:
    def __init__(self, wire, engine):
        self.wire = wire
        module, _, name = engine.partition(":")
        self.engine_class = getattr(importlib.import_module(module), name)
        self.engine = None
        self.epoch = -1         # of the plan that runs
        self.next_epoch = -1
        self.preparing = None   # a thread
        self.inbox = None       # where the group spans hosts
        self.steps = 0

    def run(self):
        while True:
            head, blob, descriptors = self.wire.receive() if self.inbox is None else self.inbox.receive()
            operation = getattr(self, "on_" + head["op"])
            operation(head, blob, descriptors)

    def on_start(self, head, blob, descriptors):
        self.settings = settings = head["settings"]
        self.engine = self.engine_class(settings, descriptors[0])
        self.rank, self.shape = settings["rank"], self.engine.shape
        if settings.get("spans"):
            self.inbox = Inbox(self.wire)
        self.wire.send({"op": "started", "pid": os.getpid(), "checkpoint": settings.get("digest", "")})

    def on_attach(self, head, blob, descriptors):
        self.engine.attach(head["rank"], head["units"], descriptors[0])

    def _links(self, plan, head, descriptors):
        if self.rank not in plan.ranks:
            for descriptor in descriptors:
                os.close(descriptor)
            return None
        topology = Topology(plan)
        if self.settings["collective"] == "shared":
            from .collective.shared import SharedLinks
            return SharedLinks(topology, self.rank, descriptors[0], self.settings["limit_ms"])
        from .collective.gloo import GlooLinks
        if self.inbox is None:
            return GlooLinks(topology, self.rank, head["store"], self.settings["limit_ms"])
        from .collective.spanning import SpanningLinks
        return SpanningLinks(topology, self.rank, self.inbox.meetings, head["epoch"], self.settings["limit_ms"], self.settings["address"])

    def on_build(self, head, blob, descriptors):
        self._wait_for_preparing()
        plan = plan_of_dict(head["plan"], self.shape)
        try:
            links = self._links(plan, head, descriptors)
            self.engine.build(plan, head["epoch"], links, head["keep"])
        except CollectiveError as error:
            self.wire.send({"op": "left", "epoch": head["epoch"], "why": str(error)})
            return
        self.epoch = head["epoch"]
        self.wire.send({"op": "built", "epoch": self.epoch})

    def on_step(self, head, blob, descriptors):
        if head["epoch"] != self.epoch:
            return
        began = time.monotonic_ns()
        try:
            found = self.engine.step(Batch.unpack(head, blob))
        except CollectiveError as error:
            self.wire.send({"op": "left", "epoch": self.epoch, "why": str(error)})
            self.epoch = -1  # what is still in the queue of this epoch cannot be done any more
            return
        self.steps += 1
        if found is not None:
            answer, data = found.pack()
            answer.update(op="sampled", epoch=self.epoch, step=head["step"], replica=head["replica"], began=began)
            self.wire.send(answer, data)

    def on_free(self, head, blob, descriptors):
        self.engine.free(head["slots"])

    def on_price(self, head, blob, descriptors):
        plan = plan_of_dict(head["plan"], self.shape)
        price = self.engine.price(plan, [Move(*move) for move in head["moves"]])
        self.wire.send({"op": "priced", "shift": head["shift"], "price": price.as_dict()})

    def on_prepare(self, head, blob, descriptors):
        self._wait_for_preparing()
        self.next_epoch = head["epoch"]
        plan = plan_of_dict(head["plan"], self.shape)

        def prepare():
            answer = {"op": "prepared", "epoch": head["epoch"], "why": ""}
            try:
                self.engine.prepare(plan, head["epoch"], self._links(plan, head, descriptors))
            except Exception as error:  # whatever it is, the plan that runs goes on
                answer["why"] = f"{type(error).__name__}: {error}"
            try:
                self.wire.send(answer)
            except WireClosed:
                pass  # the main thread sees it, too

        self.preparing = threading.Thread(target=prepare, daemon=True)
        self.preparing.start()

    def _wait_for_preparing(self):
        if self.preparing is not None:
            self.preparing.join()
            self.preparing = None

    def on_import(self, head, blob, descriptors):
        moved = self.engine.import_cache([Move(*move) for move in head["moves"]], *unpacked(head, blob))
        self.wire.send({"op": "imported", "epoch": head["epoch"], "round": head["round"], "units": moved.units, "bytes": moved.bytes})

    def on_switch(self, head, blob, descriptors):
        stop_point("shift.copy", self.rank)
        self._wait_for_preparing()
        began = time.monotonic_ns()
        moved = self.engine.switch([Move(*move) for move in head["moves"]], *unpacked(head, blob))
        self.epoch = head["epoch"]
        self.wire.send({"op": "switched", "epoch": self.epoch, "units": moved.units, "bytes": moved.bytes, "began": began,
                        "ended": time.monotonic_ns()})

    def on_release(self, head, blob, descriptors):
        stop_point("shift.release", self.rank)
        self.engine.release()
        if self.inbox is not None:
            self.inbox.meetings.over_before(self.epoch)  # nobody asks for those any more
        self.wire.send({"op": "released", "epoch": head["epoch"]})

    def on_abort(self, head, blob, descriptors):
        self._wait_for_preparing()
        self.engine.abort()
        self.wire.send({"op": "aborted", "epoch": head["epoch"]})

    def on_ping(self, head, blob, descriptors):
        self.wire.send({"op": "pong", "number": head["number"]})

    def on_figures(self, head, blob, descriptors):
        self.wire.send({"op": "figures", "figures": dict(self.engine.figures(), steps=self.steps)})

    def on_export(self, head, blob, descriptors):
        parts, found = [], []
        for index, rank, move in head["parts"]:
            found.append(self.engine.export_cache(Move(*move), rank))
            parts.append((index, rank, len(found[-1])))
        self.wire.send({"op": "exported", "epoch": head["epoch"], "round": head["round"], "parts": parts}, b"".join(found))

    def on_defragment(self, head, blob, descriptors):
        self.wire.send({"op": "defragmented", "units": self.engine.defragment(head.get("most"))})


def main():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the driver's to hear
    sys.setswitchinterval(SWITCH_S)
    wire = Wire(socket.socket(fileno=int(sys.argv[1])))
    try:
        if len(sys.argv) > 3:
            from .hosted_rank import HostedRank
            HostedRank(wire, sys.argv[2], json.loads(sys.argv[3])).run()
        Rank(wire, sys.argv[2]).run()
    except WireClosed:
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)  # no destructor of a library holds up the end


if __name__ == "__main__":
    main()
