"""Compares paceline.envpool with EnvPool through its public interface.

RECORD has the answers of EnvPool 1.2.5 to the functions of this file. If EnvPool is installed,
`python test_envpool.py` prints its answers, and a test compares them with RECORD.
"""

import hashlib
import importlib.util
import json
import threading

import gymnasium
import numpy as np
import pytest

from paceline import PacelineError, envpool
from paceline.errors import ConfigError, HandleError, PacelineWarning

TASKS = ("Pong-v5", "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
# noop_max=1 makes the start deterministic.
GAMES = {
    "Pong": {},
    "SpaceInvaders": {"reward_clip": True, "seed": 3},
    "Seaquest": {"episodic_life": True},
    "Breakout": {
        "frame_skip": 3,
        "stack_num": 2,
        "img_height": 50,
        "img_width": 60,
        "full_action_space": True,
        "mode": 4,
        "difficulty": 1,
    },
    "Qbert": {"use_fire_reset": False, "frame_skip": 1},
}
LIVES = {
    "": {},
    "episodic_life": {"episodic_life": True},
    "max_episode_steps": {"max_episode_steps": 60},
    "both": {"episodic_life": True, "max_episode_steps": 60},
    "zero_discount": {"zero_discount_on_life_loss": True},
}


def kinds(x):
    return {k: kinds(v) for k, v in x.items()} if isinstance(x, dict) else f"{x.dtype}{list(x.shape)}"


def outside(pool, task):
    """Returns settings, spaces, and the types of the arrays that the pool returns."""
    spec = pool.make_spec(task)
    env = pool.make(task, env_type="gymnasium", num_envs=2)
    shape = env.action_space.shape
    first, after = env.reset(), env.step(np.zeros((2, *shape), np.float32 if shape else np.int32))
    assert env.observation_space == spec.observation_space
    env.close()
    config = {k: v for k, v in spec.config._asdict().items() if k not in ("base_path", "task")}
    spaces = " ".join(f"{spec.observation_space} {spec.action_space}".split())
    return [config, spaces, [kinds(x) for x in first], [kinds(x) for x in after]]


def lives(pool, keywords):
    """Plays Breakout without firing. Returns the steps at and after an end or a lost life."""
    env = pool.make("Breakout-v5", env_type="gym", noop_max=1, **keywords)
    before, rows, noted = env.reset()[1]["lives"][0], [], set()
    for k in range(160):
        _, _, terminated, truncated, info = env.step(np.zeros(1, np.int32))
        columns = terminated, truncated, info["lives"], info["terminated"], info["elapsed_step"]
        rows.append([k, *(int(column[0]) for column in columns)])
        if rows[-1][1] or rows[-1][2] or rows[-1][3] != before:
            noted |= {k, k + 1}
        before = rows[-1][3]
    env.close()
    return [row for row in rows if row[0] in noted]


def games(pool, game, keywords):
    """Returns a digest of 300 random steps: the newest image of each stack, and all columns."""
    env = pool.make(f"{game}-v5", env_type="gymnasium", num_envs=2, noop_max=1, **keywords)
    digest, rng = hashlib.sha256(), np.random.default_rng(0)
    rows = [env.reset()]
    for _ in range(300):
        rows.append(env.step(rng.integers(env.action_space.n, size=2).astype(np.int32)))
    env.close()
    for obs, *columns, info in rows:
        for column in (obs[:, -1], *columns, *(info[k] for k in ("lives", "reward", "terminated", "ram", "elapsed_step"))):
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


def answers(pool):
    return {
        "outside": {task: outside(pool, task) for task in TASKS},
        "lives": {name: lives(pool, keywords) for name, keywords in LIVES.items()},
        "games": {game: games(pool, game, keywords) for game, keywords in GAMES.items()},
    }


RECORD = json.loads(
    """
{"outside": {"Pong-v5": [{"num_envs": 1, "batch_size": 1, "num_threads": 0, "max_num_players": 1, "thread_affinity_offset":
-1, "seed": 42, "env_seed": [], "gym_reset_return_info": true, "max_episode_steps": 27000, "stack_num": 4, "frame_skip": 4,
"noop_max": 30, "zero_discount_on_life_loss": false, "episodic_life": false, "reward_clip": false, "use_fire_reset": true,
"img_height": 84, "img_width": 84, "mode": -1, "difficulty": -1, "full_action_space": false, "repeat_action_probability": 0.0,
"use_inter_area_resize": true, "gray_scale": true}, "Box(0, 255, (4, 84, 84), uint8) Discrete(6)", ["uint8[2, 4, 84, 84]",
{"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "lives": "int32[2]", "reward": "float32[2]", "terminated":
"int32[2]", "ram": "uint8[2, 128]", "elapsed_step": "int32[2]"}], ["uint8[2, 4, 84, 84]", "float32[2]", "bool[2]", "bool[2]",
{"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "lives": "int32[2]", "reward": "float32[2]", "terminated":
"int32[2]", "ram": "uint8[2, 128]", "elapsed_step": "int32[2]"}]], "CartPole-v1": [{"num_envs": 1, "batch_size": 1,
"num_threads": 0, "max_num_players": 1, "thread_affinity_offset": -1, "seed": 42, "env_seed": [], "gym_reset_return_info":
true, "max_episode_steps": 500, "reward_threshold": 475.0}, "Box([-4.8 -inf -0.41887903 -inf], [4.8 inf 0.41887903 inf], (4,),
float32) Discrete(2)", ["float32[2, 4]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "elapsed_step":
"int32[2]"}], ["float32[2, 4]", "float32[2]", "bool[2]", "bool[2]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"},
"elapsed_step": "int32[2]"}]], "Acrobot-v1": [{"num_envs": 1, "batch_size": 1, "num_threads": 0, "max_num_players": 1,
"thread_affinity_offset": -1, "seed": 42, "env_seed": [], "gym_reset_return_info": true, "max_episode_steps": 500,
"reward_threshold": -100.0}, "Box([ -1. -1. -1. -1. -12.566371 -28.274334], [ 1. 1. 1. 1. 12.566371 28.274334], (6,), float32)
Discrete(3)", ["float32[2, 6]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "state": "float32[2, 2]",
"elapsed_step": "int32[2]"}], ["float32[2, 6]", "float32[2]", "bool[2]", "bool[2]", {"env_id": "int32[2]", "players":
{"env_id": "int32[2]"}, "state": "float32[2, 2]", "elapsed_step": "int32[2]"}]], "MountainCar-v0": [{"num_envs": 1,
"batch_size": 1, "num_threads": 0, "max_num_players": 1, "thread_affinity_offset": -1, "seed": 42, "env_seed": [],
"gym_reset_return_info": true, "max_episode_steps": 200, "reward_threshold": -110.0}, "Box([-1.2 -0.07], [0.6 0.07], (2,),
float32) Discrete(3)", ["float32[2, 2]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "elapsed_step":
"int32[2]"}], ["float32[2, 2]", "float32[2]", "bool[2]", "bool[2]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"},
"elapsed_step": "int32[2]"}]], "MountainCarContinuous-v0": [{"num_envs": 1, "batch_size": 1, "num_threads": 0,
"max_num_players": 1, "thread_affinity_offset": -1, "seed": 42, "env_seed": [], "gym_reset_return_info": true,
"max_episode_steps": 999, "reward_threshold": 90.0}, "Box([-1.2 -0.07], [0.6 0.07], (2,), float32) Box(-1.0, 1.0, (1,),
float32)", ["float32[2, 2]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "elapsed_step": "int32[2]"}],
["float32[2, 2]", "float32[2]", "bool[2]", "bool[2]", {"env_id": "int32[2]", "players": {"env_id": "int32[2]"},
"elapsed_step": "int32[2]"}]], "Pendulum-v1": [{"num_envs": 1, "batch_size": 1, "num_threads": 0, "max_num_players": 1,
"thread_affinity_offset": -1, "seed": 42, "env_seed": [], "gym_reset_return_info": true, "max_episode_steps": 200, "version":
1}, "Box([-1. -1. -8.], [1. 1. 8.], (3,), float32) Box(-2.0, 2.0, (1,), float32)", ["float32[2, 3]", {"env_id": "int32[2]",
"players": {"env_id": "int32[2]"}, "elapsed_step": "int32[2]"}], ["float32[2, 3]", "float32[2]", "bool[2]", "bool[2]",
{"env_id": "int32[2]", "players": {"env_id": "int32[2]"}, "elapsed_step": "int32[2]"}]]},
"lives": {"": [[23, 0, 0, 4, 0, 24], [24, 0, 0, 4, 0, 25]], "episodic_life": [[23, 1, 0, 4, 0,
24], [24, 0, 0, 4, 0, 24], [48, 1, 0, 3, 0, 48], [49, 0, 0, 3, 0, 48], [73, 1, 0, 2, 0, 72], [74, 0, 0, 2, 0, 72], [98, 1, 0,
1, 0, 96], [99, 0, 0, 1, 0, 96], [123, 1, 0, 0, 1, 120], [124, 0, 0, 5, 0, 0], [125, 0, 0, 5, 0, 1], [148, 1, 0, 4, 0, 24],
[149, 0, 0, 4, 0, 24]], "max_episode_steps": [[23, 0, 0, 4, 0, 24], [24, 0, 0, 4, 0, 25], [59, 0, 1, 4, 0, 60], [60, 0, 0, 5,
0, 0], [61, 0, 0, 5, 0, 1], [84, 0, 0, 4, 0, 24], [85, 0, 0, 4, 0, 25], [120, 0, 1, 4, 0, 60], [121, 0, 0, 5, 0, 0], [122, 0,
0, 5, 0, 1], [145, 0, 0, 4, 0, 24], [146, 0, 0, 4, 0, 25]], "both": [[23, 1, 0, 4, 0, 24], [24, 0, 0, 4, 0, 24], [48, 1, 0, 3,
0, 48], [49, 0, 0, 3, 0, 48], [61, 0, 1, 3, 0, 60], [62, 0, 0, 5, 0, 0], [63, 0, 0, 5, 0, 1], [86, 1, 0, 4, 0, 24], [87, 0, 0,
4, 0, 24], [111, 1, 0, 3, 0, 48], [112, 0, 0, 3, 0, 48], [124, 0, 1, 3, 0, 60], [125, 0, 0, 5, 0, 0], [126, 0, 0, 5, 0, 1],
[149, 1, 0, 4, 0, 24], [150, 0, 0, 4, 0, 24]], "zero_discount": [[23, 0, 0, 4, 0, 24], [24, 0, 0, 4, 0, 25]]}, "games":
{"Pong": "16403c7b4a1958bf", "SpaceInvaders": "a13fee9110178c39", "Seaquest": "0858ffb23f349a9b", "Breakout":
"8e61d5ab5c157ee2", "Qbert": "b88bc5461d1330e0"}}
""".replace("\n", " ")
)


def with_rom(test, *arguments):
    try:
        return test(*arguments)
    except PacelineError as err:
        if "ROM" in str(err):
            pytest.skip(f"no ROM: {err}")
        raise


@pytest.mark.parametrize("task", TASKS)
def test_settings_spaces_and_types_equal_envpool(task):
    assert with_rom(outside, envpool, task) == RECORD["outside"][task]
    assert task in envpool.list_all_envs()


@pytest.mark.parametrize("name", LIVES)
def test_lives_and_steps_equal_envpool(name):
    assert with_rom(lives, envpool, LIVES[name]) == RECORD["lives"][name]


@pytest.mark.parametrize("game", GAMES)
def test_games_equal_envpool(game):
    assert with_rom(games, envpool, game, GAMES[game]) == RECORD["games"][game]


def test_the_record_equals_installed_envpool():
    if importlib.util.find_spec("envpool") is None:
        pytest.skip("EnvPool is not installed")
    import envpool as theirs

    assert json.loads(json.dumps(answers(theirs))) == RECORD
    assert set(envpool.list_all_envs()) <= set(theirs.list_all_envs())


def test_images_have_the_shapes_of_envpool():
    """Images have the shapes of EnvPool."""
    for keywords, shape, n in (
        ({"gray_scale": False}, (12, 84, 84), 6),
        ({"gray_scale": False, "stack_num": 2, "img_width": 40}, (6, 84, 40), 6),
        ({"stack_num": 1, "full_action_space": True}, (1, 84, 84), 18),
    ):
        env = with_rom(lambda keywords=keywords: envpool.make_gymnasium("Pong-v5", num_envs=2, **keywords))
        assert env.observation_space == gymnasium.spaces.Box(0, 255, shape, np.uint8) and env.action_space.n == n
        before = env.reset()[0]
        obs = env.step(np.array([2, 3]))[0]
        assert before.shape == obs.shape == (2, *shape)
        # channels are ordered by frame; the oldest frame's red, green and blue come first
        if keywords.get("gray_scale") is False:
            assert (before[:, 3:] == obs[:, :-3]).all() and (obs[0, -3:, 50, 5] == [144, 72, 17]).all()
        env.close()


def test_actions_of_one_number_may_lack_their_axis():
    rows = []
    for actions in (np.array([[0.5], [-1.5]], np.float32), np.array([0.5, -1.5])):
        pool = envpool.make("Pendulum-v1", "gym", num_envs=2, seed=1)
        pool.reset()
        pool.send(actions)
        rows.append([*pool.recv()[:2], *pool.step(actions)[:2]])
        assert pool.is_vector_env
        for refused in (np.zeros((2, 2)), np.zeros(3), [np.nan, 0.0], [9.0, 0.0]):
            with pytest.raises(ConfigError, match="action"):
                pool.step(refused)
        pool.close()
    for a, b in zip(*rows):
        np.testing.assert_array_equal(a, b)


def test_a_cleanrl_script_runs():
    """The calls of CleanRL's PPO for EnvPool work, including its wrapper."""
    envs = envpool.make("CartPole-v1", env_type="gym", num_envs=4, seed=1)
    envs.num_envs = 4
    envs.single_action_space, envs.single_observation_space = envs.action_space, envs.observation_space

    class Record(gymnasium.Wrapper):
        def reset(self, **kwargs):
            self.returns = np.zeros(self.env.num_envs, np.float32)
            return super().reset(**kwargs)

        def step(self, action):
            obs, rewards, terminated, truncated, infos = super().step(action)
            self.returns += rewards
            infos["r"] = self.returns.copy()
            self.returns[terminated | truncated] = 0
            return obs, rewards, terminated, truncated, infos

    wrapped = Record(envs)
    obs, _ = wrapped.reset()
    buffer, returns, after = np.zeros((64, 4) + envs.single_observation_space.shape, np.float32), [], np.zeros(4, bool)
    for t in range(64):
        buffer[t] = obs
        actions = np.array([envs.single_action_space.sample() for _ in range(4)])
        obs, rewards, terminated, truncated, infos = wrapped.step(actions)
        # The action after an end is not used: that step starts an episode.
        assert (rewards == np.where(after, 0, 1)).all() and (infos["elapsed_step"][after] == 0).all()
        after = terminated | truncated
        returns += infos["r"][after].tolist()
        np.testing.assert_array_equal(infos["r"], infos["elapsed_step"])
    assert len(returns) >= 4 and np.abs(buffer).max() < 5
    wrapped.close()
    with pytest.raises(HandleError):
        envs.step(np.zeros(4, int))


@pytest.mark.parametrize("task", ["CartPole-v1", "Pong-v5"])
def test_batches_give_the_steps_of_a_synchronous_pool(task):
    """8 environments in batches of 3 give the steps of a pool that waits for all of them."""
    limit = {"max_episode_steps": 7, "seed": [3, 1, 4, 1, 5, 9, 2, 6]}
    with with_rom(lambda: envpool.make(task, "gymnasium", num_envs=8, batch_size=3, **limit)) as pool:
        assert pool.is_async and len(pool) == 8 and pool.all_env_ids.tolist() == list(range(8))
        steps = np.zeros(8, int)
        histories = [[] for _ in range(8)]
        pool.async_reset()
        while steps.min() < 20:
            obs, rewards, terminated, truncated, info = pool.recv()
            ids = info["env_id"]
            assert len(set(ids)) == 3 and (info["players"]["env_id"] == ids).all()
            for k, i in enumerate(ids):
                histories[i].append((obs[k].tobytes(), rewards[k], terminated[k], truncated[k], info["elapsed_step"][k]))
            pool.send((steps[ids] + ids) % pool.action_space.n, ids)
            steps[ids] += 1
    together = envpool.make(task, "gymnasium", num_envs=8, **limit)
    obs, info = together.reset()
    rows = obs, np.zeros(8, np.float32), np.zeros(8, bool), np.zeros(8, bool), info
    ends = 0
    for t in range(20):
        obs, rewards, terminated, truncated, info = rows
        for i in range(8):
            assert histories[i][t] == (obs[i].tobytes(), rewards[i], terminated[i], truncated[i], info["elapsed_step"][i])
        ends += truncated.sum()
        rows = together.step((t + np.arange(8)) % together.action_space.n)
    assert ends >= 8
    together.close()


def test_two_threads_send_and_receive():
    pool = envpool.make("CartPole-v1", "gym", num_envs=8, batch_size=2)
    pool.async_reset()
    under_way, come_back, seen = threading.Semaphore(4), threading.Semaphore(0), []

    def receive():
        while under_way.acquire() and not over.is_set():
            seen.append(pool.recv()[4]["env_id"])
            come_back.release()

    over, thread = threading.Event(), threading.Thread(target=receive, daemon=True)
    thread.start()
    k, counts = 0, np.zeros(8, int)
    while k < 300 or counts.min() < 2:  # the order of environments depends on thread scheduling
        assert come_back.acquire(timeout=300)
        counts += np.bincount(seen[k], minlength=8)
        pool.send(np.zeros(2, int), seen[k])
        under_way.release()
        k += 1
    over.set()
    under_way.release()
    thread.join()
    assert counts.sum() == 2 * k
    pool.close()


def test_env_id_selects_environments():
    pool = envpool.make("CartPole-v1", "gym", num_envs=4)
    first, _ = pool.reset()
    other, _ = envpool.make("CartPole-v1", "gym", num_envs=4, seed=[42, 43, 44, 45]).reset()
    np.testing.assert_array_equal(first, other)
    # Rows have the order of env_id.
    obs, _, _, _, info = pool.step(np.array([1, 0, 1, 0]), np.array([2, 0, 3, 1]))
    assert info["env_id"].tolist() == [2, 0, 3, 1]
    twin = envpool.make("CartPole-v1", "gym", num_envs=4)
    twin.reset()
    in_order = twin.step({"action": np.array([0, 0, 1, 1]), "env_id": pool.all_env_ids})[0]
    np.testing.assert_array_equal(in_order[[2, 0, 3, 1]], obs)
    begun, info = pool.reset(np.array([3, 1]))
    assert begun.shape == (2, 4) and info["env_id"].tolist() == [3, 1] and info["elapsed_step"].tolist() == [0, 0]
    assert pool.reset(options={"reset_mask": np.array([False, False, True, False])})[1]["env_id"].tolist() == [2]
    assert pool.step(np.zeros(4, int))[4]["elapsed_step"].tolist() == [2, 1, 1, 1]
    with pytest.raises(ConfigError, match="env_id: 2 environments, must be all 4 without a batch_size"):
        pool.step(np.zeros(2, int), np.array([0, 1]))
    pool.send(np.zeros(2, int), np.array([3, 2]))
    pool.send(np.zeros(2, int), np.array([0, 1]))
    assert pool.recv()[4]["env_id"].tolist() == [3, 2, 0, 1]
    # In an async pool reset returns the first batch.
    batches = envpool.make("CartPole-v1", "gym", num_envs=4, batch_size=2)
    ids = [batches.reset()[1]["env_id"], batches.recv(reset=True, return_info=False)[1]["env_id"]]
    assert sorted(np.concatenate(ids)) == [0, 1, 2, 3]
    batches.send(np.zeros(2, int))  # to the environments of the last recv
    assert set(batches.recv()[4]["env_id"]) == set(ids[1])
    batches.reset(np.array([1, 2]))
    batches.reset()


@pytest.mark.parametrize("how", ["env_id", "mask"])
def test_a_reset_of_some_keeps_the_steps_under_way(how):
    pool = envpool.make("CartPole-v1", "gym", num_envs=2)
    pool.reset()
    pool.send(np.zeros(2, int))
    some = {"env_id": np.array([0])} if how == "env_id" else {"options": {"reset_mask": np.array([True, False])}}
    with pytest.raises(ConfigError, match="env_id: 1 of 2 environments while steps are under way, must be all environments"):
        pool.reset(**some)
    assert pool.recv()[4]["elapsed_step"].tolist() == [1, 1]
    pool.reset(**some)
    assert pool.step(np.zeros(2, int))[4]["elapsed_step"].tolist() == [1, 2]
    pool.send(np.zeros(2, int))
    assert pool.reset(env_id=np.array([1, 0]))[1]["env_id"].tolist() == [1, 0]


def test_a_step_of_too_few_environments_changes_nothing():
    pool = envpool.make("CartPole-v1", "gym", num_envs=4, batch_size=2)
    ids = pool.reset()[1]["env_id"]
    pool.recv()  # none is under way now
    with pytest.raises(ConfigError, match="env_id: 1 environments would be under way, must be at least batch_size, 2"):
        pool.step(np.zeros(1, int), ids[:1])
    pool.send(np.zeros(1, int), ids[:1])
    *_, info = pool.step(np.zeros(1, int), ids[1:])
    assert sorted(info["env_id"]) == sorted(ids) and info["elapsed_step"].tolist() == [1, 1]


def test_step_before_reset_starts_episodes():
    pool = envpool.make("CartPole-v1", "gym", num_envs=2)
    obs, rewards, _, _, info = pool.step(np.ones(2, int))
    assert not rewards.any() and not info["elapsed_step"].any()
    np.testing.assert_array_equal(obs, envpool.make("CartPole-v1", "gym", num_envs=2).reset()[0])


def test_termination_at_the_limit_is_no_truncation():
    """An episode that terminates at the step limit is terminated, not truncated."""
    pool = envpool.make("CartPole-v1", "gym", num_envs=1)
    pool.reset()
    steps = next(k for k in range(1, 100) if pool.step(np.zeros(1, int))[2][0])
    for limit, ends in ((steps, (True, False)), (steps - 1, (False, True))):
        pool = envpool.make("CartPole-v1", "gym", num_envs=1, max_episode_steps=limit)
        pool.reset()
        for _ in range(limit):
            _, _, terminated, truncated, _ = pool.step(np.zeros(1, int))
        assert (terminated[0], truncated[0]) == ends


def test_a_game_begins_after_a_life_lost_in_the_last_allowed_step():
    """EnvPool 1.2.5 has the same rows, with the first of each pair truncated instead of terminated."""
    rows = with_rom(lives, envpool, {"episodic_life": True, "max_episode_steps": 24})
    assert rows[:4] == [[23, 1, 0, 4, 0, 24], [24, 0, 0, 5, 0, 0], [25, 0, 0, 5, 0, 1], [48, 1, 0, 4, 0, 24]]


def until_a_life_is_lost(pool):
    """Plays until both environments have lost a life at the same step, and returns the lives."""
    for _ in range(400):
        *_, terminated, _, info = pool.step(np.ones(2, np.int32))
        if terminated.all():
            return info["lives"].tolist()


@pytest.mark.parametrize("how", ["reset", "reset of one", "reset by mask", "async_reset"])
def test_reset_after_a_lost_life_starts_a_game(how):
    """EnvPool 1.2.5 does the same. The next row is the first step of the new game."""
    pool = with_rom(lambda: envpool.make("Breakout-v5", "gymnasium", num_envs=2, episodic_life=True, noop_max=1))
    pool.reset()
    assert until_a_life_is_lost(pool) == [4, 4]
    begin = {
        "reset": pool.reset,
        "reset of one": lambda: pool.reset(np.array([1])),
        "reset by mask": lambda: pool.reset(options={"reset_mask": np.array([False, True])}),
        "async_reset": lambda: (pool.async_reset(), pool.recv(reset=True))[1],
    }[how]
    _, info = begin()
    assert info["lives"].tolist() == [5] * len(info["env_id"]) and not info["elapsed_step"].any()
    *_, info = pool.step(np.zeros(2, np.int32))
    both = how in ("reset", "async_reset")
    assert info["lives"].tolist() == [5 if both else 4, 5] and info["elapsed_step"].tolist()[1] == 1


def test_state_of_acrobot_has_its_angles():
    pool = envpool.make("Acrobot-v1", "gym", num_envs=2)
    pool.reset()
    for _ in range(30):
        obs, *_, info = pool.step(np.array([0, 2]))
    angles = info["state"]
    np.testing.assert_allclose(obs[:, :4], np.stack([f(angles[:, k]) for k in (0, 1) for f in (np.cos, np.sin)], 1), atol=1e-6)


def test_render_returns_the_images_of_env_ids():
    pool = envpool.make("CartPole-v1", "gym", num_envs=3, render_mode="rgb_array", render_env_id=2)
    pool.reset()
    every = pool.render([0, 1, 2])
    assert every.shape == (3, 400, 600, 3) and every.dtype == np.uint8
    assert (pool.render() == every[2:]).all() and (pool.render(1) == every[1:2]).all()
    with pytest.raises(ConfigError, match="render_mode: None"):
        envpool.make("CartPole-v1", "gym").render()


def test_seeds_are_given_to_make_only():
    pool = envpool.make("CartPole-v1", "gym", num_envs=2, seed=7)
    assert pool.config["seed"] == pool.spec.config.seed == 7
    with pytest.warns(PacelineWarning, match="seed: ignored"):
        first, _ = pool.reset(seed=1)
    with pytest.warns(PacelineWarning, match="seed: ignored"):
        pool.seed(7)
    assert (pool.reset()[0] != first).any()
    np.testing.assert_array_equal(first, envpool.make("CartPole-v1", "gym", num_envs=2, seed=[7, 8]).reset()[0])


def test_spec_equals_the_config_of_the_pool():
    spec = envpool.make_spec("CartPole-v1", num_envs=4, seed=[7, 8, 9, 10])
    assert (spec.config.num_envs, spec.config.batch_size, spec.config.seed, spec.config.env_seed) == (4, 4, 0, [7, 8, 9, 10])
    assert spec.reward_threshold == 475.0 and spec.gymnasium_action_space == spec.action_space
    pool = envpool.make("CartPole-v1", "gym", num_envs=4, seed=[7, 8, 9, 10])
    assert pool.config == spec.config._asdict() and pool.spec.config == spec.config
    assert repr(pool).startswith("EnvPool(CartPole-v1, num_envs=4, batch_size=4, ") and str(pool) == repr(pool)
    assert pool.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP
    assert isinstance(pool, gymnasium.vector.VectorEnv) and isinstance(pool, gymnasium.Env)


if __name__ == "__main__":
    import envpool as installed

    print(json.dumps(answers(installed)))
