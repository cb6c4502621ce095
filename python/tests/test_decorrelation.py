"""decorrelation_steps with every method: environments that start together do not end together."""

from __future__ import annotations

import pytest

import paceline
from paceline.callbacks import BaseCallback

KEYWORDS = {
    **{name: {"learning_starts": 40, "buffer_size": 1000} for name in ("DQN", "QRDQN")},
    **{name: {} for name in ("A2C", "PPO", "PQN", "GA3C")},
    **{name: {"learners": 2} for name in ("A3C", "APPO")},
    "Gorila": {"bundles": 2, "learning_starts": 40, "buffer_size": 1000},
}


class FirstEnds(BaseCallback):
    """The step at which the first episode of each environment ends."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[int, int] = {}

    def _on_step(self) -> bool:
        for i, done in enumerate(self.locals["dones"]):
            if done:
                self.of.setdefault(i, self.num_timesteps)
        return len(self.of) < 8


@pytest.mark.filterwarnings("ignore::paceline.errors.PacelineWarning")  # batches of whole rollouts
@pytest.mark.parametrize("name", KEYWORDS)
def test_first_episodes_end_at_different_steps(name):
    spread = {}
    for steps in (0, 20):
        ends = FirstEnds()
        env_kwargs = {"decorrelation_steps": steps}
        with getattr(paceline, name)("MlpPolicy", "Catch-v0", num_envs=8, seed=1, env_kwargs=env_kwargs, **KEYWORDS[name]) as model:
            model.learn(400, callback=ends, log_interval=None)
        assert len(ends.of) == 8
        spread[steps] = max(ends.of.values()) - min(ends.of.values())
    # All episodes of Catch have 11 steps. The steps of asynchronous learners are a few rounds apart.
    assert spread[0] <= 24 < 45 < spread[20]
