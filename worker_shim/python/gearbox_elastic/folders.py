"""Where the broker keeps what outlives its processes."""
import os


def base_folder():
    return os.environ.get("GEARBOX_STATE") or os.path.join(
        os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "gearbox")
