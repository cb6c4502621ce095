"""Agent steps/s of the value family on Pong, compared with DQN and with a C51 of PyTorch: python python/benchmarks/value.py

The work is that of train.py: eight environments, the Nature network, an update of 32 transitions per
4 steps, two threads, a full replay memory. The methods differ in the keywords of the table below and
in nothing else. They take turns; a ratio is the median of the turns' ratios. The PyTorch loop is
examples/python/torch_c51.py, in the fastest fp32 variant that short turns find.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import statistics
import sys
from typing import Any

import train
from _command import command
from _contenders import Contender, example, median_ratios, peaks, table
from paceline import PacelineError

METHODS: dict[str, dict[str, Any]] = {
    "dqn": {},
    "categorical": {"distribution": "categorical"},
    "prioritized": {"prioritized": "dopamine"},
    "epsilon-rainbow": {
        "distribution": "categorical", "prioritized": "dopamine", "double_q": True, "dueling": True, "n_steps": 3,
    },
    "quantile": {"distribution": "quantile"},
    "implicit": {"distribution": "implicit"},
    "noisy": {"noisy": True, "exploration_initial_eps": 0.0, "exploration_final_eps": 0.0},
}  # fmt: skip
_OURS = "paceline "
_VARIANTS = {
    f"torch c51{' channels_last' * last}{' compile' * compiled}": {"channels_last": last, "compile": compiled}
    for last in (False, True) for compiled in (False, True)
}  # fmt: skip


def _ours(replay: int, method: str) -> Any:
    return train.ours(replay, "fp32", **METHODS[method])


def _loop(replay: int, **variant: Any) -> Any:
    return train.loop(replay, example("torch_c51").Loop, **variant)


def measure(steps: int, rounds: int, replay: int, methods: list[str], others: bool = True) -> dict[str, Any]:
    """Measures and returns the report. others: whether to measure PyTorch's loop, if it is installed."""
    missing = ["torch"] if others and importlib.util.find_spec("torch") is None else []
    trials = train.trials(steps, _loop, _VARIANTS) if others and not missing else {}
    measured: list[dict[str, float]] = []
    with contextlib.ExitStack() as stack:

        def start(name: str, make: Any, **keywords: Any) -> Contender:
            return stack.enter_context(contextlib.closing(train.contender(name, make, replay, **keywords)))

        running = [start(_OURS + method, _ours, method=method) for method in methods]
        fastest = max(trials, key=trials.__getitem__) if trials else ""
        if trials:
            running.append(start(fastest, _loop, **_VARIANTS[fastest]))
        for _ in range(rounds):
            measured.append(peaks(train.THREADS))
            for one in running:
                one.turn(steps)
    results = [one.described() for one in running]
    turns = {r["name"]: r["turns"] for r in results}
    pairs = {f"{method}_vs_dqn": (_OURS + method, _OURS + "dqn") for method in methods if method != "dqn"}
    pairs["categorical_vs_torch_loop"] = (_OURS + "categorical", fastest)
    return {
        "num_envs": train.ENVS, "threads": train.THREADS, "batch": train.BATCH, "replay": replay, "steps_a_turn": steps, "rounds": rounds,
        "peak_gflops": {name: statistics.median(peak[name] for peak in measured) for name in measured[0]},
        "left_out": missing, "trials": trials, "results": results, "equal_work": train.equal_work(results),
        "ratio": median_ratios(turns, pairs),
    }  # fmt: skip


def text(report: dict[str, Any]) -> str:
    """The report as a table."""
    lines = [f"Pong, {report['num_envs']} environments, {report['threads']} threads; medians of {report['rounds']} turns", ""]
    lines += table(report["results"])
    lines += [f"{name} when it was tried: {rate:,.0f}" for name, rate in report["trials"].items()]
    lines += [f"left out: {name} is not installed" for name in report["left_out"]]
    if not report["equal_work"]:
        lines.append("NOT equal work")
    return "\n".join([*lines, "", *(f"{name:<40}{value:>9.2f}" for name, value in report["ratio"].items())])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    train.add_arguments(parser)
    parser.add_argument("--methods", default=",".join(METHODS))


def print_report(args: argparse.Namespace) -> None:
    train.check(args)
    methods = args.methods.split(",")
    for method in methods:
        if method not in METHODS:
            raise PacelineError(f"--methods: {method!r}, must be of {', '.join(METHODS)}")
    report = measure(args.steps, args.rounds, args.replay, methods, not args.no_torch)
    print(json.dumps(report) if args.json else text(report))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
