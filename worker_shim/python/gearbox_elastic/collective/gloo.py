"""Links through torch.distributed's gloo, over the loopback device: slower than shared memory, and the same results but for rounding.

Process groups are made directly and not by init_process_group(), since every epoch needs its own beside that of the epoch before.
"""
import datetime

import torch
import torch.distributed as dist

from . import CollectiveError, Links


class GlooLinks(Links):
    _address = "127.0.0.1"

    def __init__(self, topology, rank, store_path, limit_ms):
        super().__init__()
        self._limit = datetime.timedelta(milliseconds=limit_ms)
        self._store = self._open_store(store_path)
        self._stage = self._positions = None
        self._out, self._in = [], None
        try:
            # Every rank goes through the same list: whoever is in a pair or group meets its others there, in one order for all.
            for number, (kind, members) in enumerate(topology.groups):
                if rank in members:
                    group = self._group(f"group{number}", members.index(rank), len(members))
                    if kind == "stage":
                        self._stage = group
                    else:
                        self._positions, self._sharers = group, len(members)
            for number, (source, to) in enumerate(topology.channels):
                if rank in (source, to):
                    pair = self._group(f"channel{number}", int(rank == to), 2)
                    if rank == source:
                        self._out.append(pair)
                    else:
                        self._in = pair
        except RuntimeError as error:
            raise CollectiveError(str(error).splitlines()[0]) from None

    @staticmethod
    def _open_store(path):
        return dist.FileStore(path, -1)

    def _group(self, name, place, size):
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=self._address)]
        options._timeout = self._limit
        options._threads = 1
        return dist.ProcessGroupGloo(dist.PrefixStore(name, self._store), place, size, options)

    def _wait(self, start):
        try:
            if self._store is None:
                raise RuntimeError("this epoch is over")
            self._finish(start())
        except RuntimeError as error:  # a peer's connection is closed, or the time is up
            self.close()  # whoever waits for this rank now hears of it by its own connections
            raise CollectiveError(str(error).splitlines()[0]) from None

    def _finish(self, work):
        work.wait()

    def all_reduce(self, x):
        if self._stage is not None:
            x = x.contiguous()
            self.moved_bytes += x.numel() * 4
            self._wait(lambda: self._stage.allreduce([x]))
        return x

    def gather_positions(self, x):
        x = x.contiguous()
        out = [torch.empty_like(x) for _ in range(self._sharers)]
        self.moved_bytes += x.numel() * 4
        self._wait(lambda: self._positions.allgather([out], [x]))
        return torch.stack(out)

    def send(self, x):
        x = x.contiguous()
        for pair in self._out:
            self.moved_bytes += x.numel() * 4
            self._send_to(pair, x)

    def _send_to(self, pair, x):
        self._wait(lambda: pair.send([x], 1, 0))

    def receive(self, like):
        self._wait(lambda: self._in.recv([like], 0, 0))
        return like

    def barrier(self):
        if self._stage is not None:
            self._wait(self._stage.barrier)

    def abort(self):
        """gloo has no such call: the others see the closed connections of one that is gone, or their time is up."""

    def close(self):
        self._stage = self._positions = self._in = self._store = None
        self._out = []
