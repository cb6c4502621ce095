"""The scores of a few runs beside rliable and naive formulas."""

import numpy as np
import pytest

from paceline._reproduce import _scores


def test_iqm_leaves_out_a_quarter_of_each_side():
    scores = [9.0, 1.0, 2.0, 100.0, 3.0, -50.0, 4.0, 5.0, 6.0]
    assert _scores.iqm(scores) == np.mean([2, 3, 4, 5, 6])  # 9 // 4 = 2 of each side
    assert _scores.iqm([3.0]) == 3 and np.isnan(_scores.iqm([]))


def test_intervals_are_those_of_rliable():
    metrics = pytest.importorskip("rliable.metrics", reason="rliable is not installed")
    scores = [float(x) for x in np.random.default_rng(1).normal(10, 3, 12)]
    assert _scores.iqm(scores) == pytest.approx(metrics.aggregate_iqm(np.array(scores)[:, None]))
    low, high = _scores.interval(scores)
    drawn = np.random.default_rng(2).choice(scores, (20_000, 12))
    naive = np.percentile([_scores.iqm(list(row)) for row in drawn], [2.5, 97.5])
    assert (low, high) == pytest.approx(tuple(naive), abs=0.25)
    assert low < _scores.iqm(scores) < high
    assert _scores.interval([1.0]) is None
