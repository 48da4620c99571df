"""HostedRank: a rank that a rank host has started for a driver on another host.

    python -m gearbox_elastic.rank DESCRIPTOR ENGINE OWN    (OWN: JSON, what this host has its own mind about: checkpoint, address ...)

It waits until the rank host hands it the driver's stream. Its cache is memory that it makes itself; the rank host keeps a descriptor, which
it gives to other ranks of the same driver only: so they copy from each other as on the driver's own host.
"""
import os
import socket

from .frame_wire import FrameWire
from .rank import Rank


class HostedRank(Rank):
    def __init__(self, desk, engine, own):
        """`desk`: to the rank host."""
        super().__init__(None, engine)
        self.desk, self.own = desk, own

    def run(self):
        _, _, descriptors = self.desk.receive()
        self.wire = FrameWire(socket.socket(fileno=descriptors[0]))
        super().run()

    def on_start(self, head, blob, descriptors):
        arena = os.memfd_create("gearbox-cache", os.MFD_CLOEXEC)
        os.ftruncate(arena, head["arena_size"])
        self.desk.send({"op": "mine", "rank": head["settings"]["rank"]}, descriptors=[arena])
        super().on_start(dict(head, settings=dict(head["settings"], **self.own)), blob, [arena])

    def on_attach(self, head, blob, descriptors):
        self.desk.send({"op": "give", "rank": head["rank"]})
        _, _, descriptors = self.desk.receive()
        if descriptors:  # else it has ended meanwhile, and its driver will tell
            super().on_attach(head, blob, descriptors)
