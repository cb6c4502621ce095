"""Gates: numbers that a benchmark must reach."""

from __future__ import annotations

import argparse


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="end with status 1 if a number misses its gate")


def at_most(what: str, value: float, limit: float, unit: str = "") -> list[str]:
    """A sentence if the value is above the limit, or not a number."""
    return [] if value <= limit else [_sentence(what, value, "at most", limit, unit)]


def at_least(what: str, value: float, limit: float, unit: str = "") -> list[str]:
    """A sentence if the value is below the limit, or not a number."""
    return [] if value >= limit else [_sentence(what, value, "at least", limit, unit)]


def _sentence(what: str, value: float, must: str, limit: float, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    return f"{what}: {value:,.4g}{unit}, must be {must} {limit:,.4g}{unit}"
