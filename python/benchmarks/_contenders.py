"""Contenders that take turns: processes that train; each sleeps while another is measured."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from paceline import PacelineError, bench

Learner = tuple[Callable[[int], Any], Callable[[], tuple[int, int]]]
"""(trains for a number of steps, returns (steps, updates) so far), two functions."""


def example(name: str) -> Any:
    """Imports examples/python/<name>.py."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "python"))
    return importlib.import_module(name)


def _serve(conn: Connection, make: Callable[..., Learner], before: Sequence[int], keywords: dict[str, Any]) -> None:
    """Runs a contender's process. It first trains for each number of steps in before, then on request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    warnings.simplefilter("ignore")
    try:
        train, counts = make(**keywords)
        for steps in before:
            train(steps)
        conn.send(None)
        while True:
            steps = conn.recv()
            first, began = counts(), time.perf_counter()
            train(steps)
            seconds, last = time.perf_counter() - began, counts()
            conn.send((seconds, last[0] - first[0], last[1] - first[1]))
    except (EOFError, BrokenPipeError):  # the parent has ended
        pass
    except Exception as err:
        conn.send(PacelineError(" ".join(f"{type(err).__name__}: {err}".split())))


class Contender:
    """A process that trains in turns. The process calls make with the keywords."""

    def __init__(self, name: str, make: Callable[..., Learner], before: Sequence[int], **keywords: Any) -> None:
        self.name = name
        self.rates: list[float] = []
        self.steps = self.updates = 0
        context = multiprocessing.get_context("spawn")
        self._conn, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, before, keywords), daemon=True)
        self._process.start()
        theirs.close()
        self._receive()

    def _receive(self) -> Any:
        try:
            answer = self._conn.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            raise PacelineError(f"{self.name}: its process ended with status {self._process.exitcode}") from None
        if isinstance(answer, PacelineError):
            raise PacelineError(f"{self.name}: {answer}")
        return answer

    def turn(self, steps: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # _receive reports the end of the process
            self._conn.send(steps)
        seconds, steps, updates = self._receive()
        self.steps += steps
        self.updates += updates
        self.rates.append(steps / seconds)
        time.sleep(0.05)  # threads spin for a while after their work

    def described(self) -> dict[str, Any]:
        rates = {"steps_per_second": statistics.median(self.rates), "turns": self.rates}
        return {"name": self.name, **rates, "updates_per_step": self.updates / self.steps}

    def close(self) -> None:
        self._conn.close()
        self._process.join(3)  # an idle process ends when its pipe is closed
        self._process.terminate()
        self._process.join()


def peaks(threads: int) -> dict[str, float]:
    """The current peak GFLOP/s of a number of threads, by precision."""
    results = bench.run("update", {"trials": 1, "act": [], "threads": [threads]})["results"]
    return {r["precision"]: r["peak_gflops"][0] for r in results if r["work"] == "update"}


def median_ratios(turns: dict[str, list[float]], pairs: dict[str, tuple[str, str]]) -> dict[str, float]:
    """The medians of the turns' ratios for each pair of contenders that ran."""
    return {
        name: round(statistics.median(a / b for a, b in zip(turns[one], turns[other])), 3)
        for name, (one, other) in pairs.items()
        if one in turns and other in turns
    }


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """A table of the contenders' descriptions."""
    lines = [f"{'':<44}{'steps/s':>9}{'least':>9}{'most':>9}{'updates a step':>17}"]
    for r in results:
        lines.append(
            f"{r['name']:<44}{r['steps_per_second']:>9,.0f}{min(r['turns']):>9,.0f}{max(r['turns']):>9,.0f}{r['updates_per_step']:>17.4f}"
        )
    return lines
