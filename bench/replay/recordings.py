"""Recordings of `broker replay record`, and how far a simulation is from one. Standard library only."""
import csv
import typing

HEAD = "# gearbox-trace 1"
COLUMNS = "at_us,model,tenant,input_tokens,output_tokens,bytes"


class Row(typing.NamedTuple):
    at_us: int
    input_tokens: int
    output_tokens: int
    first_us: int
    latency_us: int
    error: str


def read(text):
    """Rows in the order of their arrival. Errors: ValueError."""
    lines = text.splitlines()
    if not lines or lines[0] != HEAD:
        raise ValueError(f"the first line is not {HEAD!r}")
    rows = [Row(*(int(line[name]) for name in Row._fields[:-1]), line["error"]) for line in csv.DictReader(lines[1:])]
    return sorted(rows, key=lambda row: row.at_us)


def trace_of(rows):
    """The same requests as the simulator reads them: without what became of them."""
    zero = rows[0].at_us
    return "\n".join([HEAD, COLUMNS, *(f"{row.at_us - zero},,,{row.input_tokens},{row.output_tokens},0" for row in rows)]) + "\n"


def quantile(values, share):
    """As the simulator counts: of 0 to n - 1, the one at share × (n - 1), rounded down."""
    return sorted(values)[int(share * (len(values) - 1))]


def figures(rows):
    """Names as the simulator has them; for both sides."""
    latencies, firsts = [row.latency_us / 1e6 for row in rows], [row.first_us / 1e6 for row in rows]
    each = [(row.latency_us - row.first_us) / 1e6 / (row.output_tokens - 1) for row in rows if row.output_tokens > 1]
    span = (max(row.at_us + row.latency_us for row in rows) - rows[0].at_us) / 1e6
    found = {"p50_s": quantile(latencies, 0.5), "p99_s": quantile(latencies, 0.99), "mean_s": sum(latencies) / len(rows),
             "first_token_p50_s": quantile(firsts, 0.5), "first_token_p99_s": quantile(firsts, 0.99), "requests_per_s": len(rows) / span,
             "output_tokens_per_s": sum(row.output_tokens for row in rows) / span}
    if each:
        found["per_token_p50_s"] = quantile(each, 0.5)
    return found


def errors(live, simulated):
    """simulated / live - 1 of p50, p99 and throughput; above 0: the simulation tells more."""
    return {name: simulated[key] / live[key] - 1 for name, key in (("p50", "p50_s"), ("p99", "p99_s"), ("throughput", "requests_per_s"))}
