"""A running broker whose plugins, configuration and folders change all the time, and what it must come through unharmed.

Standard library only. tests/integration/test_live.py and bench/swap/run use it.
"""
import collections
import contextlib
import datetime
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import cluster

VERSIONS = ("1.1", "1.2")
ROLES = ("node", "central")
# File in the drop folder → name and kind of the plugin in it. One of each kind that an upload passes through.
PLUGINS = {
    "balancer_least_loaded.so": ("least_loaded", "balancer"),
    "transport_tcp.so": ("tcp", "transport"),
    "codec_zstd.so": ("zstd", "codec"),
    "codec_image_delta.so": ("image_delta", "codec"),
}
SWAPPED = re.compile(r"^(node|central) \| \[([^\]]+)\].* plugin swapped kind=(\w+) name=(\w+) version=(\S+) -> (\S+) ")
# Open connections ask as fast as they are answered. New ones keep below what central sends to one node between two of the
# node's reports (queue_limit for each worker): past that it answers overloaded, as it should.
FULL_LOAD = {"fresh_rate": 40}
CONFIG = '''
[central]
listen = "tcp://127.0.0.1:0"

[node]
listen = "tcp://127.0.0.1:0"
recorded_requests = 256    # full long before memory is looked at: a ring that fills up is no growth by swaps

[node.limits]
max_upload_mb = 16
input_arena_mb = 64
output_arena_mb = 48
max_requests = {max_requests}

[node.store]
enabled = false

[plugins]
call_budget_ms = 20000  # wall time: on a machine that is this busy a good call may take long
hang_ms = 10000
[plugins.least_loaded]
queue_limit = {queue_limit}

[env.plain]
python = "/usr/bin/python3"

[[worker]]
model = "echo"
env = "plain"
count = {workers}
'''


def write_by_rename(path, data):
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    os.replace(beside, path)


def write_in_place(path, data):
    if path.is_symlink():  # what a link leads to is not ours to write
        path.unlink()
    path.write_bytes(data)


def write_as_an_editor(path, data):
    """The old one becomes a backup; for a moment there is none of the name."""
    backup = path.with_name(path.name + "~")
    with contextlib.suppress(FileNotFoundError):
        os.replace(path, backup)
    path.write_bytes(data)
    backup.unlink(missing_ok=True)


def delete_and_create(path, data):
    path.unlink(missing_ok=True)
    time.sleep(0.05)
    path.write_bytes(data)


def storm_configs(folder):
    """The echo configuration for tensors of any shape, with nothing in it that a disk could slow down."""
    cluster.echo_configs(folder)
    for file in (folder / "models/echo/model.toml", folder / "tasks/echo.toml"):
        file.write_text(file.read_text().replace("shape = [-1]\n", "").replace("probe_shape = [16]\n", ""))
    (folder / "gearbox.toml").write_text(CONFIG.format(max_requests=4096, queue_limit=64, workers=2))


class LogReader:
    """The swaps that the log tells of, as they come."""

    def __init__(self, file):
        self.file = file
        self.at = 0
        self.rest = ""
        self.swaps = []  # (role, seconds since 1970, name, new version)
        self.others = []  # lines that a person would look into

    def read(self):
        if not self.file.exists():
            return
        with open(self.file, encoding="utf-8", errors="replace") as log:
            log.seek(self.at)
            text = self.rest + log.read()
            self.at = log.tell()
        lines = text.split("\n")
        self.rest = lines.pop()
        for line in lines:
            found = SWAPPED.match(line)
            if found:
                role, when, _, name, _, version = found.groups()
                stamp = datetime.datetime.strptime(when, "%Y-%m-%d %H:%M:%S.%f").timestamp()
                self.swaps.append((role, stamp, name, version))
            elif "event=located" not in line:
                self.others.append(line)

    def count(self, role, name, version):
        return sum(1 for each in self.swaps if (each[0], each[2], each[3]) == (role, name, version))


class Load:
    """load_device while it runs; a context manager. `answer` is there afterwards."""

    def __init__(self, site, keys, seconds=600, **rates):
        url, key = site.central()
        words = [word for name, value in rates.items() for word in ("--" + name.replace("_", "-"), str(value))]
        self.process = subprocess.Popen(
            [str(site.build / "bin/load_device"), "--central", url, "--server-key", key, "--user", "anna", "--seconds", str(seconds),
             *words, *map(str, keys)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.answer = None

    def __enter__(self):
        assert self.process.stdout.readline() == "loading\n", "load_device did not begin"
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            out, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        self.answer = json.loads(out)


class Watch(threading.Thread):
    """Asks for the status all the time: which versions have been in force?"""

    def __init__(self, site, every=0.5):
        super().__init__(daemon=True)
        self.site, self.every = site, every
        self.done = threading.Event()
        self.asked = 0
        self.odd = set()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()

    def run(self):
        while not self.done.wait(self.every):
            status = self.site.status()
            for role in ROLES:
                if not status.get(role):
                    self.odd.add(f"{role} did not answer")
                    continue
                self.asked += 1
                for name, kind in PLUGINS.values():
                    serving = [row["version"] for row in status[role]["plugins"]
                               if (row["name"], row["kind"], row["state"]) == (name, kind, "loaded")]
                    if len(serving) != 1 or serving[0] not in VERSIONS:
                        self.odd.add(f"{role}: {name} in force: {serving}")


class Storm:
    """Everything in a broker's folders that can change, changing. step() once for each second."""

    def __init__(self, site):
        self.site = site
        self.drop = site.configs / "plugins"
        self.log = LogReader(site.output)
        self.builds = {}
        for version in VERSIONS:
            folder = site.scratch / "builds" / version
            if not folder.exists():
                shutil.copytree(site.build / "swap_plugins" / version, folder)
            for file in PLUGINS:
                self.builds[file, version] = folder / file
        self.aborts = (site.build / "swap_plugins/bad/aborts.so").read_bytes()
        self.turn = 0
        self.dropped = 0
        self.thrown = 0
        self.settings = {"max_requests": 4096, "queue_limit": 64, "workers": 2}
        self.methods = [write_by_rename, write_in_place, self._swap_link, delete_and_create]
        self.edits = itertools.cycle([self._edit_limit, self._edit_workers, self._edit_option, self._bad_config, self._edit_tasks,
                                      self._edit_versions, self._bad_config])

    # -- plugins

    def _swap_link(self, path, _data):
        beside = path.with_name(f".{path.name}.link")
        beside.symlink_to(self.link_to)
        os.replace(beside, path)

    def version(self):
        """The version dropped last."""
        return VERSIONS[self.turn % 2]

    def drop_next(self, within=60, never_seen=False):
        """Replaces each plugin by the other build, each in another way; waits until both roles serve it. Seconds it took.

        never_seen: of bytes that were never there before, so that each is checked as if it came for the first time.
        """
        self.turn += 1
        version = self.version()
        self.log.read()
        awaited = {(role, name): self.log.count(role, name, version) + 1 for role in ROLES for name, _ in PLUGINS.values()}
        begun = time.monotonic()
        for number, file in enumerate(PLUGINS):
            self.link_to = self.builds[file, version]
            if never_seen:
                write_by_rename(self.drop / file, self.link_to.read_bytes() + os.urandom(16))
            else:
                self.methods[(self.turn // 2 + number) % len(self.methods)](self.drop / file, self.link_to.read_bytes())
            self.dropped += 1

        def arrived():
            self.log.read()
            return all(self.log.count(role, name, version) >= count for (role, name), count in awaited.items())
        cluster.wait_until(f"all plugins at version {version}", arrived, within, 0.02)
        return time.monotonic() - begun

    def throw_bad_files(self):
        """Nothing of this may ever be loaded. One of them takes the place of a good file for a moment."""
        good = self.builds["codec_zstd.so", self.version()].read_bytes()
        kinds = [("junk.so", b"this is no library\n"), ("half.so", good[:len(good) // 2]), ("short.so", good[:-1]),
                 ("aborts.so", self.aborts), ("empty.so", b""), ("codec_zstd.so~", good), ("upload.so.part", good[:1000]),
                 ("codec_zstd.so", good[:len(good) // 3])]
        name, data = kinds[self.thrown % len(kinds)]
        self.thrown += 1
        for other, _ in kinds[:7]:
            if other != name:
                (self.drop / other).unlink(missing_ok=True)
        write_by_rename(self.drop / name, data)

    # -- configuration

    def write_config(self, style=write_by_rename, **changes):
        self.settings.update(changes)
        style(self.site.configs / "gearbox.toml", CONFIG.format(**self.settings).encode())

    def edit_config(self):
        next(self.edits)()

    def _edit_limit(self):
        self.write_config(write_in_place, max_requests=8096 - self.settings["max_requests"])

    def _edit_workers(self):
        self.write_config(write_as_an_editor, workers=5 - self.settings["workers"])

    def _edit_option(self):
        self.write_config(delete_and_create, queue_limit=160 - self.settings["queue_limit"])

    def _edit_tasks(self):
        file = self.site.configs / "tasks/another.toml"
        if file.exists():
            file.unlink()
        else:
            write_by_rename(file, (self.site.configs / "tasks/echo.toml").read_bytes())

    def _edit_versions(self):
        folder = self.site.configs / "models/echo-2"
        if folder.exists():
            shutil.rmtree(folder)
        else:
            shutil.copytree(self.site.configs / "models/echo", folder, ignore=shutil.ignore_patterns("__pycache__"))
            record = folder / "model.toml"
            record.write_text(record.read_text().replace('version = "1"', 'version = "2"'))

    def _bad_config(self):
        good = CONFIG.format(**self.settings)
        bad = [good[:len(good) // 2], good + "\nno_such_key = 1\n", good.replace("count", "cuont"), "\0\1\2",
               good.replace("[node.limits]", "[node.limits]\nmax_requests = -1")]
        write_by_rename(self.site.configs / "gearbox.toml", bad[self.turn % len(bad)].encode())

    # -- both

    def step(self, began):
        """One second of storm, counted from `began`; longer when the broker took longer."""
        self.throw_bad_files()
        time.sleep(max(0, began + 0.15 - time.monotonic()))
        took = self.drop_next()
        self.edit_config()
        time.sleep(max(0, began + 1 - time.monotonic()))
        return took

    def run(self, seconds):
        """Returns the swap times of each step."""
        ends = time.monotonic() + seconds
        took = []
        while time.monotonic() < ends:
            took.append(self.step(time.monotonic()))
        return took

    def calm_down(self, workers=2):
        """Everything as at the start, at the first of the two versions; waits until the broker is so too and rests."""
        for file in self.drop.iterdir():
            if file.name not in PLUGINS:
                file.unlink()
        (self.site.configs / "tasks/another.toml").unlink(missing_ok=True)
        shutil.rmtree(self.site.configs / "models/echo-2", ignore_errors=True)
        self.write_config(max_requests=4096, queue_limit=64, workers=workers)
        self.drop_next()
        if self.version() != VERSIONS[0]:
            self.drop_next()

        def calm():
            status = self.site.status()
            node, central = status["node"], status["central"]
            if not node or not central or not node["ready"]:
                return None
            there = [worker["version"] for worker in node["workers"] if worker["state"] == "ready"]
            if there != ["1"] * workers or len(node["workers"]) != workers:
                return None
            if any(row["state"] == "retiring" and not row["shipped"] for role in (node, central) for row in role["plugins"]):
                return None
            return status
        try:
            return cluster.wait_until("calm", calm, 30, 0.2)
        except cluster.Failed as failed:
            status = self.site.status()
            said = {role: [(row["name"], row["version"], row["state"]) for row in status[role]["plugins"]] for role in ROLES}
            raise cluster.Failed(f"{failed}\n{said}\n{json.dumps(status['node']['workers'])}") from None

    def footprints(self, rounds=12):
        """What each role holds when it rests; resident memory is the least of some swaps: an allocator gives back what was
        freed now in this moment, now in that. After calm_down(), and again at the first of the two versions."""
        least = {role: footprint(self.site, role)["VmRSS"] for role in ROLES}
        for _ in range(rounds):
            self.drop_next()
            for role in ROLES:
                least[role] = min(least[role], footprint(self.site, role)["VmRSS"])
        held = {role: resting_footprint(self.site, role) for role in ROLES}
        for role in ROLES:
            held[role]["VmRSS"] = min(held[role]["VmRSS"], least[role])
        return held


def resting_footprint(site, role, seconds=15):
    """What a process holds when it does nothing: the same descriptors and mappings three times in a row."""
    seen = []

    def rests():
        seen.append(footprint(site, role))
        last = [(each["descriptors"], each["mappings"], each["libraries"]) for each in seen[-3:]]
        return seen[-1] if len(last) == 3 and last.count(last[0]) == 3 else None
    return cluster.wait_until(f"{role} rests", rests, seconds, 0.3)


def open_files(pid):
    """What its descriptors are, counted: which one is too many is told by name."""
    found = collections.Counter()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[os.readlink(f"/proc/{pid}/fd/{descriptor}").split(":[")[0]] += 1
        except OSError:
            pass  # closed meanwhile
    return found


def footprint(site, role):
    """What a process holds now."""
    pid = site.record(role)["pid"]
    held = {"pid": pid}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("VmRSS", "RssAnon", "RssFile", "RssShmem", "Threads"):
            held[key] = int(value.split()[0])
    held["descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    held["open"] = open_files(pid)
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    copies = str(site.state / "plugins") + "/"
    held["mappings"] = len(maps)
    held["libraries"] = sorted({line.split(copies)[1].split(" ")[0] for line in maps if copies in line})
    return held


def in_force(status, role):
    """Checksums of the builds that serve, and of those shipped ones that wait behind a dropped one."""
    rows = status[role]["plugins"]
    return sorted({row["checksum"] for row in rows if row["state"] == "loaded" or row["shipped"]})
