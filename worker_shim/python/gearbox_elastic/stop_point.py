"""Named places at which tests stop a process for good: GEARBOX_STOP_AT=NAME[:N] stops it (SIGSTOP) when it comes to NAME for
the Nth time. In the driver the names are those of a shift's steps; in a rank they begin with its number: rank1.shift.copy.

GEARBOX_STOP_AT=@FILE reads the name from a file each time: a test can name a point while the processes run. Whoever stops there removes
the file first, so that it is done once.
"""
import os
import signal

NAMES = {  # of a point: who passes by there
    "shift.price": ("driver",), "shift.prepare": ("driver",), "shift.record": ("driver",), "shift.switch": ("driver",),
    "shift.copy": ("rank",), "shift.release": ("driver", "rank"),
}

_reached = 0


def stop_point(name, rank=None):
    global _reached
    assert ("driver" if rank is None else "rank") in NAMES[name], name
    asked, here = os.environ.get("GEARBOX_STOP_AT", ""), name if rank is None else f"rank{rank}.{name}"
    if asked.startswith("@"):
        if _named_in(asked[1:], here):
            os.kill(os.getpid(), signal.SIGSTOP)
        return
    wanted, _, times = asked.partition(":")
    if wanted != here:
        return
    _reached += 1
    if _reached == int(times or 1):
        os.kill(os.getpid(), signal.SIGSTOP)


def _named_in(path, here):
    try:
        with open(path, encoding="utf-8") as file:
            if file.read().strip() != here:
                return False
        os.unlink(path)
    except FileNotFoundError:
        return False  # nobody asks for a stop, or another process was quicker
    return True
