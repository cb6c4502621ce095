"""Keywords and calls that paceline.envpool refuses."""

import numpy as np
import pytest

from paceline import envpool
from paceline.errors import ConfigError


@pytest.mark.parametrize(
    ("task", "keywords", "text"),
    [
        ("Nope-v5", {}, "task_id: 'Nope-v5', must be one of list_all_envs()"),
        ("Pong", {}, "task_id: 'Pong', must be one of"),
        (5, {}, "task_id: 5, must be one of list_all_envs()"),
        (["Pong-v5"], {}, "task_id: ['Pong-v5'], must be one of list_all_envs()"),
        ("CartPole-v1", {"num_envs": 0}, "num_envs: 0, must be 1 to 65536"),
        ("CartPole-v1", {"batch_size": 2}, "batch_size: 2, must be 0 to 1"),
        ("Pendulum-v1", {"version": 0}, "version: 0, must be 1 to 1"),
        ("CartPole-v1", {"frame_skip": 4}, "frame_skip: no keyword of CartPole-v1, must be one of "),
        ("CartPole-v1", {"max_episode_steps": 501}, "max_episode_steps: 501, must be 1 to 500"),
        ("CartPole-v1", {"max_num_players": 2}, "max_num_players: 2, must be 1 to 1"),
        ("CartPole-v1", {"seed": [1, 2]}, "seed: 2 numbers, must be 1"),
        ("CartPole-v1", {"seed": -1}, "seed: -1, must be 0 to"),
        ("CartPole-v1", {"seed": None}, "seed: None, must be 0 to"),
        ("CartPole-v1", {"seed": 2**64 - 1, "num_envs": 2}, "seed: 18446744073709551615, must be 0 to 18446744073709551614"),
        ("CartPole-v1", {"gym_reset_return_info": False}, "gym_reset_return_info: must be True"),
        ("CartPole-v1", {"render_mode": "human"}, "render_mode: 'human', must be None or 'rgb_array'"),
        ("Pong-v5", {"use_inter_area_resize": False}, "use_inter_area_resize: False, must be True"),
        ("Pong-v5", {"noop_max": -1}, "noop_max: -1, must be 0 to"),
    ],
)
def test_bad_keywords_are_refused(task, keywords, text):
    with pytest.raises(ConfigError) as refused:
        envpool.make(task, env_type="gym", **keywords)
    assert text in str(refused.value) and "\n" not in str(refused.value)


def test_bad_calls_are_refused_and_change_nothing():
    for make in (envpool.make_dm, lambda task: envpool.make(task, env_type="dm")):
        with pytest.raises(ConfigError, match="env_type: 'dm', must be 'gymnasium' or 'gym'"):
            make("CartPole-v1")
    pool = envpool.make("CartPole-v1", "gym", num_envs=3)
    pool.reset()
    for call, text in (
        (lambda: pool.xla(), "xla: not supported"),
        (lambda: pool.step(np.zeros(2, int)), "actions: int64 of shape (2,), must be whole numbers of shape (3,)"),
        (lambda: pool.send(np.zeros(2, int), [0, 1, 2]), "action: int64 of shape (2,), must be 3"),
        (lambda: pool.send(np.zeros(3, int), [0, 1, 3]), "env_id: [0, 1, 3], must be a row of numbers from 0 to 2"),
        (lambda: pool.send(np.zeros(3, int), [0, 1, -1]), "must be a row of numbers from 0 to 2"),
        (lambda: pool.send(np.zeros(3, int), [0, 1, 1]), "env_id: [0, 1, 1], must be different numbers"),
        (lambda: pool.step(np.zeros(3, int), 3), "env_id: 3, must be a row of numbers from 0 to 2"),
        (lambda: pool.step({"env_id": pool.all_env_ids}), "action: a dict with 'env_id', must have 'action'"),
        (lambda: pool.send({}), "action: a dict with no entry, must have 'action'"),
        (lambda: pool.step(np.full(3, 2)), "environment 0: action: 2, must be 0 to 1"),
        (lambda: pool.reset(options={"speed": 1}), "options: 'speed' is not known"),
        (lambda: pool.recv(), "recv"),
    ):
        with pytest.raises(ConfigError) as refused:
            call()
        assert text in str(refused.value)
    assert pool.step(np.zeros(3, int))[4]["elapsed_step"].tolist() == [1, 1, 1]
    pool.close()
    pool.close()


def test_a_refused_send_starts_nothing():
    zeros = np.zeros(4, int)
    pool = envpool.make("CartPole-v1", "gym", num_envs=4)
    pool.send(zeros[:2], np.array([0, 1]))
    with pytest.raises(ConfigError, match="env_id: 0, is under way already"):
        pool.send(zeros, np.arange(4))
    pool.send(zeros[:2], np.array([2, 3]))
    obs, *_, info = pool.recv()
    assert info["env_id"].tolist() == [0, 1, 2, 3] and not info["elapsed_step"].any()
    np.testing.assert_array_equal(obs, envpool.make("CartPole-v1", "gym", num_envs=4).reset()[0])  # each has its seed

    pool = envpool.make("CartPole-v1", "gym", num_envs=4, batch_size=2)
    ids = pool.reset()[1]["env_id"]
    others = np.setdiff1d(pool.all_env_ids, ids)
    for refused in (lambda: pool.send(zeros[:2], np.array([ids[0], others[0]])), lambda: pool.reset(np.array([ids[0], others[0]]))):
        with pytest.raises(ConfigError, match=f"env_id: {others[0]}, is under way already"):
            refused()
    pool.recv()
    pool.send(zeros[:2], ids)
    assert pool.recv()[4]["elapsed_step"].tolist() == [1, 1]
