"""Table 1 of the paper, "Human-Level Control without Server-Grade Hardware" (section 5.1): python python/benchmarks/table1.py

The table has hours of DQN on Pong for 50 million agent steps (200 million frames) in 14 cells: 1,
2, 4 and 8 threads, with and without Concurrent Training and Synchronized Execution. One thread has
no Synchronized Execution. The settings are the paper's (the preset fastdqn, frames as in Mnih et
al. 2015): epsilon 0.1 throughout, F = 4, C = 10,000, a window of C, minibatches of 32. The paper
ran a million steps and multiplied the hours by 50. This program runs --steps and multiplies hours
and standard deviation by 50 million / steps.

A thread of the paper samples one environment, so the paper's threads are num_envs here. Every cell
computes with num_threads threads, one per core. The warm-up is not measured: N random steps, and a
few steps of learning, which touch memory and prepare a GPU. The clock stops when all due updates
are done. The replay memory has as many transitions as the run fills, at most the paper's million.

The function limit derives the possible gain of concurrency from the measured parts of the runs
without it. The grid takes hours: --part I/N runs a part of it, --out writes the measurements to a
file, and --from prints the table of such files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _command import MODES, command
from paceline import DQN, PacelineError, PacelineWarning, _lib, bench
from paceline._files import check_writing

# The paper's hours and their standard deviation over five trials.
PAPER = {
    (1, "standard"): (25.08, 0.52), (1, "concurrent"): (20.64, 0.29),
    (2, "standard"): (19.10, 0.07), (2, "concurrent"): (14.00, 0.00), (2, "synchronized"): (19.32, 0.28), (2, "both"): (14.72, 0.13),
    (4, "standard"): (16.84, 0.09), (4, "concurrent"): (12.14, 0.05), (4, "synchronized"): (15.74, 0.21), (4, "both"): (11.08, 0.08),
    (8, "standard"): (16.92, 0.23), (8, "concurrent"): (11.68, 0.04), (8, "synchronized"): (14.60, 0.12), (8, "both"): (9.02, 0.16),
}  # fmt: skip
_FULL = 50_000_000  # agent steps
_FREQ, _BATCH, _REPLAY = 4, 32, 1_000_000
_LEARNING = 64  # steps of learning before the clock starts
_CONCURRENT = {"standard": "concurrent", "synchronized": "both"}  # the same mode with Concurrent Training
_ACTIVITIES = ("step", "act", "learn", "wait")
_SAME = ("env", "recipe", "device", "gpu", "threads", "isa", "version", "steps", "warm_up", "trials")  # equal in all parts of a table


class Run(NamedTuple):
    """One trial of one cell."""

    trial: int
    threads: int
    mode: str


def runs(trials: int) -> list[Run]:
    """All runs, by trial, then by cell, so that a change of the machine's speed affects all cells alike."""
    return [Run(trial, threads, mode) for trial in range(1, trials + 1) for threads, mode in PAPER]


def measure(
    env: str = "Pong", device: str = "auto", steps: int = 10_000, warm_up: int = 50_000, trials: int = 3, part: tuple[int, int] = (1, 1)
) -> Iterator[dict[str, Any]]:
    """Yields the report after each run of the part; the last report is complete."""
    build = json.loads(_lib.lib().paceline_build_info())
    head: dict[str, Any] = {name: build[name] for name in ("threads", "isa", "version")}
    head |= {"env": env, "steps": steps, "warm_up": warm_up, "trials": trials}
    done: list[dict[str, Any]] = []
    every, (i, n) = runs(trials), part
    for run in every[len(every) * (i - 1) // n : len(every) * i // n]:
        found, result = _measured(run, env, device, steps, warm_up)
        if not done:
            cores = head["threads"]
            head |= found | {"one_core": _one_core(cores) if found["device"] == "cpu" and cores > 1 else 1.0}
        done.append(result)
        yield described(head | {"runs": list(done)})


def _measured(run: Run, env: str, device: str, steps: int, warm_up: int) -> tuple[dict[str, str], dict[str, Any]]:
    """(the recipe and the device, the measurements) of a run."""
    concurrent, synchronized = next(switches for name, *switches in MODES if name == run.mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PacelineWarning)
        with DQN.from_preset(
            "fastdqn", env, num_envs=run.threads, concurrent=concurrent, synchronized=synchronized,
            actor="target" if concurrent else "online", exploration_initial_eps=0.1, learning_starts=warm_up,
            buffer_size=min(_REPLAY, warm_up + _LEARNING + steps + run.threads),
            device=device, seed=run.trial,
        ) as model:  # fmt: skip
            model.learn(warm_up, log_interval=None)
            model.learn(_LEARNING, log_interval=None, reset_num_timesteps=False)
            first, began = model.stats, time.perf_counter()
            model.learn(steps, log_interval=None, reset_num_timesteps=False)
            seconds, last = time.perf_counter() - began, model.stats
            found = {"recipe": model.recipe, "device": str(model.device), "gpu": _gpu(str(model.device))}
    took = {name: last[name] - first[name] for name in ("num_timesteps", "updates", "seconds_env", "seconds_act", "seconds_train")}
    return found, {
        **run._asdict(), "seconds": seconds, "steps": took.pop("num_timesteps"), **took,
        "shares": {name: last[f"utilisation_{name}"] for name in _ACTIVITIES},
    }  # fmt: skip


def _gpu(device: str) -> str:
    """The name of a GPU, "" for the CPU."""
    devices = _lib.take_json(_lib.lib().paceline_devices)["devices"]
    return next((str(gpu["name"]) for gpu in devices if gpu["device"] in (device, f"{device}:0")), "")


def _one_core(cores: int) -> float:
    """The time of an update on one core over its time on all cores."""
    results = bench.run("update", {"act": [], "precisions": ["fp32"], "threads": [1, cores], "trials": 5})["results"]
    one, on_all = [float(statistics.median(r["ms"])) for r in results if r["work"] == "update"]
    return max(1.0, one / on_all)


# ------------------------------------------------------- derived figures


def limit(seconds: float, sampling: float, busy: float, training: float, cores: int, one_core: float) -> float:
    """The largest speedup of a run by updates that run concurrently with the samplers.

    It is the limit of modes.py --step-ms (core/bench/parts.go) for the totals of a run. The run
    takes at least the time of its samplers alone (sampling) and at least the time that the cores
    need for all work. Acting and stepping need `busy` seconds of one core. The updates need
    `training` seconds on all cores and one_core * training on one core; between these two numbers
    of cores the rate of updates is linear. On a GPU one_core is 1: updates take the same time for
    any number of free cores.

    The limit ignores contention between threads, and between acting and updates on a GPU. It also
    ignores that acting may be faster while the weights do not change. A measured gain can exceed
    the limit, because the machine's speed changes between runs.
    """
    least = max(sampling, (busy + one_core * training) / cores)
    if cores > 1:
        least = max(least, training + busy * (1 - 1 / one_core) / (cores - 1))
    return seconds / least


def _gains(cells: Mapping[tuple[int, str], Sequence[dict[str, Any]]], cores: int, one_core: float) -> Iterator[dict[str, Any]]:
    """Yields the measured and the possible gain of concurrency for each measured cell without it."""
    for (threads, of), before in sorted(cells.items(), key=lambda cell: list(PAPER).index(cell[0])):
        if of not in _CONCURRENT:
            continue
        seconds, env, act, training = (_mean(before, name) for name in ("seconds", "seconds_env", "seconds_act", "seconds_train"))
        shares = {name: statistics.fmean(run["shares"][name] for run in before) for name in _ACTIVITIES}
        sampling = env + act
        if of == "standard":  # seconds of all environments together; a core samples one environment at a time
            sampling *= math.ceil(threads / cores) / threads
        busy = (shares["step"] + shares["act"]) * cores * seconds
        after = cells.get((threads, _CONCURRENT[of]))
        yield {
            "threads": threads, "without": of, "with": _CONCURRENT[of], "shares": shares, "in_updates": training / seconds,
            "limit": limit(seconds, sampling, busy, training, cores, one_core),
            "speedup": seconds / _mean(after, "seconds") if after else None,
            "paper": PAPER[threads, of][0] / PAPER[threads, _CONCURRENT[of]][0],
        }  # fmt: skip


def _mean(measured: Sequence[Mapping[str, Any]], name: str) -> float:
    return statistics.fmean(run[name] for run in measured)


def described(report: dict[str, Any]) -> dict[str, Any]:
    """The report with the figures of the tables."""
    cells: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for run in report["runs"]:
        cells.setdefault((run["threads"], run["mode"]), []).append(run)
    hours = {cell: [run["seconds"] / run["steps"] * _FULL / 3600 for run in measured] for cell, measured in cells.items()}
    base = statistics.fmean(hours[1, "standard"]) if (1, "standard") in hours else None
    results = []
    for (threads, mode), (theirs, spread) in PAPER.items():
        if own := hours.get((threads, mode)):
            mean = statistics.fmean(own)
            results.append({
                "threads": threads, "mode": mode, "hours": own, "mean": mean, "spread": statistics.stdev(own) if len(own) > 1 else None,
                "speedup": base / mean if base else None,
                "paper": {"mean": theirs, "spread": spread, "speedup": PAPER[1, "standard"][0] / theirs},
            })  # fmt: skip
    return report | {
        "multiplied_by": _FULL / report["steps"],
        "missing": report["trials"] * len(PAPER) - len(report["runs"]),
        "equal_work": all(abs(_FREQ * run["updates"] - run["steps"]) < _FREQ for run in report["runs"]),
        "results": results,
        "gain": [*_gains(cells, report["threads"], report["one_core"])],
    }


def merged(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merges the reports of parts. parts: reports by file name."""
    (first, head), *others = parts.items()
    for name, part in others:
        for key in _SAME:
            if part[key] != head[key]:
                raise PacelineError(f"{name}: {key} is {part[key]!r}, must be {head[key]!r} as in {first}")
    where: dict[Run, str] = {}
    for name, part in parts.items():
        for measured in part["runs"]:
            run = Run(measured["trial"], measured["threads"], measured["mode"])
            if where.setdefault(run, name) != name:
                raise PacelineError(f"{name}: trial {run.trial} of {run.mode}, threads {run.threads}, must not be in {where[run]} as well")
    one_core = statistics.median(part["one_core"] for part in parts.values())
    together = sorted((run for part in parts.values() for run in part["runs"]), key=lambda run: int(run["trial"]))
    return described({key: head[key] for key in _SAME} | {"one_core": one_core, "runs": together})


def read(folder: str) -> dict[str, Any]:
    """The report of the parts that --out wrote to a folder."""
    parts = {}
    for path in sorted(Path(folder).glob("part-*.json")):
        part = None
        with contextlib.suppress(OSError, ValueError):
            part = json.loads(path.read_text())
        if not isinstance(part, dict) or {*_SAME, "one_core", "runs"} - part.keys():
            raise PacelineError(f"--from {folder}: {path.name}, must be a part that --out has written")
        parts[path.name] = part
    if not parts:
        raise PacelineError(f"--from {folder}: no files part-*.json, must be at least one")
    return merged(parts)


# ------------------------------------------------------------ output


def text(report: dict[str, Any]) -> str:
    """The report as tables."""

    def spread(mean: float, deviation: float | None) -> str:
        return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"

    def ratio(ours: float | None, theirs: float) -> str:
        return f"{'-' if ours is None else f'{ours:.2f}'} ({theirs:.2f})"

    cells = {(r["threads"], r["mode"]): (r, r["paper"]) for r in report["results"]}
    hours = {cell: f"{spread(r['mean'], r['spread'])} ({spread(p['mean'], p['spread'])})" for cell, (r, p) in cells.items()}
    ratios = {cell: ratio(r["speedup"], p["speedup"]) for cell, (r, p) in cells.items()}
    lines = [
        f"{report['env']}, Table 1 of the paper; in brackets the paper's figures, with a GTX 1080 and four cores",
        f"device {report['device']}{report['gpu'] and ', ' + report['gpu']}; {report['threads']} threads, {report['isa']}; "
        f"{report['trials']} trials of {report['steps']:,} steps after {report['warm_up']:,} random steps",
        "",
        f"hours for 50 million steps: mean and standard deviation of the trials, times {report['multiplied_by']:,.0f}",
        *_grid(hours, 29),
        "",
        "speedup over standard with one thread",
        *_grid(ratios, 15),
        "",
        "gain of concurrency, and its limit by the shares of a run without it",
        f"{'':<33}{'shares of the cores':>29}{'of the time':>13}",
        f"{'threads':<33}{'env':>7}{'act':>7}{'update':>8}{'wait':>7}{'in updates':>13}{'gained':>15}{'at most':>9}",
    ]
    for row in report["gain"]:
        env, act, update, wait = (row["shares"][name] for name in _ACTIVITIES)
        lines.append(
            f"{row['threads']:<7}{row['with'] + ' over ' + row['without']:<26}{env:>7.1%}{act:>7.1%}{update:>8.1%}{wait:>7.1%}"
            f"{row['in_updates']:>13.1%}{ratio(row['speedup'], row['paper']):>15}{row['limit']:>9.2f}"
        )
    lines += ["", "threads: the paper's sampler threads, here the number of environments"]
    if report["missing"]:
        lines.append(f"missing: {report['missing']} of {report['trials'] * len(PAPER)} runs")
    if not report["equal_work"]:
        lines.append(f"NOT equal work: updates a step must be 1/{_FREQ}")
    return "\n".join(lines)


def _grid(cells: Mapping[tuple[int, str], str], width: int) -> list[str]:
    """A table with a row for each number of threads and a column for each mode; "-" for a missing cell."""
    modes = [mode for threads, mode in PAPER if threads == 8]
    lines = ["threads" + "".join(f"{mode:>{width}}" for mode in modes)]
    lines += [f"{threads:<7}" + "".join(f"{cells.get((threads, mode), '-'):>{width}}" for mode in modes) for threads in (1, 2, 4, 8)]
    return lines


def part(text: str) -> tuple[int, int]:
    """Parses a part, such as "2/14"."""
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r}, must be I/N, part I of N")
    return int(number), int(of)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="Pong", help="the environment (default Pong, the paper's)")
    parser.add_argument("--device", default="auto", help="the keyword device of paceline.DQN (default auto)")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of each run (default 10000; the paper's: 1000000)")
    parser.add_argument("--warm-up", type=int, default=50_000, help="random steps before the clock starts (default 50000, the paper's)")
    parser.add_argument("--trials", type=int, default=3, help="runs of each cell (default 3; the paper's: 5)")
    parser.add_argument("--part", type=part, metavar="I/N", help="only part I of N, of the 14 runs of each trial")
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument("--out", metavar="DIR", help="write the part's measurements to a file in DIR after every run")
    folder.add_argument("--from", dest="folder", metavar="DIR", help="measure nothing; print the table of the files that --out has written")


def print_report(args: argparse.Namespace) -> None:
    if args.folder is not None:
        if args.part:
            raise PacelineError(f"--part: {args.part[0]}/{args.part[1]}, must be left out with --from, which prints all parts")
        report = read(args.folder)
    else:
        for name, value, least in (("steps", args.steps, _BATCH), ("warm-up", args.warm_up, _BATCH), ("trials", args.trials, 1)):
            if value < least:
                raise PacelineError(f"--{name}: {value}, must be at least {least}")
        report = _kept(args)
    print(json.dumps(report) if args.json else text(report))


def _kept(args: argparse.Namespace) -> dict[str, Any]:
    """Measures, writes the report to --out after each run and prints progress."""
    i, n = args.part or (1, 1)
    count = len(runs(args.trials))
    if n > count:
        raise PacelineError(f"--part: {i}/{n}, must be of at most {count} parts, one for each run")
    file = os.path.join(args.out, f"part-{i:02}-of-{n:02}.json") if args.out is not None else None
    if file:
        check_writing(file, "--out")
        os.makedirs(args.out, exist_ok=True)
    report: dict[str, Any] = {}
    for report in measure(args.env, args.device, args.steps, args.warm_up, args.trials, (i, n)):
        if file:
            Path(file + ".new").write_text(json.dumps(report))
            os.replace(file + ".new", file)  # an interrupted write keeps the previous file
        run = report["runs"][-1]
        line = f"trial {run['trial']}, threads {run['threads']}, {run['mode']}: {run['seconds']:.1f} s on {report['device']}"
        print(line, file=sys.stderr, flush=True)
    return report


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
