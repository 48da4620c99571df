"""How the simulator's own time grows with requests and nodes: the runs, and a page with the two curves."""
import pathlib

POINTS_OF_REQUESTS = (10, 40, 160)  # minutes of the same traffic
POINTS_OF_NODES = (8, 32, 125)      # the same load on each
WIDTH, HEIGHT, LEFT, BOTTOM = 560, 300, 64, 44


def cluster_of(folder, nodes):
    path = folder / f"nodes-{nodes}.toml"
    path.write_text(f'name = "nodes-{nodes}"\n[[nodes]]\nname = "a100"\ncount = {nodes}\ncard = "a100-80g"\ncards = 8\n', encoding="utf-8")
    return path


def measure(speed_of, folder, figures):
    """`speed_of(arguments...)` → (steps a second, CPU seconds, wall seconds, requests). Returns {title: [(x, requests, CPU seconds)]}."""
    curves = {"requests, on 8 nodes": [], "nodes, 9,000 requests for each": []}
    by_requests, by_nodes = curves.values()
    print("\ngrowth with requests (8 nodes)", flush=True)
    for minutes in POINTS_OF_REQUESTS:
        _, cpu, _, arrived = speed_of("--trace", f"make:day,rate=120,duration={60 * minutes}", "--cluster", cluster_of(folder, 8), "--gear", 1, "--seed", 1)
        figures[f"replay.cpu_us_per_request_{minutes}_min"] = 1e6 * cpu / arrived
        by_requests.append((arrived, arrived, cpu))
        print(f"  {arrived:9.0f} requests {cpu:8.2f} s, {1e6 * cpu / arrived:6.2f} µs each", flush=True)
    print("growth with nodes (the same load on each)", flush=True)
    for nodes in POINTS_OF_NODES:
        _, cpu, _, arrived = speed_of("--trace", f"make:day,rate={15 * nodes},duration=600", "--cluster", cluster_of(folder, nodes), "--policy", "cost_model",
                                      "--seed", 1)
        figures[f"replay.cpu_us_per_request_{nodes}_nodes"] = 1e6 * cpu / arrived
        by_nodes.append((nodes, arrived, cpu))
        print(f"  {nodes:4} nodes, {arrived:9.0f} requests {cpu:8.2f} s, {1e6 * cpu / arrived:6.2f} µs each", flush=True)
    return curves


def chart(title, points):
    """One curve of CPU seconds from (0, 0), as SVG."""
    most_x = max(x for x, _, _ in points)
    most_y = max(cpu for _, _, cpu in points)

    def place(x, y):
        return LEFT + (WIDTH - LEFT - 20) * x / most_x, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * y / most_y

    left, base = place(0, 0)
    right, top = place(most_x, most_y)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in [place(0, 0), *(place(x, cpu) for x, _, cpu in points)])
    marks = "".join(f'<circle cx="{place(x, cpu)[0]:.1f}" cy="{place(x, cpu)[1]:.1f}" r="3.5" fill="#1f6f8b"/>'
                    f'<text x="{place(x, cpu)[0] - 8:.1f}" y="{place(x, cpu)[1] - 8:.1f}" text-anchor="end">{cpu:.2f} s</text>'
                    f'<text x="{place(x, cpu)[0]:.1f}" y="{base + 18:.1f}" text-anchor="middle">{x:,.0f}</text>' for x, _, cpu in points)
    return (f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="CPU seconds by {title}">'
            f'<path d="M{left:.1f},{top:.1f} V{base:.1f} H{right:.1f}" fill="none" stroke="#999"/>'
            f'<polyline points="{line}" fill="none" stroke="#1f6f8b" stroke-width="2"/>{marks}'
            f'<text x="{left - 6:.1f}" y="{top - 6:.1f}" text-anchor="start">CPU seconds of one core</text></svg>'
            f"<figcaption>{title}</figcaption></figure>")


def write_page(curves, file: pathlib.Path):
    body = "".join(chart(title, points) for title, points in curves.items())
    file.write_text('<!doctype html><html lang="en"><meta charset="utf-8"><title>Growth of the simulator\'s time</title><style>'
                    "body{font:15px/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem;color:#222}"
                    "svg text{font-size:12px;fill:#444}figure{margin:1.5rem 0}figcaption{color:#555}</style>"
                    f"<h1>How the simulator's time grows</h1>{body}</html>\n", encoding="utf-8")
