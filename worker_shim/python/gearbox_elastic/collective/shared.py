"""Links through libgearbox_collective.so: a region of shared memory for each epoch, which the driver makes and ends."""
import ctypes
import mmap
import os

import numpy as np
import torch

from . import CollectiveError, Links

SLOT_BYTES = 256 * 1024
_REASONS = {1: "the epoch was ended", 2: "another rank did not come in time", 3: "the region is not what the plan says"}


def library_path():
    """Beside the Python side (lib/gearbox/), or where GEARBOX_COLLECTIVE says."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("GEARBOX_COLLECTIVE") or os.path.join(here, "..", "..", "..", "libgearbox_collective.so")


_loaded = None


def library():
    """Errors: OSError, when it is not there."""
    global _loaded
    if _loaded is None:
        lib = ctypes.CDLL(library_path())
        pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
        for name, result, arguments in (
                ("gbx_region_bytes", u64, (pointer, u32, u32, u64)),
                ("gbx_region_format", ctypes.c_int, (pointer, u64, pointer, u32, u32, u64)),
                ("gbx_open", pointer, (pointer, u64)), ("gbx_close", None, (pointer,)), ("gbx_abort", None, (pointer,)),
                ("gbx_all_reduce", ctypes.c_int, (pointer, u32, u32, pointer, u64, u32)),
                ("gbx_all_gather", ctypes.c_int, (pointer, u32, u32, pointer, u64, pointer, u32)),
                ("gbx_barrier", ctypes.c_int, (pointer, u32, u32, u32)),
                ("gbx_send", ctypes.c_int, (pointer, u32, pointer, u64, u32)),
                ("gbx_receive", ctypes.c_int, (pointer, u32, pointer, u64, u32))):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        _loaded = lib
    return _loaded


class Region:
    """A mapping of one epoch's region. The driver makes it from the topology; ranks get its descriptor."""

    def __init__(self, fd, size):
        self.fd, self.size = fd, size
        self._map = mmap.mmap(fd, size)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address = self._bytes.ctypes.data
        self.handle = None

    @classmethod
    def make(cls, topology):
        members = np.array([len(ranks) for _, ranks in topology.groups], np.uint32)
        numbers = (members.ctypes.data, len(members), len(topology.channels), SLOT_BYTES)
        size = max(library().gbx_region_bytes(*numbers), 4096)
        fd = os.memfd_create("gearbox-collective", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            region = cls(fd, size)
        except BaseException:
            os.close(fd)
            raise
        if library().gbx_region_format(region.address, size, *numbers) != 0 or not region.open():
            region.close()
            raise ValueError("the plan has more groups or channels than a region holds")
        return region

    def open(self):
        self.handle = library().gbx_open(self.address, self.size)
        return bool(self.handle)

    def abort(self):
        if self.handle:
            library().gbx_abort(self.handle)

    def close(self):
        if self.handle:
            library().gbx_close(self.handle)
            self.handle = None
        if self._map is not None:
            self._bytes = None
            self._map.close()
            self._map = None
            os.close(self.fd)


class SharedLinks(Links):
    def __init__(self, topology, rank, fd, limit_ms):
        super().__init__()
        self._limit = limit_ms
        self._region = Region(fd, os.fstat(fd).st_size)
        if not self._region.open():
            self._region.close()
            raise CollectiveError("the region is none")
        self._library = library()
        self._stage = topology.group_of("stage", rank)
        self._positions = topology.group_of("positions", rank)
        self._ranks_of_positions = len(topology.groups[self._positions[0]][1]) if self._positions else 1
        self._out = [i for i, (source, _) in enumerate(topology.channels) if source == rank]
        self._in = [i for i, (_, to) in enumerate(topology.channels) if to == rank]

    def _check(self, code):
        if code != 0:
            raise CollectiveError(_REASONS.get(code, f"code {code}"))

    def all_reduce(self, x):
        if self._stage is None:
            return x
        x = x.contiguous()
        self.moved_bytes += x.numel() * 4
        self._check(self._library.gbx_all_reduce(self._region.handle, *self._stage, x.data_ptr(), x.numel(), self._limit))
        return x

    def gather_positions(self, x):
        x = x.contiguous()
        out = torch.empty((self._ranks_of_positions,) + tuple(x.shape))
        self.moved_bytes += x.numel() * 4
        self._check(self._library.gbx_all_gather(self._region.handle, *self._positions, x.data_ptr(), x.numel() * 4,
                                                 out.data_ptr(), self._limit))
        return out

    def send(self, x):
        x = x.contiguous()
        for channel in self._out:
            self.moved_bytes += x.numel() * 4
            self._check(self._library.gbx_send(self._region.handle, channel, x.data_ptr(), x.numel() * 4, self._limit))

    def receive(self, like):
        self._check(self._library.gbx_receive(self._region.handle, self._in[0], like.data_ptr(), like.numel() * 4, self._limit))
        return like

    def barrier(self):
        if self._stage is not None:
            self._check(self._library.gbx_barrier(self._region.handle, *self._stage, self._limit))

    def abort(self):
        self._region.abort()

    def close(self):
        self._region.close()
