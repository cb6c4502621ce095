"""Schedules over several calls of learn, compared with Stable-Baselines3."""

import gymnasium
import pytest

import paceline
from paceline.callbacks import BaseCallback

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


@pytest.mark.parametrize("name", ["A2C", "DQN", "PPO"])
def test_rates_over_slices_equal_those_of_sb3(name):
    """Learning rate, clip range and epsilon are equal in every update of three slices and after a
    reset.
    """
    theirs, ours, slices = [], [], [(96, True), (96, False), (64, False), (128, True), (64, False)]
    keywords = {
        "A2C": {"n_steps": 8},
        "PPO": {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "clip_range": lambda left: 0.2 * left},
        "DQN": {"learning_starts": 32, "train_freq": 8, "exploration_fraction": 0.5, "buffer_size": 500},
    }[name]
    keywords["learning_rate"] = lambda left: 1e-3 * left**2

    class Watched(getattr(sb3, name)):
        def _update_learning_rate(self, optimizers):
            super()._update_learning_rate(optimizers)
            left, epsilon = self._current_progress_remaining, 0
            if name == "DQN":  # Paceline's epsilon falls only after the warm-up
                epsilon = self.exploration_schedule(1 - (self.num_timesteps - 32) / self._total_timesteps)
            clip = self.clip_range(left) if name == "PPO" else 0
            theirs.append((self.num_timesteps, left, self.policy.optimizer.param_groups[0]["lr"], clip, epsilon))

    class Watch(BaseCallback):
        def look(self):
            stats = self.model.stats
            rates = (stats["learning_rate"], stats.get("clip_range", 0), stats.get("epsilon", 0))
            ours.append((self.num_timesteps, self.model._current_progress_remaining, *rates))

        def _on_rollout_end(self):
            if name != "DQN":
                self.look()

        def _on_step(self):
            if name == "DQN" and self.num_timesteps > 32 and self.num_timesteps % 8 == 0:
                self.look()
            return True

    their_model = Watched("MlpPolicy", "CartPole-v1", device="cpu", **keywords)
    with getattr(paceline, name)("MlpPolicy", gymnasium.make("CartPole-v1"), **keywords) as model:
        for total, reset in slices:
            their_model.learn(total, reset_num_timesteps=reset)
            model.learn(total, reset_num_timesteps=reset, callback=Watch())
            assert model._total_timesteps == their_model._total_timesteps and model.num_timesteps == their_model.num_timesteps
    assert len(ours) == len(theirs) > 10
    for row, wanted in zip(ours, theirs):
        assert row == pytest.approx(wanted, rel=1e-3, abs=1e-9)
