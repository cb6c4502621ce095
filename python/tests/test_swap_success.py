"""Attributes, lifetimes and success rates of callbacks, as Stable-Baselines3's scripts use them,
without it.
"""

import copy
import csv
import gc
import json
import pickle
import weakref
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from envs import SMALL, Steps
from paceline import A2C, DQN, PPO, callbacks
from paceline.logger import configure

RECORDED = json.loads((Path(__file__).parent / "sb3" / "recorded.json").read_text())["callback_attributes"]
KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}, PPO: {"seed": 1, "n_steps": 40, "batch_size": 40}}
each = pytest.mark.parametrize("cls", list(KEYWORDS))


class Success(gymnasium.Wrapper):
    """Every second episode is a success. Steps inside an episode also have is_success, which has no
    effect.
    """

    episodes = 0

    def __init__(self, env, as_number=bool):
        super().__init__(env)
        self.as_number = as_number

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        ended = terminated or truncated
        self.episodes += ended
        return obs, reward, terminated, truncated, {**info, "is_success": self.as_number(self.episodes % 2 == 0) if ended else True}


def _made(keywords):
    return {
        "BaseCallback": callbacks.BaseCallback(),
        "CallbackList": callbacks.CallbackList([]),
        "CheckpointCallback": callbacks.CheckpointCallback(10, "x"),
        "ConvertCallback": callbacks.ConvertCallback(None),
        "EvalCallback": callbacks.EvalCallback(Steps(), **keywords),
        "EventCallback": callbacks.EventCallback(),
        "EveryNTimesteps": callbacks.EveryNTimesteps(10, callbacks.BaseCallback()),
        "LogEveryNTimesteps": callbacks.LogEveryNTimesteps(10),
        "ProgressBarCallback": callbacks.ProgressBarCallback(),
        "StopTrainingOnMaxEpisodes": callbacks.StopTrainingOnMaxEpisodes(3),
        "StopTrainingOnNoModelImprovement": callbacks.StopTrainingOnNoModelImprovement(3),
        "StopTrainingOnRewardThreshold": callbacks.StopTrainingOnRewardThreshold(1.0),
    }


@pytest.mark.parametrize("name", list(RECORDED))
def test_callbacks_have_every_attribute_and_hook(name):
    """A subclass finds every attribute of SB3's class, except dunder names."""
    callback = _made({})[name]
    assert not set(RECORDED[name]) - set(dir(callback))
    for attribute, value in RECORDED[name].items():
        if value is not None:
            assert getattr(callback, attribute) == value, attribute


@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_subclass_of_eval_callback_can_report(num_envs):
    """Optuna's example: a subclass reads eval_freq and the results of the evaluation."""
    reports = []

    class Report(callbacks.EvalCallback):
        def _on_step(self):
            if self.eval_freq > 0 and self.n_calls % self.eval_freq == 0:
                assert super()._on_step() and self.training_env is not None
                self.logger.record("a/b", 1)
                reports.append((self.n_calls, self.evaluations_timesteps[-1], self.last_time_trigger, self.last_mean_reward))
                assert np.mean(self.evaluations_results[-1]) == pytest.approx(self.last_mean_reward)
            return True

    with A2C("MlpPolicy", "CartPole-v1", seed=1, num_envs=num_envs) as model:
        callback = Report("CartPole-v1", eval_freq=50, n_eval_episodes=2, verbose=0)
        model.learn(110 * num_envs, callback=callback)
        model.learn(100 * num_envs, callback=callback)
        never = callbacks.EvalCallback("CartPole-v1", eval_freq=0)
        model.learn(100, callback=never)
    assert [row[0] for row in reports] == [50, 100, 150, 200] and not never.evaluations
    assert all(at == trigger for _, at, trigger, _ in reports) and [row[1] for row in reports][:2] == [50 * num_envs, 100 * num_envs]
    assert callback.evaluations_length and not callback.evaluations_successes


def test_periods_can_be_changed(tmp_path):
    checkpoints = callbacks.CheckpointCallback(10, tmp_path, "m")
    checkpoints.save_freq = 40
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        model.learn(100, callback=checkpoints)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m_40_steps.zip", "m_80_steps.zip"]


@each
@pytest.mark.parametrize("as_number", [bool, float, np.float32])
def test_success_rates_are_recorded(cls, as_number, tmp_path):
    evaluation = callbacks.EvalCallback(Success(Steps(), as_number), n_eval_episodes=4, eval_freq=100, log_path=tmp_path, verbose=0)
    with cls("MlpPolicy", Success(Steps(), as_number), **KEYWORDS[cls], stats_window_size=6) as model:
        assert len(model.ep_success_buffer) == 0 and model.ep_success_buffer.maxlen == 6
        model.set_logger(logger := configure(tmp_path, ["csv"]))
        model.learn(200, callback=evaluation, log_interval=1)
        assert sorted(model.ep_success_buffer) == [0, 0, 0, 1, 1, 1]
        assert model.evaluate(Success(Steps(), as_number), episodes=4).successes == (0, 1, 0, 1)
        model.learn(1)
        assert len(model.ep_success_buffer) < 6  # only episodes of this run
        logger.close()
    rows = list(csv.DictReader((tmp_path / "progress.csv").read_text().splitlines()))
    assert 0.5 in [float(row["rollout/success_rate"]) for row in rows if row["rollout/success_rate"]]
    assert 0.5 in [float(row["eval/success_rate"]) for row in rows if row["eval/success_rate"]]
    assert np.load(tmp_path / "evaluations.npz")["successes"].shape == (2, 4)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_success_rates_of_vectors_are_recorded(mode):
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    envs = SyncVectorEnv([lambda: Success(Steps())] * 2, autoreset_mode=AutoresetMode(mode))
    with A2C("MlpPolicy", envs, seed=1) as model:
        model.learn(200)
        assert set(model.ep_success_buffer) == {0, 1}
        assert len(model.ep_success_buffer) == len(model.ep_info_buffer)


@pytest.mark.parametrize("value", [None, "yes", [1, 2], {}])
def test_other_values_of_is_success_are_ignored(value):
    class Odd(gymnasium.Wrapper):
        def step(self, action):
            return *self.env.step(action)[:4], {"is_success": value}

    with A2C("MlpPolicy", Odd(Steps()), seed=1) as model:
        model.learn(100)
        assert not model.ep_success_buffer and not model.evaluate(Odd(Steps()), episodes=2).successes


def _look(locals_, _globals):
    return locals_["self"] is not None and locals_["callback"] is not None and "callback" in locals_ and locals_["env"] is not None


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    "callback",
    [
        lambda: _look,
        lambda: [_look, _look],
        lambda: callbacks.EvalCallback(
            Steps(),
            callbacks.StopTrainingOnRewardThreshold(1e9),
            callbacks.StopTrainingOnNoModelImprovement(9),
            eval_freq=40,
            verbose=0,
        ),
        lambda: callbacks.LogEveryNTimesteps(40),
        lambda: callbacks.EveryNTimesteps(40, callbacks.ConvertCallback(_look)),
    ],
)
@pytest.mark.parametrize("cls", [DQN, A2C])
def test_models_are_freed_without_the_garbage_collector(cls, callback):
    gc.collect()
    gc.disable()
    try:
        model = cls("MlpPolicy", Steps(), **KEYWORDS[cls])
        model.learn(100, callback=callback())
        alive = weakref.ref(model)
        del model
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda callback: pickle.loads(pickle.dumps(callback))])
def test_callbacks_are_copied_with_their_parents(again):
    stop = callbacks.StopTrainingOnRewardThreshold(1.0)
    made = again(callbacks.EvalCallback("CartPole-v1", stop, eval_freq=7))
    assert made.callback_on_new_best.parent is made and made.parent is None and made.eval_freq == 7
