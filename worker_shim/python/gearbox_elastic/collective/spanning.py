"""Links between ranks on several hosts: gloo over the addresses that the configuration names, which is not encrypted.

The epoch can be ended from outside: whoever waits for a rank that is gone, or behind a link that is cut, leaves within POLL_S.
"""
import datetime
import threading

import torch.distributed as dist

from .gloo import GlooLinks
from .meeting import MeetingStore

POLL_S = 0.1
_POLL = datetime.timedelta(seconds=POLL_S)
_left = []  # (groups, work): gloo ends what was left behind when its own time is up; only then may its groups go


class SpanningLinks(GlooLinks):
    def __init__(self, topology, rank, meetings, epoch, limit_ms, address):
        self._address, self._over = address, lambda: meetings.is_over(epoch)
        self._store_of_epoch = MeetingStore(meetings, epoch, limit_ms / 1000)
        super().__init__(topology, rank, None, limit_ms)

    def _open_store(self, path):
        return self._store_of_epoch

    def _group(self, name, place, size):
        """Connects on a thread of its own, which may be left behind."""
        made, ended = [], threading.Event()

        def connect():
            try:
                made.append(GlooLinks._group(self, name, place, size))
            except Exception as error:
                made.append(RuntimeError(str(error).splitlines()[0] if str(error) else type(error).__name__))
            ended.set()

        threading.Thread(target=connect, daemon=True).start()
        while not ended.wait(POLL_S):
            if self._over():
                raise RuntimeError("this epoch is over")
        if isinstance(made[0], RuntimeError):
            raise made[0]
        return made[0]

    def _finish(self, work):
        while True:
            try:
                work.wait(_POLL)
                return
            except RuntimeError:
                if work.is_completed():
                    work.wait()  # how it ended: well, just now; or a connection is closed
                    return
                if self._over():
                    _left[:] = [each for each in _left if not each[1].is_completed()]
                    _left.append(((self._stage, self._positions, self._in, tuple(self._out)), work))
                    raise

    # One that receives cannot stop waiting, one that takes part in a broadcast can.
    def _send_to(self, pair, x):
        self._wait(lambda: pair.broadcast([x], self._broadcast()))

    def receive(self, like):
        self._wait(lambda: self._in.broadcast([like], self._broadcast()))
        return like

    @staticmethod
    def _broadcast():
        options = dist.BroadcastOptions()
        options.rootRank = 0
        return options
