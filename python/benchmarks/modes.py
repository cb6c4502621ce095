"""Steps/s of DQN's four modes on a built-in environment: python python/benchmarks/modes.py

--step-ms adds milliseconds to every step, once as a wait and once as computation. Each rate is
printed with the limit that follows from the measured parts.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from _command import MODES, command, table
from paceline import bench
from paceline.bench.envs import numbers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="Catch-v0")
    parser.add_argument("--num-envs", type=numbers, help="comma-separated (default 1,8, and 8 with --step-ms)")
    parser.add_argument("--step-ms", type=milliseconds, metavar="MS,...", help="milliseconds added to a step, such as 0,0.5,2,5,20")
    parser.add_argument("--num-threads", type=int, default=0, help="threads of the trainer (default: one per core)")
    parser.add_argument("--steps", type=int, default=2000, help="steps measured for each cell (default 2000)")
    parser.add_argument("--trials", type=int, default=1)


def milliseconds(text: str) -> list[float]:
    """Parses milliseconds, such as "0,0.5,2"."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 <= v <= 1000 for v in values):
        raise argparse.ArgumentTypeError(f"{text!r}, must be numbers of 0 to 1000 with commas between them")
    return values


def print_report(args: argparse.Namespace) -> None:
    args.num_envs = args.num_envs or ([8] if args.step_ms else [1, 8])
    options = {name: getattr(args, name) for name in ("env", "num_envs", "num_threads", "steps", "trials")}
    report = bench.run("modes", options | ({"step_ms": args.step_ms} if args.step_ms else {}))
    print(json.dumps(report, indent=2) if args.json else (steps_table if args.step_ms else modes_table)(report))


def steps_table(report: dict[str, Any]) -> str:
    """The report with step_ms: a table for each kind of step and number of environments."""
    titles = {"wait": "a step that waits (waits=True)", "busy": "a step that computes"}
    results, blocks = report["results"], []
    for w in sorted({r["num_envs"] for r in results}):
        for kind, title in titles.items():
            cells = {(r["mode"], r["step_ms"]): r for r in results if (r["kind"], r["num_envs"]) == (kind, w)}
            costs = sorted({cost for _, cost in cells})
            lines = [f"{title}, W={w}", " " * 12 + "".join(f"  {f'{cost:g} ms':>20}" for cost in costs)]
            for label, _, _ in MODES:
                row = [cells[label, cost] for cost in costs]
                texts = [f"{r['median']:,.0f} of {r['limit']:,.0f} {r['share']:4.0%}" for r in row]
                lines.append(f"{label:<12}" + "".join(f"  {text:>20}" for text in texts))
            both = [cells["both", cost] for cost in costs]
            texts = [f"{r['vs_standard']:.2f} of {r['limit_vs_standard']:.2f}" for r in both]
            lines.append(f"{'both/std':<12}" + "".join(f"  {text:>20}" for text in texts))
            blocks.append("\n".join(lines))
    title = f"{report['env']}, steps/s while training and the limit of the measured parts, {report['threads']} threads, {report['isa']}"
    return "\n\n".join([title, *blocks, report["settings"]])


def modes_table(report: dict[str, Any]) -> str:
    """The report as a table of modes and numbers of environments."""
    results = report["results"]
    columns = sorted({r["num_envs"] for r in results})
    cells = {(r["mode"], r["num_envs"]): f"{r['median']:,.0f}" for r in results}
    title = f"{report['env']}, steps/s while training, {report['threads']} threads, {report['isa']}"
    return table(title, columns, cells, [label for label, _, _ in MODES], report["settings"])


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
