"""DQN with several learners: keywords, repetition, orders, files."""

import pytest

from paceline import DQN
from paceline.errors import ConfigError, PacelineError

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
        ({"learners": 81}, "^learners: 81, must be 0 to 80$"),
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


def test_the_replay_memories_of_learners_are_not_read():
    with small(learners=2) as model:
        model.learn(400)
        with pytest.raises(PacelineError, match="dqn with learners has a replay memory for each of them"):
            model.replay_buffer.sample(4)
