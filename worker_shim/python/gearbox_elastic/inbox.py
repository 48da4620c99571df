"""Inbox: takes a rank's messages off the stream on a thread of its own, where the group spans hosts.

What ends an epoch must be heard while the rank waits in a step of it for somebody who is gone: gloo itself notices a cut link late.
"""
import os
import queue
import threading

from .collective.meeting import Meetings
from .wire import WireClosed


class Inbox:
    """Threads: receive() from one."""

    def __init__(self, wire):
        self._wire = wire
        self._messages = queue.SimpleQueue()
        self.meetings = Meetings(wire)
        threading.Thread(target=self._take, name="gearbox-inbox", daemon=True).start()

    def receive(self):
        return self._messages.get()

    def _take(self):
        try:
            while True:
                head, blob, descriptors = self._wire.receive()
                operation = head["op"]
                if operation == "met":
                    self.meetings.heard(head["epoch"], head["key"], blob)
                elif operation == "leave":
                    self.meetings.over(head["epoch"])
                else:
                    if operation == "build":
                        self.meetings.over_before(head["epoch"])
                    self._messages.put((head, blob, descriptors))
        except WireClosed:
            os._exit(0)  # whatever this rank is in the middle of, nobody waits for it any more
