"""Learning curves as an image; needs matplotlib (pip install 'paceline[plot]').

from paceline import plots

model.learn(100_000)
plots.save_curves("curve.png", model.learning_curve)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .curve import LearningCurve
from .errors import ConfigError

BLUE, ORANGE, GREY = "#2563eb", "#ea580c", "#e5e7eb"


def save_curves(path: str | os.PathLike[str], *curves: LearningCurve) -> None:
    """Draws curves side by side into a file. The suffix chooses the format: .png, .svg, .pdf ...

    The lower axis has the minutes since learning began, the upper axis the steps. The line is the
    mean return of the latest 100 episodes; dots are evaluations. The function opens no window and
    changes no setting of matplotlib.
    """
    if not curves:
        raise ConfigError("curves: none, must be at least one")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plots: needs the package matplotlib (pip install 'paceline[plot]')") from None
    figure = Figure(figsize=(1.5 + 4.5 * len(curves), 4), layout="constrained")
    for ax, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves):
        _draw(ax, curve)
    figure.savefig(path, dpi=110)


def _draw(ax: Any, curve: LearningCurve) -> None:
    from matplotlib.ticker import MaxNLocator

    minutes = [seconds / 60 for seconds in curve.seconds]
    ax.plot(minutes, curve.returns, color=BLUE, linewidth=1.5, label="latest 100 episodes")
    if curve.evaluations:
        ax.plot([at / 60 for at, *_ in curve.evaluations], [result for *_, result in curve.evaluations], "o", color=ORANGE,
                markersize=4, clip_on=False, label="evaluations")  # fmt: skip
        ax.legend(frameon=False, loc="lower right")
    if np.isnan(curve.returns).all() and not curve.evaluations:
        ax.text(0.5, 0.5, "no episode has ended", transform=ax.transAxes, ha="center", va="center")
        ax.set_yticks([])
    ax.set(xlabel="minutes", ylabel="mean return", xlim=(0, minutes[-1] if minutes and minutes[-1] > 0 else 1))
    ax.set_title(curve.title, pad=12)
    ax.grid(color=GREY)
    ax.set_axisbelow(True)
    ax.spines[["right"]].set_visible(False)
    ends = (curve.steps[0], curve.steps[-1]) if curve.steps else (0, 0)
    if ends[0] < ends[1]:
        above = ax.twiny()
        above.set_xlim(ax.get_xlim())
        ticks = [at for at in MaxNLocator(6, integer=True).tick_values(*ends) if ends[0] <= at <= ends[1]]
        above.set_xticks([curve.seconds_at(steps) / 60 for steps in ticks], [_short(steps) for steps in ticks])
        above.set_xlabel("steps")
        above.spines[["right"]].set_visible(False)


def _short(steps: float) -> str:
    """A number of steps as a short text: 1.2M, 400k, 50."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if steps >= unit:
            return f"{steps / unit:g}{name}"
    return f"{steps:g}"
