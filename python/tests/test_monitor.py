"""Episodes reported by the environments: RecordEpisodeStatistics, and the library's Atari games."""

import functools
import math

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward

import paceline
from conftest import slow_but
from envs import MODES, SMALL, Steps
from paceline import A2C, DQN
from paceline.callbacks import BaseCallback
from paceline.envs._source import adapt
from paceline.errors import ConfigError
from paceline.logger import configure


def hundredth(env):
    return TransformReward(env, lambda reward: reward / 100)


class Thirds(gymnasium.Wrapper):
    """Every third step ends an episode (a life). The next reset continues the game, as
    EpisodicLifeEnv does.
    """

    def __init__(self, env, end="terminated"):
        super().__init__(env)
        self.over, self.step_number, self.end = True, 0, end

    def reset(self, **keywords):
        if self.over:
            self.step_number, self.over = 0, False
            self.last = self.env.reset(**keywords)
        return self.last

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.last, self.step_number, self.over = (obs, {}), self.step_number + 1, terminated or truncated
        end = self.step_number % 3 == 0
        return obs, reward, terminated or (end and self.end == "terminated"), truncated or (end and self.end == "truncated"), info


def in_lives():
    return Thirds(hundredth(RecordEpisodeStatistics(Steps())))


def vectors(make, mode, n=2, asynchronous=False):
    cls = gymnasium.vector.AsyncVectorEnv if asynchronous else gymnasium.vector.SyncVectorEnv
    return cls([make] * n, autoreset_mode=mode)


GIVEN = {
    "one": lambda: hundredth(RecordEpisodeStatistics(Steps())),
    "lives": in_lives,
    **{f"sync {mode.name}": functools.partial(vectors, in_lives, mode) for mode in MODES},
    **{
        f"around {mode.name}": lambda mode=mode: gymnasium.wrappers.vector.TransformReward(
            gymnasium.wrappers.vector.RecordEpisodeStatistics(vectors(Steps, mode)), lambda reward: reward / 100
        )
        for mode in MODES
    },
    "processes": lambda: vectors(in_lives, MODES[0], asynchronous=True),
}


@pytest.mark.parametrize("given", list(GIVEN))
def test_reported_episodes_are_shown(given, tmp_path):
    seen = []

    class Look(BaseCallback):
        def _on_step(self):
            seen.extend(info["episode"] for info in self.locals["infos"] if "episode" in info)

    env = GIVEN[given]()
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.set_logger(logger := configure(tmp_path, ["json"]))
        model.learn(100, callback=Look(), log_interval=1)
        logger.close()
        # The learner sees rewards of hundredths, and with lives, episodes of at most three steps.
        assert model.stats["mean_return"] < 0.1 and model.stats["mean_length"] < (9 if "one" in given or "around" in given else 3.1)
        shown = list(model.ep_info_buffer)
        assert len(shown) > 8 and {(episode["r"], episode["l"]) for episode in shown} == {(6, 6), (9, 9)}
        # environments in other processes are known to report only after the first report
        if given != "processes":
            assert [episode["r"] for episode in seen] == [episode["r"] for episode in shown]
        mean = np.mean([episode["r"] for episode in shown])
        assert model.learning_curve.returns[-1] == model._shown_stats()["mean_return"] == pytest.approx(mean)
        assert math.isnan(model.learning_curve.returns[0])
        lines = [line for line in (tmp_path / "progress.json").read_text().splitlines() if "ep_rew_mean" in line]
        assert lines and all('"rollout/ep_rew_mean": 0' not in line for line in lines[3:])
        model.learn(10, reset_num_timesteps=False)
        assert len(model.ep_info_buffer) >= len(shown)
        model.learn(1)
        # episodes of the earlier run are discarded
        assert len(model.ep_info_buffer) == 0 or given == "processes"
    env.close()


@pytest.mark.parametrize("given", list(GIVEN))
def test_evaluation_uses_reported_episodes(given):
    env = GIVEN[given]()
    with A2C("MlpPolicy", Steps(), seed=1) as model:
        for _ in range(2):
            result = model.evaluate(env, 6)
            assert set(zip(result.returns, result.lengths)) == {(9.0, 9), (6.0, 6)} and result.episodes == 6
    env.close()


def test_unreported_ends_are_episodes():
    """An outer time limit ends an episode of its own. A Monitor that never reports does not delay
    the result.
    """
    outside = TimeLimit(RecordEpisodeStatistics(Steps()), 4)
    never = Thirds(RecordEpisodeStatistics(TimeLimit(Steps(), 3), stats_key="other"))
    with A2C("MlpPolicy", Steps(), seed=1) as model:
        assert model.evaluate(outside, 3).returns == (4.0, 4.0, 4.0)
        assert model.evaluate(never, 3).lengths == (3, 3, 3)

        class Silent(RecordEpisodeStatistics):
            def step(self, action):
                obs, reward, terminated, truncated, info = super().step(action)
                return obs, reward, terminated or truncated, False, {}

        assert set(model.evaluate(Silent(Steps()), 3).lengths) == {6, 9}


@pytest.mark.parametrize("episode", [7, {"r": "x", "l": 1}, {"r": [1, 2], "l": 1}, {"r": 1.0}])
def test_other_values_named_episode_are_ignored(episode):
    class Named(gymnasium.Wrapper):
        def step(self, action):
            return *self.env.step(action)[:4], {"episode": episode}

    source = adapt(Named(Steps()))
    source.reset()
    source.step()
    assert source.reported() == []
    with A2C("MlpPolicy", Named(Steps()), seed=1) as model:
        model.learn(50)
        assert model.ep_info_buffer[0] == {"r": 9.0, "l": 9} and model.evaluate(Named(Steps()), 2).returns == (9.0, 6.0)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_every_vector_of_the_library_reports_the_same_episodes(mode, copy):
    """The evaluation of a vector is that of a wrapped one, in every autoreset mode, and learning shows every episode."""

    def make():
        return paceline.make_vec("CartPole-v1", 2, autoreset_mode=mode, copy=copy)

    around = gymnasium.wrappers.vector.RecordEpisodeStatistics
    with A2C("MlpPolicy", around(make()), seed=1) as model:
        wanted = model.evaluate(paceline.make_vec("CartPole-v1", 2), 6, seed=1).lengths
        assert wanted == model.evaluate(make(), 6, seed=1).lengths == model.evaluate(around(make()), 6, seed=1).lengths
        model.learn(1000)
        shown = model.ep_info_buffer
        assert len(shown) == model.stats["episodes"] > 10 and np.mean([e["l"] for e in shown]) == model.stats["mean_length"]


@pytest.fixture
def invaders():
    """A policy for SpaceInvaders. Skips the test if there is no ROM."""
    try:
        model = DQN("CnnPolicy", "SpaceInvaders", buffer_size=200, learning_starts=50, seed=1)
    except ConfigError as err:
        pytest.skip(f"no ROM: {err}")
    with model, model.policy_snapshot() as policy:
        yield policy


@pytest.mark.parametrize("mode", slow_but(("same_step", None), ["next_step", "same_step", "disabled", None]))
def test_evaluation_counts_games_not_lives(invaders, mode):
    make = paceline.make if mode is None else lambda *args, **kw: paceline.make_vec(*args, 1, autoreset_mode=mode, copy=False, **kw)
    result = invaders.evaluate(env := make("SpaceInvaders", episodic_life=True), 1, seed=3, epsilon=1.0)
    env.close()
    # An invader's reward is 5 to 30, clipped to 1 in training. A game has three lives.
    assert result.mean_return >= 50 and result.mean_return % 5 == 0 and result.mean_length > 250
