"""What a chaos run must not leave behind: descriptors in the processes that go on, processes, memory, files."""
import contextlib
import os
import re
import sqlite3

import chaos_site  # noqa: F401  (finds the modules of tests/support)
import cluster
import swap_storm

KNOWN = re.compile("|".join([
    r"log/(central|node|observer|scheduler|executor|worker-\d+)\.log(\.1)?", r"central\.db(\.backup)?", r"journal/journal\.db", r"store/index\.db",
    r"run/supervisor\.lock", r"keys/(central|node)\.(channel|signing)", r"plugins/[0-9a-f]{64}\.so", r"plugins/book\.(json|lock)",
    r"quarantine\.json", r"last_stop\.json", r"learned", r"accounts", r"run/central\.lock", r"gears/(executor|history)\.json"]))
IDLE_PAYLOADS = 32  # files that the journal keeps for the next payload


def held(site):
    """{role: what its descriptors are, counted}, of the processes that go on, when they rest."""
    pids = {"supervisor": site.supervisor.pid, "central": site.record("central")["pid"], "node": site.record("node")["pid"]}
    found = {}
    for role, pid in pids.items():
        seen = []

        def rests():
            seen.append(swap_storm.open_files(pid))
            return seen[-1] if seen[-3:] == [seen[-1]] * 3 else None
        found[role] = cluster.wait_until(f"{role} rests", rests, 30, 0.3)
    return found


def grown(before, after):
    """One line for each kind of descriptor that a role has more of."""
    lines = []
    for role, kinds in after.items():
        for kind, count in sorted((kinds - before[role]).items()):
            lines.append(f"descriptors: {role} holds {count} more of {kind}")
    return lines


def rows(file, words, how="mode=ro"):
    """`how`: with immutable=1 the database is only read, and no file is made beside it; nobody may have it open then."""
    with contextlib.closing(sqlite3.connect(f"file:{file}?{how}", uri=True, timeout=10)) as database:
        return database.execute(words).fetchall()


def rows_at_rest(file, words):
    return rows(file, words, "immutable=1")


def without_end(site, book):
    """Requests that the journal holds without an end: (those that somebody has to end, how many there are besides).
    Besides are streams whose device has had all of them, when the node was killed before it heard that: the next one cannot know,
    and keeps them for the device until their deadlines."""
    heard = {request.id for request in book.requests if request.ends and request.kind in ("song", "story")}
    found = [row[0] for row in rows(site.state / "journal/journal.db", "SELECT lower(hex(request)) FROM requests WHERE settled = 0")]
    owed = [request for request in found if request not in heard]
    return owed, len(found) - len(owed)


def what_is_open(site, book):
    """For whoever looks into it: the requests without an end, as the journal has them, and what their senders were told."""
    told = {request.id: [end[1] or "answered" for end in request.ends] for request in book.requests}
    found = rows(site.state / "journal/journal.db", "SELECT lower(hex(request)), openings, head FROM requests WHERE settled = 0")
    return f"in the journal: {[(request, openings, told.get(request), head) for request, openings, head in found]}"


def two_ends(site, book):
    """Answered to the device, and something else in the store: one line each; and how many of them are streams that a killed
    node did not hear the end of, whose deadline has come at the next one (see without_end)."""
    kept = {request: (ok, error) for request, ok, error in rows_at_rest(site.state / "store/index.db", "SELECT request, ok, error FROM results")}
    lines, unheard = [], 0
    for request in book.requests:
        answered = request.ends and request.ends[0][1] is None
        if not answered or kept.get(request.id, (1, ""))[0]:
            continue
        if request.kind in ("song", "story") and kept[request.id][1].startswith("deadline_exceeded"):
            unheard += 1
        else:
            lines.append(f"doubled: {request.kind} {request.name} request={request.id}: answered, and failed in the store: "
                         f"{kept[request.id][1]}")
    return lines, unheard


def late_runs(book, ledger, slack):
    """(runs of pictures, those begun although the device had had the answer for `slack` seconds: nobody wants them any more).
    Where the sender was told of a failure instead (its node was gone), the next node may well run what it had acknowledged."""
    ends = {request.token: request.ends[0][0] for request in book.requests
            if request.token and request.ends and request.ends[0][1] is None}
    runs, late = 0, []
    for line in ledger.read_text().splitlines() if ledger.exists() else []:
        when, token = line.split()
        if token in ends:
            runs += 1
            if int(when) / 1e9 > ends[token] + slack:
                late.append(f"doubled: {token[:12]} was run {int(when) / 1e9 - ends[token]:.1f} s after its end")
    return runs, late


def files(site, temporary):
    """Files that nobody needs any more, after everything has been stopped."""
    lines = [f"temporary file {temporary / name}" for name in sorted(os.listdir(temporary))]
    known = {name for row in rows_at_rest(site.state / "store/index.db", "SELECT input_file, output_file FROM results") for name in row}
    payloads = {number for row in rows_at_rest(site.state / "journal/journal.db", "SELECT input_payload, result_payload FROM requests")
                for number in row}
    idle = 0
    for file in sorted(site.state.rglob("*")):
        name = str(file.relative_to(site.state))
        if file.is_dir() or KNOWN.fullmatch(name):
            continue
        if name.startswith("store/") and (name in known or name.removeprefix("store/") in known or str(file) in known):
            continue
        number = re.fullmatch(r"journal/payload-(\d+)", name)
        if number:
            idle += int(number[1]) not in payloads
            continue
        lines.append(f"file {name}")
    if idle > IDLE_PAYLOADS:
        lines.append(f"{idle} payload files of the journal that no request names")
    return lines
