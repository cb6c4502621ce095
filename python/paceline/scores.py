"""Scores of Atari games on the scale of papers: 0 is the score of a random agent, 100 that of a professional human player.

    from paceline import scores

    reference = scores.published("pong", "human_starts")
    print(scores.normalised(16.71, reference.random, reference.human), reference.source)

The published scores are those of Nair et al. 2015 (Gorila) for 49 games.
"""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any, NamedTuple

from .errors import ConfigError

STARTS = ("human_starts", "null_op")


class Published(NamedTuple):
    """The mean scores of a game in a paper's table, and the table."""

    random: float
    human: float
    dqn: float
    gorila: float
    source: str


def _tables() -> Any:
    return json.loads(resources.files(__package__).joinpath("gorila.json").read_text("utf-8"))


def published(game: str, starts: str) -> Published:
    """The scores of Nair et al. 2015 for one of their 49 games.

    game: such as "pong". starts: "human_starts" (their Table 3) or "null_op" (Table 4).
    """
    if starts not in STARTS:
        raise ConfigError(f"starts: {starts!r:.100}, must be human_starts or null_op")
    table = _tables()[starts]
    if game not in table["games"]:
        raise ConfigError(f"game: {game!r:.100}, must be one of {', '.join(table['games'])}")
    random, human, dqn, gorila = table["games"][game]
    return Published(random, human, dqn, gorila, table["source"])


def normalised(score: float, random: float, human: float) -> float:
    """100 (score - random) / (human - random), as in Nair et al. 2015 and Mnih et al. 2015."""
    for name, value in (("score", score), ("random", random), ("human", human)):
        if not math.isfinite(value):
            raise ConfigError(f"{name}: {value}, must be finite")
    if human == random:
        raise ConfigError(f"human: {human}, must not be the score of the random agent, which is 0 on this scale")
    return 100 * (score - random) / (human - random)
