"""The arithmetic of the bench: what a run of an arm was worth, and what rounds of them come to. Standard library only.

A sample is a list that begins with [start_us, took_us]: when a request began, on a clock of its own arm, and how long it took.
"""
import statistics


def percentile(values, part):
    """The smallest value that at least `part` of all are not above."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[max(0, min(len(ordered), -int(-len(ordered) * part // 1)) - 1)]


class Window:
    """The part of a run that counts: from the last answer of the warm-up to the last answer of the measured time.

    Answers come at the pace of a whole call, or of a whole batch of them; beginning and end at an answer leave no part of a call in.
    """

    def __init__(self, samples, warm_up_s, seconds):
        begun = min((sample[0] for sample in samples), default=0)
        ends = sorted((sample[0] + sample[1], index) for index, sample in enumerate(samples))
        from_us, to_us = begun + warm_up_s * 1e6, begun + (warm_up_s + seconds) * 1e6
        before = [end for end, _ in ends if end <= from_us]
        first = before[-1] if before else begun
        inside = [(end, index) for end, index in ends if first < end <= to_us]
        self.samples = [samples[index] for _, index in inside]
        self.seconds = (inside[-1][0] - first) / 1e6 if inside else 0.0

    def per_second(self):
        return len(self.samples) / self.seconds if self.seconds else 0.0

    def took_ms(self, part):
        return percentile([sample[1] for sample in self.samples], part) / 1e3

    def busy(self, at):
        """Sum of the samples' `at`-th members, in µs, ÷ the time: with one call at once, the share in which one ran."""
        return sum(sample[at] for sample in self.samples) / 1e6 / self.seconds if self.seconds else 0.0


def saturated(rounds):
    """{arm: the number of clients with the highest throughput, by the median over the rounds}. Chosen once: the best of each round by
    itself would flatter whoever has the most tries."""
    out = {}
    for arm in rounds[0]:
        out[arm] = max(rounds[0][arm], key=lambda clients: statistics.median(found[arm][clients]["per_s"] for found in rounds))
    return out


def of_rounds(model, rounds, peers):
    """The ratios of each round. A round is {arm: {clients: {"per_s", "p50_ms", "p99_ms", "busy", "cpu_ms"}}} with the arms "direct"
    (clients 1), "gearbox", the peers' names, and for batches the same with "_batch" behind; all rounds have the same of them. Returns a
    list of {name: number}; what was not run is not in it.
    """
    best = saturated(rounds)
    return [of_round(model, found, peers, best) for found in rounds]


def of_round(model, found, peers, best):
    out = {}
    most = {arm: found[arm][clients] for arm, clients in best.items()}
    if "gearbox" in most:
        ours = most["gearbox"]
        out["saturated_at_clients"] = best["gearbox"]
        out["worker_busy"] = ours["busy"]
    for batch in ("", "_batch"):
        if "gearbox" + batch not in most:
            continue
        ours = most["gearbox" + batch]
        if "direct" + batch in most:
            ratio = ours["per_s"] / most["direct" + batch]["per_s"]
            out.update({"batch_vs_hand": ratio} if batch else {"broker_cost": 1 - ratio})
            out[f"worker{batch}_cpu_over_direct"] = ours["cpu_ms"] / most["direct" + batch]["cpu_ms"]
        for peer in peers:
            if peer + batch in most:
                theirs = found[peer + batch]
                # Each at its own best; the tails with as many clients on both sides.
                out[f"vs_{peer}{batch}_throughput"] = ours["per_s"] / most[peer + batch]["per_s"]
                out[f"vs_{peer}{batch}_p99"] = theirs[best["gearbox" + batch]]["p99_ms"] / ours["p99_ms"]
                if "direct" + batch in most:
                    out[f"{peer}{batch}_cost"] = 1 - most[peer + batch]["per_s"] / most["direct" + batch]["per_s"]
    for arm, by_clients in found.items():
        for clients, figures in by_clients.items():
            for figure in ("per_s", "p50_ms", "p99_ms"):
                out[f"{arm}_{clients}_{figure}"] = figures[figure]
    prefix = "" if model == "resnet18" else "echo_"
    return {prefix + name: value for name, value in out.items()}


def over_rounds(rounds):
    """{name: (median, least, most)} of a list of {name: number}."""
    found = {}
    for name in sorted(set().union(*rounds)):
        values = [each[name] for each in rounds if name in each]
        found[name] = (statistics.median(values), min(values), max(values))
    return found
