"""Gorila in one process: keywords, bits, counts, files."""

import inspect

import gymnasium
import numpy as np
import pytest

from paceline import DQN, Gorila
from paceline.config import Config, describe
from paceline.errors import ConfigError

SMALL = {
    "seed": 7, "policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000,
    "target_update_interval": 64, "exploration_steps": 400,
}  # fmt: skip
FIXED = {
    "concurrent", "synchronized", "actor", "window", "clock", "replay_device", "noisy", "noisy_sigma", "prioritized",
    "priority_alpha", "priority_beta", "priority_beta_final", "priority_beta_steps", "priority_update", "learners", "rule", "sync_period",
    "adam_time", "updates", "outside_learners", "outside_learner",
}  # fmt: skip


def small(**keywords):
    return Gorila("MlpPolicy", "CartPole-v1", **{**SMALL, "bundles": 4, "shards": 3, **keywords})


def digests(steps=1000, **keywords):
    with small(**keywords) as model:
        return model.learn(steps).hashes()


def test_keywords_are_those_of_dqn():
    ours, theirs = (inspect.signature(cls).parameters for cls in (Gorila, DQN))
    assert {name for name in theirs if name not in ours} == FIXED
    assert {name for name in ours if name not in theirs} == {"bundles", "cluster"}
    positional = [[name for name, p in of.items() if p.kind is not p.KEYWORD_ONLY] for of in (ours, theirs)]
    assert positional[0] == positional[1]
    different = {name for name in ours if name in theirs and ours[name].default != theirs[name].default}
    assert different == {"learning_rate", "train_freq", "max_staleness", "outliers", "optimizer"}


def test_defaults_are_those_of_the_library():
    defaults = {name: p.default for name, p in inspect.signature(Gorila).parameters.items()}
    for setting in describe("gorila"):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config("gorila")
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_every_bundle_has_an_environment_by_default():
    with small(bundles=3) as model, Gorila("MlpPolicy", gymnasium.make("CartPole-v1"), **SMALL) as one:
        assert (model.n_envs, model.bundles, model.setting("num_envs")) == (3, 3, "3")
        assert (one.n_envs, one.bundles) == (1, 1)
    with small(num_envs=8) as model:
        assert model.n_envs == 8 and not hasattr(model, "learners")


def test_one_bundle_is_dqn_that_counts_updates():
    keywords = {"learning_rate": 0.01, "train_freq": 1, "optimizer": "adagrad", "clock": "updates", "outliers": 6, "concurrent": False}
    with DQN("MlpPolicy", "CartPole-v1", **SMALL, **keywords) as dqn:
        assert digests(bundles=1, shards=1) == dqn.learn(1000).hashes()
        assert dqn.exploration_rate == pytest.approx(0.05)


def test_the_virtual_schedule_repeats_for_any_number_of_threads():
    one, two, again = (digests(num_threads=n) for n in (1, 2, 4))
    assert one == two == again != digests(bundles=1)


def test_a_race_is_repeated(tmp_path):
    with small(schedule="race", max_staleness=2, outliers=2) as race:
        race.learn(1000)
        race.save_order(tmp_path / "race")
        want = race.hashes()
    assert digests(order=tmp_path / "race", max_staleness=2, outliers=2) == want


def test_updates_are_applied_refused_or_dropped():
    with small(shards=1, max_staleness=2, outliers=1.5) as model:
        stats = model.learn(2000).stats
        assert stats["updates"] == stats["pushes"] > 300 and stats["refused"] > 50 and stats["outliers"] > 10
        made = stats["updates"] + stats["refused"] + stats["outliers"]
        assert 2000 - 64 - 4 <= made <= 2000 - 64 and 0 < stats["lag"] < stats["lag_most"]


def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path):
    with small() as model:
        model.learn(1000, callback=lambda *_: model.num_timesteps < 400)
        model.save(tmp_path / "part", replay=True)
        at = model.num_timesteps
    with Gorila.load(tmp_path / "part") as model:
        assert model.num_timesteps == at == 400 and model.bundles == 4
        model.learn(1000 - at, reset_num_timesteps=False)
        assert model.hashes() == digests()
        assert model.predict(model.observation_space.sample())[0] in (0, 1)
    with pytest.raises(ConfigError, match="a run of 'gorila', must be of 'dqn' for DQN.load"):
        DQN.load(tmp_path / "part")


def test_the_replay_buffer_is_that_of_all_bundles():
    with small(buffer_size=4002) as model:
        buffer = model.replay_buffer
        assert (buffer.buffer_size, buffer.n_envs, buffer.size()) == (4000, 4, 0)
        obs = np.arange(16, dtype=np.float32).reshape(4, 4)
        buffer.add(obs, obs + 1, np.ones(4, int), np.arange(4.0), np.ones(4, bool))
        assert buffer.size() == 4
        sample = buffer.read(range(4))
        np.testing.assert_array_equal(sample.observations, obs)
        np.testing.assert_array_equal(sample.rewards[:, 0], range(4))
        assert buffer.sample(10).actions.shape == (10, 1)
        model.learn(400)
        assert buffer.size() == 404


def test_the_exploration_schedule_counts_updates():
    with small(bundles=1, train_freq=2, exploration_steps=100, exploration_final_eps=0.1) as model:
        model.learn(1000)
        # 64 of 1000 steps are the warm-up
        assert [model.exploration_schedule(p) for p in (1, 0.936, 0.836, 0.736, 0)] == pytest.approx([1, 1, 0.55, 0.1, 0.1])


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"bundles": 0}, "^num_envs: 0, must be 1 to|^bundles: 0, must be 1 to 100$"),
        ({"bundles": 101}, "^bundles: 101, must be 1 to 100$"),
        ({"bundles": 3, "num_envs": 4}, r"^num_envs: 4, must be a multiple of bundles \(3\)$"),
        ({"outliers": -1}, "^outliers: -1, must be 0 to"),
        ({"max_staleness": -1}, "^max_staleness: -1, must be 0 to"),
        ({"shards": 65}, "^shards: 65, must be 1 to 64$"),
        ({"buffer_size": 16}, "^buffer_size: 16, must be at least 32 with 4 bundles, which share it$"),
        ({"device": "cuda"}, "^device: cuda, must be auto or cpu for gorila$"),
    ],
)
def test_wrong_keywords(keywords, says):
    with pytest.raises(ConfigError, match=says):
        small(**keywords)


def test_keywords_of_dqn_that_algorithm_1_fixes():
    with pytest.raises(TypeError, match="'learners': only A3C, APPO and DQN have several learners; Gorila has bundles"):
        small(learners=2)
    with pytest.raises(TypeError, match="'prioritized': only DQN, and Gorila with cluster='ray', have prioritised replay"):
        small(prioritized="dopamine")
    with pytest.raises(TypeError, match="'trunk': cnn names the convolutions, such as cnn='minatar'"):
        small(trunk="minatar")
    with pytest.raises(TypeError, match="'concurrent'"):
        small(concurrent=True)
    with pytest.raises(TypeError, match="'bundles': only Gorila has bundles"):
        DQN("MlpPolicy", "CartPole-v1", bundles=2)


def test_the_preset_of_the_paper():
    with Gorila.from_preset("nair2015", "Catch-v0", bundles=2, num_envs=2, shards=2, buffer_size=2000, seed=1) as model:
        assert (model.target_update_interval, model.exploration_steps, model.optimizer) == (60_000, 1_000_000, "adagrad")
