"""Reports of benchmarks as Markdown tables. A record that was not measured by docs/report.py has its tables in it."""

from __future__ import annotations

import statistics
from typing import Any

Row = list[str]
MODES = ("standard", "concurrent", "synchronized", "both")


def tables(record: dict[str, Any]) -> list[str]:
    """A record's tables, each with its title."""
    if "tables" in record:
        made = [(table["title"], table["columns"], table["rows"]) for table in record["tables"]]
    else:
        made = _MAKERS[record["name"]](record["report"])
    return [f"{title}\n\n{markdown(columns, rows)}" if title else markdown(columns, rows) for title, columns, rows in made]


def markdown(columns: Row, rows: list[Row]) -> str:
    lines = [[columns[0] or "what", *columns[1:]], ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


Made = list[tuple[str, Row, list[Row]]]


def _turns(report: dict[str, Any]) -> Made:
    rows = [
        [r["name"], rate(r["steps_per_second"]), rate(min(r["turns"])), rate(max(r["turns"]))]
        for r in sorted(report["results"], key=lambda r: not r["name"].startswith("paceline"))
    ]
    made: Made = [("Agent steps per second, medians of the turns.", ["", "median", "least", "most"], rows)]
    ratios = [[name.replace("_", " "), times(value)] for name, value in report["ratio"].items()]
    if ratios:
        made.append(("Medians of the turns' own ratios.", ["ours over theirs", "times as fast"], ratios))
    return made


def _pong(report: list[dict[str, Any]]) -> Made:
    sizes = sorted({r["num_envs"] for r in report})
    cells = {(r["mode"], r["num_envs"]): r["steps_per_second"] for r in report}
    labels = list(dict.fromkeys(r["mode"] for r in report))
    columns = ["", *(f"{n} environment{'s' * (n > 1)}" for n in sizes)]
    return [("", columns, [[label, *(rate(cells.get((label, n))) for n in sizes)] for label in labels])]


def _modes(report: dict[str, Any]) -> Made:
    made: Made = []
    for kind, title in (("wait", "a step that waits"), ("busy", "a step that computes")):
        cells = {(r["mode"], r["step_ms"]): r for r in report["results"] if r["kind"] == kind}
        costs = sorted({cost for _, cost in cells})
        rows = []
        for mode in MODES:
            found = [cells[mode, cost] for cost in costs]
            rows.append([mode, *(f"{r['median']:,.0f} of {r['limit']:,.0f}, {r['share']:.0%}" for r in found)])
        both = [cells["both", cost] for cost in costs]
        rows.append(["both over standard", *(f"{r['vs_standard']:.2f} of {r['limit_vs_standard']:.2f}" for r in both)])
        made.append(("", [title, *(f"{cost:g} ms" for cost in costs)], rows))
    return made


def mean_rates(cells: list[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Harmonic means over the games, by the number of environments and the contender."""
    sizes = sorted({cell["num_envs"] for cell in cells})
    out: dict[int, dict[str, float]] = {}
    for n in sizes:
        found = [cell["rates"] for cell in cells if cell["num_envs"] == n]
        names = [name for name in found[0] if all(name in rates for rates in found)]
        out[n] = {name: statistics.harmonic_mean([rates[name]["median"] for rates in found]) for name in names}
    return out


def _envs(report: dict[str, Any]) -> Made:
    means = mean_rates(report["results"])
    labels = list(dict.fromkeys(name for rates in means.values() for name in rates))
    rows = [[label, *(rate(rates.get(label)) for rates in means.values())] for label in labels]
    better: Row = ["ours over the better of envpool and ale-py, by game"]
    for n in means:
        values = [value for key, value in report["ratio"].items() if key.endswith(f"_{n}_vs_better")]
        better.append(f"{min(values):.2f} to {max(values):.2f}" if values else "")
    columns = ["", *(f"{n} environment{'s' * (n > 1)}" for n in means)]
    games = ", ".join(dict.fromkeys(cell["game"] for cell in report["results"]))
    return [(f"Steps per second, harmonic means over {games}.", columns, [*rows, better])]


def _emulator(report: dict[str, Any]) -> Made:
    rows = [["ale-py", rate(report["hmean"]["ale"]), "", "", ""]]
    labels = {"every": "ours, every frame drawn", "2of4": "ours, two of four drawn", "env": "ours as an environment"}
    for way, label in labels.items():
        games = sorted((game[f"{way}_vs_ale"], game["game"]) for game in report["games"])
        slowest, fastest = (f"{name} {value:.2f}" for value, name in (games[0], games[-1]))
        rows.append([label, rate(report["hmean"][way]), times(report["hmean"][f"{way}_vs_ale"]), slowest, fastest])
    title = f"Frames per second of one core, harmonic means over {len(report['games'])} games."
    return [(title, ["", "frames/s", "against ale-py", "slowest game", "fastest"], rows)]


def _update(report: dict[str, Any]) -> Made:
    ours = {(r["work"], r["batch"], r["threads"], r["precision"]): r["ms"] for r in report["ours"]}
    theirs = {(r["work"], r["batch"], r["threads"], r["kind"]): r["ms"] for r in report["theirs"]}
    kinds = list(dict.fromkeys(key[3] for key in theirs))
    rows = []
    for work, batch, threads in dict.fromkeys(key[:3] for key in ours):
        if work not in ("update", "act"):
            continue
        label = f"{'update of' if work == 'update' else 'acting,'} {batch}, {threads} thread{'s' * (threads > 1)}"
        mine = [ours.get((work, batch, threads, precision)) for precision in ("fp32", "bf16")]
        rows.append([label, *map(times, mine), *(times(theirs.get((work, batch, threads, kind))) for kind in kinds)])
    return [("Milliseconds, medians.", ["", "ours fp32", "ours bf16", *(f"torch {kind.replace('_', ' ')}" for kind in kinds)], rows)]


_WORKS = {"empty": "an empty call", "vec_step": "`vec_step`", "act mlp": "`act`, MLP of 64 and 64", "act cnn": "`act`, Nature CNN"}


def _ffi(report: dict[str, Any]) -> Made:
    columns = ("c", "cpp", "python", "kernels")
    rows = [
        [_WORKS[r["work"]] + (f", {r['rows']} row{'s' * (r['rows'] > 1)}" if r["rows"] else ""), *(times(r.get(c)) for c in columns)]
        for r in report["results"]
    ]
    return [("Microseconds of a call on one thread.", ["", "C", "C++", "Python", "kernels alone"], rows)]


def read_learn(text: str) -> list[dict[str, Any]]:
    """The rows that `make learn` prints."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 7 and words[2].isdigit():
            env, mode, seed, steps, reached, needed, seconds = words[:7]
            rows.append(
                {"env": env, "mode": mode, "seed": int(seed), "steps": int(steps.replace(",", "")), "return": float(reached),
                 "needed": float(needed), "seconds": float(seconds)}
            )  # fmt: skip
    return rows


def _learn(report: list[dict[str, Any]]) -> Made:
    rows = []
    for env, mode in dict.fromkeys((r["env"], r["mode"]) for r in report):
        runs = [r for r in report if (r["env"], r["mode"]) == (env, mode)]
        seconds = [r["seconds"] for r in runs]
        rows.append(
            [f"{env}, {mode}", rate(runs[0]["steps"]), f"{runs[0]['needed']:g}", ", ".join(f"{r['return']:.2f}" for r in runs),
             f"{min(seconds):.0f} to {max(seconds):.0f}"]
        )  # fmt: skip
    return [("Returns of three seeds.", ["", "steps", "needed", "reached", "seconds"], rows)]


_MAKERS = {
    "train": _turns, "onpolicy": _turns, "pong": _pong, "modes": _modes, "envs": _envs, "emulator": _emulator, "update": _update,
    "ffi": _ffi, "learn": _learn,
}  # fmt: skip
