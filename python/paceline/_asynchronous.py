"""Keywords and files that the asynchronous methods share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _actor_critic, _lib
from ._actor_critic import ActorCritic
from ._files import File, writing
from ._trainer import Trainer
from .config import Rule, Rules, Values
from .learning import Periods

ORDER_SUFFIX = "order"


def _file(name: str, suffix: str = "") -> Rule:
    """The rule of a path; None for no file. If there is no such file, the suffix is tried."""

    def rule(value: Any) -> Values:
        if not value:
            return {name: None}
        path = os.fsdecode(_lib.encode(value))
        other = f"{path}.{suffix}"
        return {name: other if suffix and not os.path.exists(path) and os.path.exists(other) else path}

    return rule


RULES: Rules = {"order": _file("order", ORDER_SUFFIX), "latency_file": _file("latency_file")}


def settings(keywords: Mapping[str, Any], rules: Rules, use_rms_prop: bool) -> Values:
    """The settings that keywords stand for; raises ConfigError for an unsupported value.

    An order without a schedule selects the schedule "recorded". use_rms_prop: the default of the
    keyword of that name.
    """
    return recorded(_actor_critic.settings(keywords, RULES | rules, use_rms_prop))


def recorded(out: Values) -> Values:
    """Selects the schedule "recorded" for an order without a schedule."""
    if out.get("order"):
        out.setdefault("schedule", "recorded")
    return out


def save_order(model: Trainer, path: File) -> None:
    """Writes a model's order; see Asynchronous.save_order."""
    model._check_open()
    with writing(path, ORDER_SUFFIX) as name:
        model._native.save_order(name)


class Asynchronous(ActorCritic):
    """A model with several learners, or with predictors and trainers; see A3C, APPO and GA3C."""

    def _periods(self) -> Periods:
        # The learners' rollouts end together where Python steps the environments of all of them.
        return super()._periods()._replace(whole=self._source is not None)

    def save_order(self, path: File) -> None:
        """Writes the order in which the computations of a model with schedule "race" or "recorded" ended.

            with A3C("MlpPolicy", "CartPole-v1", num_envs=8, learners=8, schedule="race", seed=1) as race:
                race.learn(50_000)
                race.save_order("race.order")
            with A3C("MlpPolicy", "CartPole-v1", num_envs=8, learners=8, order="race.order", seed=1) as again:
                again.learn(50_000)  # the same weights, bit for bit

        path: "x" becomes "x.order". The order covers the run from its first step, also if the run was
            saved with its experience (save(replay=True)), loaded and continued. The second model needs
            the same settings, seed and calls of learn. After the last recorded step learn raises
            ConfigError. The order of a race that continues a checkpoint without experience begins at
            that checkpoint, and a second model that loads the checkpoint repeats it. With GA3C such a
            race has no order, and save_order raises ConfigError.
        """
        save_order(self, path)
