"""model.replay_buffer: Python reads, samples and adds transitions."""

import gymnasium
import numpy as np
import pytest

from envs import SMALL, Counter, Image
from paceline import A2C, DQN
from paceline.errors import BusyError, ConfigError, PacelineError, SpaceError

SHAPES = [(5, 4), (5, 1), (5, 4), (5, 1), (5, 1)]


@pytest.mark.parametrize("n_steps", [{}, {"n_steps": 2}, {"n_steps": 2, "n_step_tails": "drop"}])
def test_samples_are_transitions_of_the_environment(n_steps):
    """Counter's observations and rewards identify each transition, which is a single step."""
    with DQN("MlpPolicy", Counter(), **SMALL, **n_steps) as model:
        model.learn(300)
        size = int(model.stats["replay_size"])
        every = model.replay_buffer.read(range(size))
        drawn = model.replay_buffer.sample(5)
    assert [x.shape for x in drawn] == SHAPES and drawn._fields == every._fields
    assert [x.dtype for x in drawn] == [np.float32, np.int64, np.float32, np.float32, np.float32]
    for batch in (every, drawn):
        obs, action, after, done, reward = (x.T for x in batch)
        last = obs[2] + 1 == 3 + obs[1] % 3
        np.testing.assert_array_equal(reward[0], obs[2] + 1)
        # odd episodes are truncated
        np.testing.assert_array_equal(done[0] == 1, last & (obs[1] % 2 == 0))
        going = done[0] == 0
        np.testing.assert_array_equal(after[:, ~going], 0)
        np.testing.assert_array_equal(after[:, going], np.stack([obs[0], obs[1], obs[2] + 1, action[0]])[:, going])
    assert 0 < every.dones.sum() < size and len(drawn.dones) == 5


def test_load_replay_buffer_is_refused_during_learn(tmp_path):
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        model.learn(100)
        model.save_replay_buffer(tmp_path / "x")
        model.learn(50, reset_num_timesteps=False)

        def load(locals_, _):
            before = model.hashes()
            with pytest.raises(BusyError, match="^load_replay_buffer: learn is in progress, must be called before or after it$"):
                model.load_replay_buffer(tmp_path / "x")
            assert model.hashes() == before

        model.learn(10, callback=load, reset_num_timesteps=False)
        assert model.num_timesteps == 160


def test_sampling_does_not_change_the_run():
    def run(sampled):
        with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
            draws = []
            model.learn(200)
            if sampled:
                draws = [model.replay_buffer.sample(4) for _ in range(3)]
            model.learn(200, reset_num_timesteps=False)
            return model.hashes(), [x for batch in draws for x in batch]

    (hashes, first), (again, second), (without, _) = run(True), run(True), run(False)
    assert hashes == again == without
    assert all(np.array_equal(a, b) for a, b in zip(first, second)) and not np.array_equal(first[0], first[5])


def test_added_transitions_are_visible_at_once_and_learnt_from():
    env = gymnasium.make("CartPole-v1")
    with DQN("MlpPolicy", env, **{**SMALL, "learning_starts": 0}) as model:
        buffer = model.replay_buffer
        with pytest.raises(ConfigError, match="0 transitions, must be at least 1"):
            buffer.sample(2)
        for i in range(40):
            done = i % 4 == 3
            buffer.add(
                np.full((1, 4), i), np.full((1, 4), i + 1), np.array([[i % 2]]), [i / 2], [done], [{"TimeLimit.truncated": i % 8 == 7}]
            )
        assert buffer.size() == 40
        got = buffer.read([0, 3, 7])
        np.testing.assert_array_equal(got.observations[:, 0], [0, 3, 7])
        # next_observations is 0 after a termination; transition 7 is truncated
        np.testing.assert_array_equal(got.next_observations[:, 0], [1, 0, 8])
        np.testing.assert_array_equal([got.actions[:, 0], got.rewards[:, 0], got.dones[:, 0]], [[0, 1, 1], [0, 1.5, 3.5], [0, 1, 0]])
        model.learn(200, callback=lambda local, _: local["replay_buffer"].sample(2) and None)
        assert buffer.size() == 240


def test_rows_go_to_their_environments():
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 3}) as model:
        buffer = model.replay_buffer
        for i in range(2):
            buffer.add(np.arange(12).reshape(3, 4) + 100 * i, np.zeros((3, 4)), [0, 1, 0], [1, 2, 3], [False] * 3)
        np.testing.assert_array_equal(buffer.read(range(6)).observations[:, 0], [0, 100, 4, 104, 8, 108])


LIMIT = "TimeLimit.truncated"


@pytest.mark.parametrize(
    "infos, dones",
    [
        ((), [1, 1]),
        ([{LIMIT: True}, {}], [0, 1]),
        (({LIMIT: limit} for limit in (False, True)), [1, 0]),
        ({LIMIT: np.array([True, False])}, [0, 1]),
        ({LIMIT: np.array([True, True]), f"_{LIMIT}": np.array([False, True])}, [1, 0]),
        ({"speed": np.ones(2)}, [1, 1]),
    ],
)
def test_added_time_limits_are_no_terminations(infos, dones):
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2}) as model:
        obs = np.zeros((2, 4))
        model.replay_buffer.add(obs, obs, [0, 1], [1, 1], [1, 1], infos)
        np.testing.assert_array_equal(model.replay_buffer.read([0, 1]).dones[:, 0], dones)


def test_infos_of_other_environments_are_refused():
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2}) as model:
        obs = np.zeros((2, 4))
        for infos, says in [
            ([{LIMIT: True}], "infos: 1 dicts, must be 2, one for each environment, or none"),
            ([{LIMIT: True}] * 3, "infos: 3 dicts, must be 2, one for each environment, or none"),
            ({LIMIT: True}, r"infos\['TimeLimit.truncated'\]: True, must be an array of 2, one for each environment"),
            (
                {LIMIT: np.ones(3)},
                r"infos\['TimeLimit.truncated'\]: array\(\[1., 1., 1.\]\), must be an array of 2, one for each environment",
            ),
        ]:
            with pytest.raises(SpaceError, match=f"^replay_buffer.add: {says}$"):
                model.replay_buffer.add(obs, obs, [0, 1], [1, 1], [1, 1], infos)
        assert model.replay_buffer.size() == 0


def test_samples_of_images_are_uint8():
    with DQN("CnnPolicy", Image(), **{k: v for k, v in SMALL.items() if k != "policy_kwargs"}) as model:
        model.learn(100)
        batch = model.replay_buffer.sample(2)
        assert batch.observations.dtype == np.uint8 and batch.observations.shape[1:] == model.obs_layout.shape


def test_added_actions_are_values_of_the_space():
    space = (gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(3, start=-2))
    with DQN("MlpPolicy", space, **{**SMALL, "num_envs": 2}) as model:
        buffer, obs = model.replay_buffer, np.zeros((2, 4))
        buffer.add(obs, obs, [-2, 0], [0, 0], [0, 0])
        for bad in (1, -3, 2**40, -(2**32)):  # the last two have 0 in their lower 32 bits
            with pytest.raises(ConfigError, match=rf"replay_buffer.add: actions\[1\]: {bad}, must be -2 to 0"):
                buffer.add(obs, obs, [-1, bad], [0, 0], [0, 0])
        assert buffer.size() == 2
        np.testing.assert_array_equal(buffer.read([0, 1]).actions, [[-2], [0]])


@pytest.mark.filterwarnings("error")
def test_bad_transitions_are_refused():
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        buffer = model.replay_buffer
        obs = np.zeros((1, 4))
        with pytest.raises(SpaceError, match=r"replay_buffer.add: actions is float64 of shape \(1,\), must be 1 integers"):
            buffer.add(obs, obs, [0.5], [0], [0])
        with pytest.raises(SpaceError, match=r"replay_buffer.add: obs: observation of shape \(1, 3\), its space says \(1, 4\)"):
            buffer.add(np.zeros((1, 3)), obs, [0], [0], [0])
        with pytest.raises(PacelineError, match=r"replay_buffer.add: actions\[0\]: 2, must be 0 to 1"):
            buffer.add(obs, obs, [2], [0], [0])
        with pytest.raises(PacelineError, match="row 0: reward: NaN, must be finite"):
            buffer.add(obs, obs, [0], [np.nan], [0])
        with pytest.raises(PacelineError, match=r"row 0: reward: \+Inf, must be finite"):
            buffer.add(obs, obs, [0], [1e300], [0])
        with pytest.raises(ConfigError, match="must be None"):
            buffer.sample(1, env=object())
        buffer.add(obs, obs, [0], [0], [0])
        with pytest.raises(PacelineError, match=r"numbers\[1\]: 1, must be 0 to 0: there are 1 transitions"):
            buffer.read([0, 1])
        with pytest.raises(SpaceError, match=r"^replay_buffer.read: numbers is float64 of shape \(1,\), must be 1 integers"):
            buffer.read([0.5])
        for large in (2**63, 2**64 - 1):
            with pytest.raises(ConfigError, match=rf"^replay_buffer.read: numbers\[1\]: {large}, must be below {2**63}$"):
                buffer.read(np.array([0, large], np.uint64))
        assert buffer.size() == 1
        with pytest.raises(AttributeError):
            buffer.pos  # noqa: B018
    with A2C("MlpPolicy", "CartPole-v1") as model, pytest.raises(AttributeError, match="replay_buffer"):
        model.replay_buffer.sample(1)
