"""Who is struck when, and how: drawn from a seed. Standard library only."""
import collections
import heapq
import os
import random
import signal
import time

# At whom, and how many times as long as at a worker it takes until the next strike there, on average. "child": any child of
# the supervisor, each as likely. Node and central are spared a little: each death in a row makes the supervisor wait twice as
# long, up to 30 s, and where nobody runs nobody can be struck.
AIMS = {"worker": 1, "node": 20, "central": 20, "child": 10}
LONGEST_STOP = 3.0  # s; past the node's patience with a frozen worker, 1.8 s


class Strikes:
    """Strikes at children of a supervisor. run() is one thread's work."""

    def __init__(self, site, seed, every):
        self.site, self.every = site, every
        self.random = random.Random(seed)
        self.kills = collections.Counter()   # by role
        self.stops = collections.Counter()
        self.log = []                        # one line each, for whoever looks into a fault
        self.stopped = []                    # heap of (when it goes on, pidfd)

    def run(self, seconds, most):
        """Until the time is up or so many have been killed; whoever was stopped goes on in any case."""
        began = time.monotonic()
        coming = [(self.random.uniform(0.1, 0.4) * self.every * times, aim) for aim, times in AIMS.items()]
        heapq.heapify(coming)
        try:
            while self.kills.total() < most and coming[0][0] < seconds:
                due, aim = coming[0]
                heapq.heapreplace(coming, (due + self.random.uniform(0.2, 1.8) * self.every * AIMS[aim], aim))
                self.wait_until(began + due)
                self.strike(aim, time.monotonic() - began)
        finally:
            while self.stopped:
                self.resume()

    def wait_until(self, due):
        while True:
            now = time.monotonic()
            while self.stopped and self.stopped[0][0] <= now:
                self.resume()
            if now >= due:
                return
            next_one = self.stopped[0][0] if self.stopped else due
            time.sleep(min(due, next_one) - now)

    def resume(self):
        _, handle = heapq.heappop(self.stopped)
        try:
            signal.pidfd_send_signal(handle, signal.SIGCONT)
        except ProcessLookupError:
            pass  # killed while it stood
        os.close(handle)

    def strike(self, aim, at):
        deadly = self.random.random() < 0.75
        stop = self.random.uniform(0.1, LONGEST_STOP)
        pick = self.random.random()
        there = sorted(self.site.records().items())
        wanted = [(name, record) for name, record in there if aim == "child" or name.split("-")[0] == aim]
        if not wanted:
            return  # it is on its way up
        name, record = wanted[int(pick * len(wanted))]
        try:
            handle = os.pidfd_open(record["pid"])
        except ProcessLookupError:
            return
        if not self.is_ours(record["pid"]):
            os.close(handle)
            return
        role = name.split("-")[0]
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL if deadly else signal.SIGSTOP)
        except ProcessLookupError:
            os.close(handle)
            return
        if deadly:
            self.kills[role] += 1
            os.close(handle)
        else:
            self.stops[role] += 1
            heapq.heappush(self.stopped, (time.monotonic() + stop, handle))
        how = "kill -9" if deadly else f"SIGSTOP for {stop:.1f} s"
        self.log.append(f"{at:7.2f} s {time.strftime('%H:%M:%S')} {name} (pid {record['pid']}): {how}")

    def is_ours(self, pid):
        """The number may belong to another program by now. Looked at while a handle holds the process."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as words:
                return str(self.site.state).encode() in words.read()
        except OSError:
            return False
