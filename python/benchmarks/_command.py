"""The command line, the paper's four modes and the tables of the benchmarks in this folder."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from paceline import PacelineError

# (label, concurrent, synchronized), as in the paper's Table 1.
MODES = [
    ("standard", False, False),
    ("concurrent", True, False),
    ("synchronized", False, True),
    ("both", True, True),
]

Arguments = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], "list[str] | None"]  # prints a report; returns a sentence for each missed gate


def command(doc: str | None, add_arguments: Arguments, run: Run, given: list[str] | None) -> int:
    """Runs a benchmark; returns the exit status, 1 for a PacelineError or a missed gate. given: arguments; None: the process's."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    add_arguments(parser)
    args = parser.parse_args(given)
    try:
        missed = run(args) or []
    except PacelineError as err:
        print(f"paceline: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for sentence in missed:
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if missed else 0


def seeds_of(given: str) -> list[int]:
    """The numbers of --seeds, such as "1,2,3"."""
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", given):
        raise PacelineError(f"--seeds: {given!r}, must be whole numbers from 0 on with commas, such as 1,2,3")
    return [int(seed) for seed in given.split(",")]


def table(title: str, columns: list[int], cells: dict[tuple[str, int], str], labels: list[str], notes: str = "") -> str:
    """A table with a row for each label and a column for each number of environments."""
    width = max(len(label) for label in labels)
    lines = [title, " " * width + "".join(f"  {'W=' + str(w):>10}" for w in columns)]
    lines += [f"{label:<{width}}" + "".join(f"  {cells.get((label, w), '-'):>10}" for w in columns) for label in labels]
    return "\n".join(lines + ([notes] if notes else []))
