"""Scores of a few runs: the interquartile mean, and rliable's bootstrap intervals if it is installed."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from statistics import fmean


def iqm(scores: list[float]) -> float:
    """The mean without the lowest and the highest quarter, each rounded down (Agarwal et al. 2021); NaN without a score."""
    cut = len(scores) // 4
    kept = sorted(scores)[cut : len(scores) - cut]
    return fmean(kept) if kept else math.nan


def interval(scores: list[float]) -> tuple[float, float] | None:
    """rliable's 95 % bootstrap interval of the interquartile mean; None without rliable or with fewer than two scores."""
    if len(scores) < 2 or importlib.util.find_spec("rliable") is None:
        return None
    import numpy as np

    try:
        from rliable import library, metrics
    except Exception as err:  # versions of its dependencies that do not fit raise errors of all kinds
        print(f"intervals: left out, rliable cannot be imported: {err}", file=sys.stderr)
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rliable's arguments are deprecated in a library that it calls
        _, intervals = library.get_interval_estimates(
            {"runs": np.array(scores)[:, None]},
            lambda runs: np.array([metrics.aggregate_iqm(runs)]),
            reps=2000,
            random_state=np.random.RandomState(0),
        )
    low, high = intervals["runs"][:, 0]
    return float(low), float(high)
