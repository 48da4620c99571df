"""Kills and stops the processes of a broker at random, under load, and tells what became of every request.

A private installation in a scratch folder: supervisor, central, node, ten workers. Five devices send pictures, pipelines and
streams all the time, while kill -9 and SIGSTOP strike workers, node, central. At the end each request has had its one end, and
nothing is left over; else the exit code is 1.
Exit codes: 0 nothing lost, doubled, wrong or leaked; 1 something was; 2 wrong usage.
"""
import argparse
import collections
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import chaos_site  # first: finds the modules of tests/support
import chaos_kills
import chaos_left
import chaos_load
import cluster

DEVICES = 5
SETTLES_WITHIN = 150  # s: the supervisor's longest pause, and a model that had failed is tried again after a minute
LATE = 2 * chaos_kills.LONGEST_STOP  # s after its answer that a call which was under way may still begin


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Chaos:
    def __init__(self, site, seed, temporary, say):
        self.site, self.seed, self.temporary, self.say = site, seed, temporary, say
        self.ledger = site.scratch / "ledger"
        self.book = chaos_load.Book()
        self.faults = []
        self.strikes = None

    def begin(self):
        self.site.start({"TMPDIR": str(self.temporary)})
        self.site.wait_ready()
        self.site.add_user()
        self.central = self.site.central()
        self.keys = [self.site.enrol(device=f"device-{number}", central=self.central) for number in range(DEVICES)]

    def lanes(self, name, book):
        """A load of its own, that runs."""
        made = chaos_load.lanes(self.site, book, self.central, f"{self.seed}-{name}", self.keys)
        for lane in made:
            lane.start()
        return made

    def end(self, lanes):
        for lane in lanes:
            lane.stop.set()
        for lane in lanes:
            lane.join()
            if lane.broke is not None:
                raise lane.broke

    def whole_again(self):
        """Everybody is back and has nothing to do."""
        self.site.wait_ready(SETTLES_WITHIN)

        def at_rest():
            node = self.site.status()["node"]
            if not node or not node["ready"]:
                return None
            owed, besides = chaos_left.without_end(self.site, self.book)
            if owed or node["counters"]["open"] > besides:
                return None
            return all(model["ready"] == chaos_site.WORKERS[model["name"]] for model in node["models"])
        cluster.wait_until("all workers, and an end of each request", at_rest, SETTLES_WITHIN, 0.3)

    def calm_round(self, book):
        """One round of each lane while nobody is struck: all must be answered."""
        self.end(self.lanes("calm", book))
        counts, reasons, faults = book.counts()
        self.faults += faults
        self.faults += [f"lost: {count} failed while nobody was struck ({reason})" for reason, count in reasons.items()]
        return counts

    def run(self, seconds, every, most):
        self.begin()
        self.say("one round of everything, and what the processes hold at rest")
        calm = chaos_load.Book()
        self.calm_round(calm)
        self.whole_again()
        before = chaos_left.held(self.site)

        self.say("load")
        self.strikes = chaos_kills.Strikes(self.site, self.seed, every)
        lanes = self.lanes("load", self.book)
        try:
            self.strikes.run(seconds, most)
        finally:
            self.say("no more strikes: waiting for the ends of what was submitted")
            self.end(lanes)
        try:
            self.whole_again()
            self.faults += [f"leaked: {line}" for line in chaos_left.grown(before, chaos_left.held(self.site))]
            self.calm_round(chaos_load.Book())
        except cluster.Failed as failed:
            self.faults.append(f"lost: afterwards: {failed}; {chaos_left.what_is_open(self.site, self.book)}")
        self.say("stopping")
        code = self.site.stop()
        if code != 0:
            self.faults.append(f"leaked: the supervisor ended with {code}")
        self.look_over_what_is_left()

    def look_over_what_is_left(self):
        left = self.site.leftovers()
        self.faults += [f"leaked: {line}" for line in left + chaos_left.files(self.site, self.temporary)]
        doubled, self.unheard = chaos_left.two_ends(self.site, self.book)
        self.faults += doubled
        self.runs, late = chaos_left.late_runs(self.book, self.ledger, LATE)
        self.faults += late

    def figures(self):
        counts, reasons, faults = self.book.counts()
        faults += self.faults
        kinds = collections.Counter(fault.split(":")[0] for fault in faults)
        strikes = self.strikes
        return {"seed": self.seed, "chaos.submitted": counts["submitted"], "chaos.answered": counts["answered"],
                "chaos.failed": counts["failed"], "chaos.failed_by_reason": dict(sorted(reasons.items())),
                **{f"chaos.{kind}": kinds[kind] for kind in ("lost", "doubled", "wrong", "leaked")},
                "chaos.kills": strikes.kills.total(), "chaos.kills_by_role": dict(sorted(strikes.kills.items())),
                "chaos.stops": strikes.stops.total(), "chaos.stops_by_role": dict(sorted(strikes.stops.items())),
                "chaos.runs": self.runs, "chaos.unheard": self.unheard}, faults


def table(figures):
    lines = [f"submitted {figures['chaos.submitted']}: answered {figures['chaos.answered']}, failed with a reason "
             f"{figures['chaos.failed']}"]
    lines += [f"    {count} {reason}" for reason, count in figures["chaos.failed_by_reason"].items()]
    for what, name in (("kill -9", "kills"), ("SIGSTOP", "stops")):
        roles = ", ".join(f"{role} {count}" for role, count in figures[f"chaos.{name}_by_role"].items())
        lines.append(f"{what}: {figures[f'chaos.{name}']} ({roles})")
    lines.append(", ".join(f"{kind} {figures[f'chaos.{kind}']}" for kind in ("lost", "doubled", "wrong", "leaked")))
    return "\n".join(lines)


def chaos(build, seconds, seed, every, most, say, keep=None):
    """Runs it; returns (figures, [what was found, one line each], [strikes, one line each], log of the broker)."""
    with cluster.Cluster(build=build, configs=lambda folder: None) as site:
        temporary = site.scratch / "tmp"
        temporary.mkdir()
        chaos_site.chaos_configs(site.configs, site.scratch / "ledger", free_port())
        run = Chaos(site, seed, temporary, say)
        try:
            run.run(seconds, every, most)
            figures, faults = run.figures()
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / "faults.log").write_text("".join(f"{fault}\n" for fault in faults))
            return figures, faults, run.strikes.log, site.log()
        finally:
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / "broker.log").write_text(site.log())
                (keep / "strikes.log").write_text("\n".join(run.strikes.log if run.strikes else []) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Example: scripts/chaos --seconds 120 --seed 7 --json build/chaos.json")
    parser.add_argument("--seconds", type=float, default=120, help="how long to strike (120)")
    parser.add_argument("--seed", type=int, default=None, help="draws who is struck when, and how (default: from the clock, printed)")
    parser.add_argument("--every", type=float, default=1.2, metavar="S", help="between two strikes, on average (1.2)")
    parser.add_argument("--kills", type=int, default=1_000_000_000, metavar="N", help="end after so many kill -9, if they come sooner")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the log, the strikes and the faults there")
    parser.add_argument("--build", type=Path, default=None, metavar="DIR", help="a build folder to take in place of build/release")
    options = parser.parse_args()
    if options.seconds <= 0 or options.every <= 0 or options.kills < 0:
        parser.error("--seconds and --every must be positive")
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    build = options.build or chaos_site.ROOT / "build/release"
    print(f"seed {seed}", flush=True)
    try:
        figures, faults, strikes, _ = chaos(build, options.seconds, seed, options.every, options.kills,
                                            lambda text: print(f"== {text}", flush=True), options.keep)
    except (cluster.Failed, OSError, subprocess.TimeoutExpired) as failed:
        print(f"scripts/chaos: {failed}", file=sys.stderr)
        return 1
    if faults:
        print("\n".join(["strikes:", *strikes[-200:], "faults:", *faults]))
    print(table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
