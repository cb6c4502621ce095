"""Learning curves, what GA3C's tuner did and predictions of Gorila as images; needs matplotlib (pip install 'paceline[plot]').

from paceline import plots

model.learn(100_000)
plots.save_curves("curve.png", model.learning_curve)
"""

from __future__ import annotations

import csv
import os
from typing import Any

import numpy as np

from .curve import LearningCurve
from .errors import CheckpointError, ConfigError, MissingFileError

BLUE, ORANGE, GREEN, GREY, DARK = "#2563eb", "#ea580c", "#16a34a", "#e5e7eb", "#9ca3af"

_NUMBERS = ("predictors", "trainers", "agents")
_TRACE = ["period", "time", *_NUMBERS, "old", "new", "statistic", "kept"]


def save_curves(path: str | os.PathLike[str], *curves: LearningCurve) -> None:
    """Draws curves side by side into a file. The suffix chooses the format: .png, .svg, .pdf ...

    The lower axis has the minutes since learning began, the upper axis the steps. The line is the
    mean return of the latest 100 episodes; dots are evaluations. The function opens no window and
    changes no setting of matplotlib.
    """
    if not curves:
        raise ConfigError("curves: none, must be at least one")
    figure = _figure(1.5 + 4.5 * len(curves), 4)
    for ax, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves):
        _draw(ax, curve)
    figure.savefig(path, dpi=110)


def save_trace(path: str | os.PathLike[str], trace: str | os.PathLike[str]) -> None:
    """Draws a file of GA3C.save_trace into a file: Figure 2 of Babaeizadeh et al. 2017.

    Above, over the time of the schedule: the predictors, trainers and agents that the tuner kept, as
    lines, and those that it took back, as dots. Below: the updates a second of the proposals (of tuner
    "authors": the updates), and those of the numbers before.
    """
    rows = _read_trace(trace)
    figure = _figure(7, 5.5)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    seconds = [float(row["time"]) for row in rows]
    kept = [row for row in rows if row["kept"] == "true"]
    end = seconds[-1] if rows else 1.0
    for name, color in zip(_NUMBERS, (BLUE, ORANGE, GREEN)):
        at = [float(row["time"]) for row in kept]
        values = [int(row[name]) for row in kept]
        above.step([*at, end], [*values, *values[-1:]] if kept else [np.nan], where="post", color=color, label=name)
        back = [(float(row["time"]), int(row[name])) for row in rows if row["kept"] != "true"]
        above.plot([t for t, _ in back], [n for _, n in back], ".", color=color, alpha=0.35, markersize=4)
    above.set_yscale("log", base=2)
    above.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    above.set_ylabel("number")
    above.legend(frameon=False, loc="upper left", ncols=3)
    below.plot(seconds, [float(row["old"]) for row in rows], color=DARK, linewidth=1.5, label="before")
    below.plot(seconds, [float(row["new"]) for row in rows], ".", color=BLUE, markersize=4, label="proposed")
    below.set(xlabel="seconds", ylabel="updates/s", xlim=(0, end))
    below.legend(frameon=False, loc="lower right", ncols=2)
    _save(path, figure)


def save_cluster(path: str | os.PathLike[str], report: dict[str, Any]) -> None:
    """Draws a report of `paceline bench gorila` into a file.

    On the left: updates a second over the number of bundles: with the shards of the report, with the
    smallest number of shards that has 95 % of the highest rate of any number (written beside its
    points), and of bundles that never wait for each other. On the right: shares of the gradients by
    their lag.
    """
    from .bench.gorila import lag_names

    figure = _figure(10, 4)
    rates, lags = figure.subplots(1, 2)
    shards = report["options"]["shards"]
    _rates(rates, report)
    parts = report["result"]["lags"]
    lags.bar(lag_names(parts), [part["share"] for part in parts], color=BLUE)
    lags.set(xlabel="lag, updates of others", ylabel="share of gradients")
    lags.set_title(f"{report['options']['bundles']} bundles, {shards} shards", fontsize=10)
    lags.tick_params(axis="x", labelrotation=45)
    _save(path, figure)


def _rates(rates: Any, report: dict[str, Any]) -> None:
    """Updates a second over the number of bundles, as save_cluster draws them."""
    from .bench.gorila import rows

    lines, shards = rows(report), report["options"]["shards"]
    rates.plot([n for n, *_ in lines], [here["updates_per_second"] for _, here, _ in lines], "o-", color=BLUE, label=f"{shards} shards")
    points = report["points"]
    if points:
        bundles = [p["bundles"] for p in points]
        rates.plot(bundles, [p["enough"]["updates_per_second"] for p in points], "s--", color=GREEN, label="shards as written")
        rates.plot(bundles, [p["bundles"] * report["one"] for p in points], color=DARK, label=f"{shards} shards, no bundle waits")
        for p in points:
            rates.annotate(str(p["shards"]), (p["bundles"], p["enough"]["updates_per_second"]), textcoords="offset points", xytext=(0, 6))
        rates.set_xscale("log")
        rates.set_yscale("log")
    rates.set(xlabel="bundles", ylabel="updates/s")
    rates.legend(frameon=False, loc="upper left")


def _save(path: str | os.PathLike[str], figure: Any) -> None:
    """Gives the axes a grid and no upper and right edges, and writes the figure."""
    for ax in figure.axes:
        ax.grid(color=GREY)
        ax.set_axisbelow(True)
        ax.spines[["right", "top"]].set_visible(False)
    figure.savefig(path, dpi=110)


def _read_trace(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The lines of a file of GA3C.save_trace by their columns. Raises ConfigError or CheckpointError for other files."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            if lines.fieldnames != _TRACE:
                raise ConfigError(f"trace: {os.fspath(path)}: columns {lines.fieldnames}, must be {', '.join(_TRACE)}")
            rows = list(lines)
            for row in rows:
                for name in ("time", "old", "new"):
                    float(row[name])
                for name in _NUMBERS:
                    int(row[name])
            return rows
    except FileNotFoundError:
        raise MissingFileError(f"trace: {os.fspath(path)}: no such file") from None
    except OSError as err:
        raise CheckpointError(f"trace: {os.fspath(path)}: not read: {err.strerror}") from None
    except ConfigError:
        raise
    except (ValueError, TypeError, csv.Error) as err:
        raise CheckpointError(f"trace: {os.fspath(path)}: damaged: {err}") from None


def check_format(path: str | os.PathLike[str], what: str) -> None:
    """Raises ConfigError if no image can be written in the format of the path's suffix. what: the argument's name in the message."""
    formats = sorted(_figure(1, 1).canvas.get_supported_filetypes())
    suffix = os.path.splitext(path)[1].removeprefix(".").lower()
    if suffix and suffix not in formats:  # without one it is .png
        raise ConfigError(f"{what} {os.fspath(path)}: .{suffix}, must be one of .{', .'.join(formats)}")


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plots: needs the package matplotlib (pip install 'paceline[plot]')") from None
    return Figure(figsize=(width, height), layout="constrained")


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
