"""The returns and lengths of episodes that Python steps.

Wrappers change rewards and end episodes at lost lives. A Monitor inside them reports the
environment's own {"r": return, "l": length} in infos["episode"]. The library's Atari games report
raw_reward and game_over at every step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ._infos import number, truth
from ._layers import reports

if TYPE_CHECKING:
    from ._source import Source

Episode = tuple[float, int]
UNREPORTED = 200  # consecutive ends of an environment without a report after which Tally stops waiting for a Monitor


def reported(info: Mapping[str, Any]) -> Episode | None:
    """(return, length) of the episode that ended in this step, if infos["episode"] has it, else None."""
    episode = info.get("episode")
    if not isinstance(episode, Mapping) or not {"r", "l"} <= episode.keys():
        return None
    total, length = number(episode["r"]), number(episode["l"])
    if total is None or length is None or not math.isfinite(length):
        return None  # not a Monitor's entry
    return float(total), int(length)


def success(info: Mapping[str, Any]) -> float | None:
    """infos["is_success"] of an episode's last step as a float, or None."""
    return number(info.get("is_success"))


class Recent:
    """The latest reported episodes; the means are NaN before the first one."""

    def __init__(self, most: int) -> None:
        self.episodes: deque[Episode] = deque(maxlen=most)
        self.mean_return = self.mean_length = math.nan

    def add(self, episodes: Iterable[Episode]) -> None:
        self.episodes.extend(episodes)
        self.mean_return, self.mean_length = map(fmean, zip(*self.episodes))


class Tally:
    """Counts the episodes of a Source during an evaluation."""

    def __init__(self, source: Source) -> None:
        n = source.num_envs
        self._source = source
        self._waits = self._known = reports(source.env)  # for reports; that there are any
        self._returns, self._lengths = np.zeros(n), np.zeros(n, np.int64)
        self._resetting = np.zeros(n, bool)
        self._unreported = np.zeros(n, np.int64)
        self._counted = False  # whether an end without a report was counted
        self.void = False  # whether the episodes counted before the latest step were parts of episodes

    def step(self) -> list[tuple[int, float, int, float | None]]:
        """Call after each step of the source: (environment, return, length, success) of the episodes that ended."""
        rows, over = self._source.rows, list[tuple[int, float, int, float | None]]()
        ended, self.void = rows.ended & ~self._resetting, False
        for i, info in enumerate(self._source.each_info()):
            if self._resetting[i]:
                continue
            raw = number(info.get("raw_reward"))
            game = raw is not None and "game_over" in info  # one of the library's Atari games
            self._returns[i] += raw if game else rows.rewards[i]
            self._lengths[i] += 1
            if not ended[i]:
                continue
            report = reported(info)
            if report is not None:
                # The first report of a Monitor in another process: earlier ends may have been lost
                # lives.
                self.void |= not self._known and self._counted
                self._waits = self._known = True
            elif self._waits and not rows.truncated[i]:
                self._unreported[i] += 1
                if self._unreported[i] == UNREPORTED:
                    self._waits = False
                    self._returns[i], self._lengths[i] = 0, 0
                continue  # such as a lost life: the Monitor's episode continues
            elif game and not truth(info["game_over"]):
                continue
            over.append((i, *(report or (float(self._returns[i]), int(self._lengths[i]))), success(info)))
            self._counted |= report is None
            self._returns[i], self._lengths[i], self._unreported[i] = 0, 0, 0
        self._resetting = ended if self._source.autoreset == "next_step" else np.zeros_like(ended)
        return over
