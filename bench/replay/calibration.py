"""Calibration of a cluster file on a live group: what is measured for it, and what is fitted. None of it is used to compare."""
import statistics

import fitting
import live_site
import recordings
import traffic

DECODING = (1, 2, 4, 8, 16, 32)     # sequences at once
PROMPT, ANSWER = 16, 100            # tokens of each of those
DEEP = (4, 16)                      # sequences at once with long caches
DEEP_PROMPT, DEEP_ANSWER = 320, 160
MIXED = (4, 16)                     # sequences that decode while prompts come in between
MIXED_ANSWER, MIXED_PROMPTS, MIXED_APART_S = 150, 20, 0.03
PROMPTS = (8, 32, 96, 256, 480)     # tokens of single prompts, each asked for
ASKED_EACH = 6                      # times, with an answer of
SHORT_ANSWER = 2                    # tokens
APART_S = 0.25
FAR_US = 600_000_000

START = {"host_step_ms": 2.0, "token_us": 100.0, "position_ns": 1000.0, "mixed_us": 1000.0, "tflops": 0.05, "broker_ms": 2.0}
# Only of layouts that have them: several replicas on the same cores; all-reduces.
OF_GEAR = {1: {"full_speed_replicas": 1.5}, 2: {"reduce_start_us": 50.0, "bus_gb_s": 2.0}}


def turn(site, gears, found):
    """Adds one run of everything to `found`: {(gear, kind, size): [rows of each turn]}."""
    for gear in gears:
        site.shift(gear)
        for count in DECODING:
            rows, _ = site.run(traffic.together(count, PROMPT, ANSWER))
            found.setdefault((gear, "decode", count), []).append(rows)
        for count in DEEP:
            rows, _ = site.run(traffic.together(count, DEEP_PROMPT, DEEP_ANSWER))
            found.setdefault((gear, "deep", count), []).append(rows)
        for count in MIXED:
            rows, _ = site.run(traffic.beside(traffic.together(count, PROMPT, MIXED_ANSWER), MIXED_PROMPTS, MIXED_APART_S))
            found.setdefault((gear, "mixed", count), []).append(rows)
        for length in PROMPTS:
            rows, _ = site.run(traffic.one_by_one(ASKED_EACH, length, SHORT_ANSWER, APART_S))
            found.setdefault((gear, "prompt", length), []).append(rows)
    print(f"calibration, load average {live_site.load_average():.1f}", flush=True)


def figure(rows, key):
    """Seconds: to the first token, or from one to the next of the longest answers."""
    if key[1] == "prompt":
        return recordings.figures(rows)["first_token_p50_s"]
    longest = max(row.output_tokens for row in rows)
    return recordings.figures([row for row in rows if row.output_tokens == longest])["per_token_p50_s"]


def times(measured):
    return {key: statistics.median(figure(rows, key) for rows in runs) for key, runs in measured.items()}


def capacity(measured, gear):
    """Requests of the mix a second, roughly: for choosing rates only."""
    found = times(measured)
    most = max(DECODING)
    of_answer = traffic.MEAN_OUT * found[gear, "decode", most] / most
    long, short = max(PROMPTS), PROMPTS[2]
    of_prompt = traffic.MEAN_IN * (found[gear, "prompt", long] - found[gear, "prompt", short]) / (long - short)
    return 1 / (of_answer + of_prompt)


def simulated(traces, gear, cluster, simulation):
    """{key: seconds} of all that is of that gear, in one simulation: one after the other, far apart."""
    keys, rows = [key for key in traces if key[0] == gear], []
    for number, key in enumerate(keys):
        rows += [row._replace(at_us=row.at_us - traces[key][0].at_us + number * FAR_US) for row in traces[key]]
    rows, found = iter(simulation.rows(cluster, gear, rows)), {}
    for key in keys:
        found[key] = figure([next(rows) for _ in traces[key]], key)
    return found


def fitted(wanted, traces, simulation):
    """The parameters of a cluster file with which simulations of `traces` ({key: rows}) come closest to `wanted` ({key: seconds})."""
    keys, known = list(wanted), {}
    gears = {key[0] for key in keys}
    start = {**START, **{name: value for gear in gears for name, value in OF_GEAR.get(gear, {}).items()}}

    def relevant(values, gear):
        others = {name for other, names in OF_GEAR.items() if other != gear for name in names}
        return tuple(value for name, value in values.items() if name not in others)

    def predict(values):
        found = {}
        for gear in gears:
            at = (gear, relevant(values, gear))
            if at not in known:
                known[at] = simulated(traces, gear, simulation.write_cluster(values, "fitting"), simulation)
            found.update(known[at])
        return [found[key] for key in keys]

    return fitting.fit(start, predict, [wanted[key] for key in keys])


def table(wanted, fitted_to):
    """What was measured, and how far the fit is off."""
    return [{"gear": gear, "kind": kind, "size": size, "ms": 1e3 * value, "error": off}
            for ((gear, kind, size), value), off in zip(wanted.items(), fitted_to.residuals)]
