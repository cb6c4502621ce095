"""make_vec equals Gymnasium's SyncVectorEnv of single environments."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import paceline
from envs import MODES, SMALL
from paceline import DQN, PacelineError, make_vec
from paceline.errors import ConfigError, HandleError

# CartPole falls after about 20 steps, MountainCar is truncated after 200, and a Pong that is never
# played is lost after 760.
RUNS = {"CartPole-v1": 120, "MountainCar-v0": 210, "Catch-v0": 40, "Pong": 790}
IDS = pytest.mark.parametrize("id", RUNS)


def make(id, *arguments, **keywords):
    """Calls make_vec. Skips the test if the game's ROM is missing."""
    try:
        return make_vec(id, *arguments, **keywords)
    except PacelineError as err:
        if id == "Pong" and "ROM" in str(err):
            pytest.skip(f"no ROM: {err}")
        raise


def actions(env, steps):
    """Returns random actions; in Pong, NOOP, so that the game is lost soon."""
    n = env.single_action_space.n
    if n == 6:
        return np.zeros((steps, env.num_envs), np.int64)
    return np.random.default_rng(3).integers(n, size=(steps, env.num_envs))


def same(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, tuple) or (isinstance(ours, np.ndarray) and ours.dtype == object):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b)
    elif isinstance(ours, np.ndarray) and ours.dtype == np.int32:  # Gymnasium's dtype differs
        np.testing.assert_array_equal(ours, theirs)
    else:
        np.testing.assert_array_equal(ours, theirs, strict=True)


@IDS
@pytest.mark.parametrize("mode", MODES)
def test_every_step_equals_sync_vector_env(id, mode):
    ours = make(id, 3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: paceline.single.make(id)] * 3, autoreset_mode=mode)
    assert isinstance(ours, gymnasium.vector.VectorEnv)
    assert ours.metadata["autoreset_mode"] is mode
    for name in ("num_envs", "observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, name) == getattr(theirs, name), name
    same(ours.reset(seed=5), theirs.reset(seed=5))
    ends = 0
    for action in actions(ours, RUNS[id]):
        results = ours.step(action)
        same(results, theirs.step(action))
        ended = results[2] | results[3]
        ends += int(ended.sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            same(ours.reset(options=options), theirs.reset(options=dict(options)))
            assert options == {"reset_mask": ended}
    assert ends >= 3
    assert ours.observation_space.contains(results[0])
    ours.close()
    theirs.close()


def run(id, num_envs, num_threads, steps):
    """Returns all results of a run as bytes."""
    env = make(id, num_envs, num_threads=num_threads, autoreset_mode="same_step")
    results = [env.reset(seed=9)[0].tobytes()]
    results += [b"".join(part.tobytes() for part in env.step(action)[:4]) for action in actions(env, steps)]
    env.close()
    return results


@IDS
def test_num_threads_changes_no_result(id):
    one = run(id, 5, 1, 60)
    assert all(run(id, 5, threads, 60) == one for threads in (0, 2, 5, 16))


@IDS
def test_results_are_never_overwritten(id):
    env = make(id, 2, autoreset_mode="same_step")
    kept, last = [(env.reset(seed=1)[0],)], []
    for action in actions(env, RUNS[id])[:300]:
        *result, infos = env.step(action)
        kept.append(result)
        if "final_obs" in infos:
            last += [obs for obs in infos["final_obs"] if obs is not None]
            assert infos["_final_obs"] is not infos["_final_info"]
    parts = [part for result in kept for part in result] + last
    assert all(part.flags.writeable for part in parts)
    copies = [part.copy() for part in parts]
    for action in actions(env, RUNS[id]):
        env.step(action)
    env.close()
    for part, copy in zip(parts, copies):
        np.testing.assert_array_equal(part, copy)
    assert last or id == "Pong"


def test_seeds_determine_the_first_observations():
    env = make_vec("CartPole-v1", 3)
    by_int = env.reset(seed=7)[0]
    assert env.np_random_seed == (7, 8, 9)
    assert len(np.unique(by_int[:, 0])) == 3
    for seed in ([7, 8, 9], (7, 8, 9), np.array([7, 8, 9])):
        np.testing.assert_array_equal(env.reset(seed=seed)[0], by_int)
    np.testing.assert_array_equal(env.reset(seed=np.int64(7))[0], by_int)
    later = env.reset()[0]
    assert (later != by_int).any(axis=1).all(), "without a seed the random streams continue"
    env.reset(seed=7)
    np.testing.assert_array_equal(env.reset()[0], later)
    # The seeds are independent: environment 1 continues, the others restart.
    env.reset(seed=7)
    mixed = env.reset(seed=[7, None, 9])[0]
    np.testing.assert_array_equal(mixed, [by_int[0], later[1], by_int[2]])
    env.reset(seed=2**64 - 3)
    assert env.np_random_seed == (2**64 - 3, 2**64 - 2, 2**64 - 1)
    env.close()


def test_without_a_seed_the_start_is_random():
    first, second = make_vec("CartPole-v1", 4), make_vec("CartPole-v1", 4)
    obs = first.reset(options={"reset_mask": np.array([True, False, True, False])})[0]
    assert obs[0].any() and not obs[1].any()
    obs = first.reset()[0]
    assert (obs != second.reset()[0]).any(axis=1).all()
    # np_random_seed has the drawn seeds, which give the same result again.
    fresh = make_vec("CartPole-v1", 4)
    obs = fresh.reset()[0]
    np.testing.assert_array_equal(second.reset(seed=fresh.np_random_seed)[0], obs)
    # Some seeds are given, the others are drawn.
    mixed = make_vec("CartPole-v1", 4).reset(seed=[1, None, None, 4])[0]
    known = second.reset(seed=[1, 0, 0, 4])[0]
    assert ((mixed == known).all(axis=1) == [True, False, False, True]).all()
    # A seed of a row outside the mask is ignored.
    rows = []
    for e in (make_vec("CartPole-v1", 2), make_vec("CartPole-v1", 2)):
        e.reset(seed=[1, 2], options={"reset_mask": np.array([True, False])})
        rows.append(e.reset(options={"reset_mask": np.array([False, True])})[0])
    assert ((rows[0] == rows[1]).all(axis=1) == [True, False]).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_resets_its_rows_only(mode):
    env, beside = make_vec("CartPole-v1", 3, autoreset_mode=mode), make_vec("CartPole-v1", 3, autoreset_mode=mode)
    mask = np.array([False, True, False])
    for e in (env, beside):
        e.reset(seed=2)
        for _ in range(5):
            before = e.step([1, 1, 0])[0]
    after, infos = env.reset(seed=[3, 4, 5], options={"reset_mask": mask})
    assert infos == {}
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    np.testing.assert_array_equal(after[1], make_vec("CartPole-v1", 3).reset(seed=3)[0][1])
    np.testing.assert_array_equal(env.step([0, 0, 0])[0][[0, 2]], beside.step([0, 0, 0])[0][[0, 2]])


def test_a_mask_ends_a_pending_reset():
    """As in Gymnasium's NEXT_STEP, a row reset by mask uses its next action."""
    env = make_vec("CartPole-v1", 2)
    env.reset(seed=1)
    ended = np.zeros(2, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = env.step([1, 1])
        ended = terminated | truncated
    env.reset(options={"reset_mask": np.array([True, True])})
    assert env.step([0, 0])[1].tolist() == [1, 1]


def test_disabled_refuses_a_step_after_an_end():
    env = make_vec("CartPole-v1", 1, autoreset_mode="disabled")
    env.reset(seed=1)
    while not env.step([1])[2]:
        pass
    with pytest.raises(ConfigError, match="environment 0: step after the episode ended, must be reset first"):
        env.step([1])
    env.reset()
    env.step([1])


@pytest.mark.parametrize("name", ["next_step", "NextStep", AutoresetMode.NEXT_STEP])
def test_modes_have_names(name):
    assert make_vec("CartPole-v1", autoreset_mode=name).metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize(
    "arguments, keywords, text",
    [
        (("Cartpole",), {}, "did you mean CartPole-v1"),
        (("Pongg",), {}, "did you mean atari/pong"),
        ((None,), {}, "id: None, must be the name"),
        (("CartPole-v1", 0), {}, "num_envs: 0, must be 1 to 65536"),
        (("CartPole-v1", -1), {}, "num_envs: -1, must be"),
        (("CartPole-v1", 2**32 + 1), {}, "num_envs: 4294967297, must be"),
        (("CartPole-v1", 2.5), {}, "num_envs: 2.5, must be"),
        (("CartPole-v1",), {"num_threads": -1}, "num_threads: -1, must be 0 to 1024"),
        (("CartPole-v1",), {"num_threads": 1025}, "num_threads: 1025, must be"),
        (("CartPole-v1",), {"autoreset_mode": "never"}, "autoreset_mode: 'never', must be 'next_step', 'same_step', 'disabled'"),
        (("CartPole-v1",), {"autoreset_mode": None}, "autoreset_mode: None, must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, keywords, text):
    with pytest.raises(ConfigError, match=text):
        make_vec(*arguments, **keywords)


@pytest.mark.parametrize("id", ["Blackjack-v1", "FrozenLake-v1", lambda: gymnasium.make("CartPole-v1"), None])
def test_a_single_environment_is_built_in(id):
    with pytest.raises(ConfigError, match=f"^id: {re.escape(repr(id))}, must be a built-in environment; use gymnasium.make or make_vec"):
        paceline.make(id)


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"seed": -1}, "seed: -1, must be 0 to 18446744073709551613"),
        ({"seed": 2**64 - 2}, "seed: 18446744073709551614, must be 0 to 18446744073709551613"),
        ({"seed": 2**64}, "seed: 18446744073709551616, must be"),
        ({"seed": 1.5}, "seed: 1.5, must be"),
        ({"seed": "one"}, "seed: 'one', must be"),
        ({"seed": [1, 2]}, "seed: 2 numbers, must be 3"),
        ({"seed": [1, 2, -3]}, "seed: -3, must be"),
        ({"options": {"low": 0}}, "options: 'low' is not known, must be 'reset_mask'"),
        ({"options": {1: 2, "low": 0}}, "options: 1 is not known, must be 'reset_mask'"),
        ({"options": [1]}, "options: list, must be a dict"),
        ({"options": {"reset_mask": [True, False, True]}}, "reset_mask'.: list, must be a NumPy array"),
        ({"options": {"reset_mask": np.array([True])}}, r"bool of shape \(1,\), must be a NumPy array, bool of shape \(3,\)"),
        ({"options": {"reset_mask": np.array([1, 0, 1])}}, "int64 of shape"),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, "no entry is true"),
    ],
)
def test_bad_resets_are_refused(keywords, text):
    env = make_vec("CartPole-v1", 3)
    before = env.reset(seed=1)[0]
    with pytest.raises(ConfigError, match=text):
        env.reset(**keywords)
    np.testing.assert_array_equal(env.step([0, 0, 0])[0], np.stack(stepped(before)))


def stepped(obs):
    """Returns the rows after reset(seed=1) and one step."""
    env = make_vec("CartPole-v1", 3)
    np.testing.assert_array_equal(env.reset(seed=1)[0], obs)
    return list(env.step([0, 0, 0])[0])


@pytest.mark.parametrize(
    "action, text",
    [
        ([0, 0, 2], "environment 2: action: 2, must be 0 to 1"),
        ([0, -1, 0], "environment 1: action: -1, must be"),
        ([0, 0, 2**32], "environment 2: action: 4294967296, must be 0 to 1"),
        (np.array([0, 0, 2**64 - 1], np.uint64), "environment 2: action: 18446744073709551615, must be"),
        ([0, 0], r"actions: int64 of shape \(2,\), must be whole numbers of shape \(3,\)"),
        (0, "actions: int64 of shape"),
        ([[0, 0, 0]], "actions: int64 of shape"),
        ([0.0, 0.0, 1.0], "actions: float64 of shape"),
        (None, "actions: object of shape"),
    ],
)
def test_bad_actions_change_nothing(action, text):
    env = make_vec("CartPole-v1", 3)
    obs = env.reset(seed=1)[0]
    with pytest.raises(ConfigError, match=text):
        env.step(action)
    np.testing.assert_array_equal(env.step(np.zeros(3, np.uint8))[0], np.stack(stepped(obs)))


def test_the_action_of_a_step_that_only_resets_is_ignored():
    env = make_vec("Mini-Freeway-v0", 2, max_episode_steps=1)
    env.reset(seed=1)
    assert env.step([0, 0])[3].all()
    obs, rewards, *_ = env.step([77, -5])
    assert not rewards.any()
    with pytest.raises(ConfigError, match="environment 0: action: 77, must be 0 to 5"):
        env.step([77, -5])


def test_a_call_that_a_close_overtakes_is_refused_as_closed():
    env = make_vec("CartPole-v1", 2)
    env.reset(seed=1)
    env.close_extras()  # closed is set later, so the calls find it false, as during another thread's close
    for call in (env.reset, lambda: env.step([0, 0]), env.async_reset, lambda: env.send([0, 0]), env.recv, env.clone_state):
        with pytest.raises(HandleError, match="^environments: closed$"):
            call()


def test_step_before_reset_or_after_close_is_refused():
    env = make_vec("CartPole-v1", 2)
    with pytest.raises(ConfigError, match="environment 0: step before reset"):
        env.step([0, 0])
    assert repr(env) == "VecEnv(CartPole-v1, num_envs=2)"
    env.close()
    env.close()
    assert env.closed and repr(env) == "VecEnv(CartPole-v1, num_envs=2, closed)"
    for call in (env.reset, lambda: env.step([0, 0])):
        with pytest.raises(HandleError, match="environments: closed"):
            call()
    make_vec("CartPole-v1").close()  # close before the first reset


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_gymnasium_wrappers_count_episodes(mode):
    wrappers = gymnasium.wrappers.vector
    env = wrappers.RecordEpisodeStatistics(wrappers.NormalizeReward(make_vec("CartPole-v1", 2, autoreset_mode=mode)))
    env.reset(seed=1)
    env.action_space.seed(1)
    lengths = []
    for _ in range(200):
        _, _, terminated, truncated, infos = env.step(env.action_space.sample())
        for i in np.flatnonzero(terminated | truncated):
            lengths.append(int(infos["episode"]["l"][i]))
    env.close()
    assert len(lengths) >= 8 and all(8 <= length <= 100 for length in lengths)


def test_a_model_steps_native_vectors_itself():
    """A model uses their name and number and never steps them."""
    env = make_vec("CartPole-v1", 3)
    results = []
    for given, keywords in ((env, {}), ("CartPole-v1", {"num_envs": 3})):
        with DQN("MlpPolicy", given, **SMALL, **keywords) as model:
            model.learn(300)
            results.append(model.hashes())
            assert model.env_name == "CartPole-v1" and model._environments.env is given
            assert model.evaluate(episodes=2).episodes == 2
    assert results[0] == results[1]
    with pytest.raises(ConfigError, match="step before reset"):
        env.step([0, 0, 0])
    with pytest.raises(ConfigError, match="num_envs: 2, must be 3, as the environment given has"):
        DQN("MlpPolicy", env, num_envs=2)
    with DQN.from_preset("tuned", env) as model:
        assert model.setting("num_envs") == "3" and model.setting("learning_rate") != "0.0001"


def test_a_wrapped_vector_is_stepped_from_python():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(make_vec("CartPole-v1", 2))
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.learn(200)
        assert model.env_name is None and model.stats["episodes"] == env.episode_count > 0


def test_pong_is_learnt_natively(tmp_path):
    keywords = {"buffer_size": 2000, "learning_starts": 100, "batch_size": 16, "target_update_interval": 100, "seed": 1}
    env = make("Pong", 2)
    with DQN("CnnPolicy", "Pong", num_envs=2, **keywords) as model, DQN("CnnPolicy", env, **keywords) as other:
        assert model.learn(200).hashes() == other.learn(200).hashes()
        assert model.stats["replay_bytes"] < 2000 * 4 * 84 * 84, "the replay memory stores each frame once, not four times"
        obs, _ = env.reset(seed=1)
        assert model.observation_space == env.single_observation_space and model.action_space == env.single_action_space
        chosen, _ = model.predict(obs, deterministic=True)
        assert chosen.shape == (2,) and model.predict(obs[0])[0].shape == ()
        result = model.evaluate(episodes=2)
        assert -21 <= result.mean_return <= 21 and result.mean_length > 500
        model.save(tmp_path / "pong.paceline", replay=True)
        model.learn(60, reset_num_timesteps=False)
    with DQN.load(tmp_path / "pong.paceline") as loaded:
        assert loaded.env_name == "Pong"
        np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], chosen)
        resumed = loaded.learn(60, reset_num_timesteps=False).hashes()
    with DQN.load(tmp_path / "pong.paceline", env=env) as loaded:
        assert loaded.learn(60, reset_num_timesteps=False).hashes() == resumed


def test_a_missing_rom_gives_one_line(process, tmp_path):
    """ale-py's ROMs are hidden: its package is not found."""
    done = process(
        "import sys, importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'ale_py' else find(name, *a)\n"
        "import paceline; paceline.make_vec('Pong')",
        check=False,
        env={"PACELINE_ROMS_DIR": str(tmp_path), "ALE_ROMS_DIR": ""},
    )
    line = done.stderr.strip().splitlines()[-1]
    assert "ConfigError" in line and "pong" in line and "ROM" in line and str(tmp_path) in line, line


def test_a_forked_child_is_refused(process):
    process(
        """
import os, warnings
import paceline
from paceline.errors import ForkError
warnings.simplefilter("ignore")
env = paceline.make_vec("CartPole-v1", 2)
obs, _ = env.reset(seed=1)
child = os.fork()
if child == 0:
    for call in (env.reset, lambda: env.step([0, 0])):
        try:
            call()
        except ForkError:
            continue
        os._exit(1)
    env.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
env.step([0, 0])
env.close()
"""
    )
