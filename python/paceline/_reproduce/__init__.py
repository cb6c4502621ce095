"""`paceline reproduce`: published experiments, run again and compared with the published numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from .dopamine import add_arguments


def add_commands(sub: argparse.ArgumentParser, number: Callable[[str], int], environment: Callable[[str], str]) -> None:
    """Adds the experiments to the parser of `paceline reproduce`. number, environment: the types of arguments."""
    experiments = sub.add_subparsers(title="experiments", metavar="EXPERIMENT", required=True)
    add_arguments(experiments.add_parser("dopamine", help="agents of Dopamine on Atari games, by training returns"), number, environment)
