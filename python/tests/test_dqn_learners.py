"""DQN with several learners: keywords, repetition, orders, files."""

import numpy as np
import pytest

from paceline import DQN
from paceline.errors import ConfigError

SMALL = {
    "seed": 7, "policy_kwargs": {"net_arch": [16]}, "num_envs": 8, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000,
    "train_freq": 4, "target_update_interval": 64, "learning_rate": 0.001, "exploration_steps": 400,
}  # fmt: skip


def small(**keywords):
    return DQN("MlpPolicy", "CartPole-v1", **{**SMALL, **keywords})


def digests(steps=1600, **keywords):
    with small(**keywords) as model:
        return model.learn(steps).hashes()


@pytest.mark.parametrize("rule", ["gradient", "overwrite", "mean"])
def test_one_learner_is_dqn(rule):
    assert digests(learners=1, rule=rule) == digests()


@pytest.mark.parametrize("keywords", [{}, {"rule": "mean"}, {"rule": "multi_step_adam", "sync_period": 2}])
def test_the_virtual_schedule_repeats_for_any_number_of_threads(keywords):
    one, two, plain = (digests(learners=4, num_threads=n, **keywords) for n in (1, 2, 1))
    assert one == two == plain != digests()


def test_a_race_is_repeated(tmp_path):
    with small(learners=4, schedule="race") as race:
        race.learn(1600)
        race.save_order(tmp_path / "race")
        want = race.hashes()
        assert race.stats["pushes"] == race.stats["updates"] > 300
    assert digests(learners=4, order=tmp_path / "race") == want


def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path):
    with small(learners=4) as model:
        model.learn(1600, callback=lambda *_: model.num_timesteps < 800)
        model.save(tmp_path / "half", replay=True)
        at = model.num_timesteps
    with DQN.load(tmp_path / "half") as model:
        assert model.num_timesteps == at == 800 and model.learners == 4
        model.learn(1600 - at, reset_num_timesteps=False)
        assert model.hashes() == digests(learners=4)
        assert model.predict(model.observation_space.sample())[0] in (0, 1)


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"learners": 3}, r"^num_envs: 8, must be a multiple of learners \(3\)$"),
        ({"learners": 101}, "^learners: 101, must be 0 to 100$"),
        ({"learners": 2, "synchronized": False}, "^synchronized: false, must be true where learners is 2"),
        ({"learners": 8, "buffer_size": 32}, "^buffer_size: 32, must be at least 64 with 8 learners, which share it$"),
        ({"schedule": "race"}, "^schedule: race, must be virtual where learners is 0$"),
        ({"order": "race"}, '^order: "race", must be empty where learners is 0$'),
        ({"learners": 2, "rule": "multi_step_adam", "optimizer": "rmsprop"}, "must be another where the optimiser is rmsprop"),
    ],
)
def test_wrong_keywords(keywords, says):
    with pytest.raises(ConfigError, match=says):
        small(**keywords)


def test_the_replay_memories_of_learners_are_read_as_one():
    with small(learners=2, buffer_size=1001) as model, small(learners=2, buffer_size=1001) as quiet:
        for size in (400, 800, 1000):  # the last learn fills the memories
            model.learn(400, reset_num_timesteps=False)
            quiet.learn(400, reset_num_timesteps=False)
            buffer = model.replay_buffer
            assert buffer.size() == len(buffer) == size and buffer.buffer_size == 1000 and buffer.full == (size == 1000)
            stored = int(model.stats["replay_size"])
            rows = buffer.read(range(stored))
            assert rows.observations.shape == (stored, 4) and buffer.sample(32).rewards.shape == (32, 1)
            follows = (rows.next_observations[:-1] == rows.observations[1:]).all(axis=1)
            assert follows.sum() > 0.8 * stored  # by environment, and within an environment by age
            assert model.hashes() == quiet.hashes()


def test_transitions_are_added_to_the_learner_of_their_environment():
    with small(learners=4) as model:
        obs = np.arange(8 * 4, dtype=np.float32).reshape(8, 4)
        for k in range(3):
            model.replay_buffer.add(obs + 100 * k, obs + 100 * k + 1, np.arange(8) % 2, np.arange(8), np.zeros(8))
        rows = model.replay_buffer.read(range(24))
        assert rows.rewards.ravel().tolist() == [env for env in range(8) for _ in range(3)]
        assert np.array_equal(rows.observations, [obs[env] + 100 * k for env in range(8) for k in range(3)])
        assert model.learn(800).stats["updates"] > 0
