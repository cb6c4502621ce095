"""Benchmarks of this machine: `paceline bench update | envs | ffi | ga3c | gorila | tuner | async | latency`.

A checkout has others in python/benchmarks.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _lib
from .._files import check_writing
from ..errors import ConfigError, PacelineError
from . import envs, ffi, gorila, laboratory, update

_IN_CHECKOUT = (
    "continuous",
    "dopamine",
    "emulator",
    "gorila_faults",
    "gorila_learn",
    "gorila_overhead",
    "gorila_scale",
    "gorila_values",
    "modes",
    "onpolicy",
    "pong",
    "ray_costs",
    "small_games",
    "table1",
    "train",
    "value",
)
_FILES = ("csv", "out", "plot", "report")  # arguments that name files to write


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Adds the sub-commands of `paceline bench`."""
    parser.set_defaults(bench=lambda args: parser.print_help())
    parser.epilog = f"In a checkout of the repository, python python/benchmarks/NAME.py: {', '.join(_IN_CHECKOUT)}."
    commands = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK")

    def command(name: str, run: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(bench=functools.partial(_checked, run))
        sub.add_argument("--json", action="store_true", help="print the numbers as JSON")
        return sub

    update.add_arguments(
        command("update", update.main, "milliseconds of minibatch updates and of acting, compared with the processor's peak and PyTorch")
    )
    ffi.add_arguments(command("ffi", ffi.main, "microseconds of calls of the library from C, C++ and Python"))
    envs.add_arguments(command("envs", envs.main, "steps/s of vector environments of Atari games: paceline, EnvPool, ale-py and Gymnasium"))
    laboratory.ga3c_arguments(
        command("ga3c", laboratory.ga3c, "rates, batches, queues and lags of GA3C on the paper's machines, simulated, and here")
    )
    gorila.add_arguments(
        command("gorila", gorila.main, "updates/s, lags and limits of Gorila on many machines, predicted from costs of this one")
    )
    laboratory.tuner_arguments(
        command("tuner", laboratory.tuner, "what GA3C's tuner finds on the paper's machines, simulated, and the best of a grid")
    )
    laboratory.async_arguments(command("async", laboratory.asynchronous, "steps/s of A3C by schedule: race, unrecorded race, virtual"))
    laboratory.latency_arguments(command("latency", laboratory.latency, "durations of this machine as a file for latency_file"))


def _checked(run: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> None:
    """Runs a benchmark whose files can be written."""
    for name in _FILES:
        if path := getattr(args, name, None):
            check_writing(path, f"--{name}", "")
    run(args)


def refuse_moved(arguments: Sequence[str]) -> None:
    """Raises PacelineError for a benchmark that only a checkout has."""
    if arguments[:1] == ["bench"] and len(arguments) > 1 and arguments[1] in _IN_CHECKOUT:
        name = arguments[1]
        program = f"python/benchmarks/{name}.py"
        raise PacelineError(f"bench {name}: not in the package, must be run in a checkout of the repository: python {program}")


def run(name: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs a benchmark of the library and returns its report."""
    _check(options or {})
    text = None if options is None else json.dumps(options).encode()
    return dict(_lib.take_json(_lib.lib().paceline_bench, _lib.encode(name), text))


def _check(options: dict[str, Any]) -> None:
    """Raises ConfigError for a number that the library's JSON cannot have. The library checks the others."""
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}: {value}, must be finite")
        low, high = (0, 2**64) if name == "seed" else (-(2**63), 2**63)
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not low <= number < high:
                raise ConfigError(f"{name}: {number}, must be {low} to {high - 1}")
