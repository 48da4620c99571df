"""Named places at which tests stop a process for good: GEARBOX_STOP_AT=NAME[:N] stops it (SIGSTOP) when it comes to NAME for
the Nth time. In the driver the names are those of a shift's steps; in a rank they begin with its number: rank1.shift.copy."""
import os
import signal

NAMES = ("shift.price", "shift.prepare", "shift.record", "shift.switch", "shift.copy", "shift.release")

_reached = 0


def stop_point(name, rank=None):
    global _reached
    assert name in NAMES, name
    wanted, _, times = os.environ.get("GEARBOX_STOP_AT", "").partition(":")
    if wanted != (name if rank is None else f"rank{rank}.{name}"):
        return
    _reached += 1
    if _reached == int(times or 1):
        os.kill(os.getpid(), signal.SIGSTOP)
