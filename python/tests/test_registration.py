"""The library's environments in gymnasium.make_vec, gymnasium.make and Gymnasium's wrappers."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

import paceline
from paceline.envs import registration, vec
from paceline.errors import ConfigError
from test_vec import make

MINI = [f"Mini-{game}-v0" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")]
ENTRY = {"vectorization_mode": "vector_entry_point"}


def test_registered_ids_equal_the_names_of_the_library():
    camel = ["".join(word[:1].upper() + word[1:] for word in name[6:].split("_")) for name in vec.names() if name.startswith("atari/")]
    assert sorted(registration.ATARI) == sorted(camel)
    assert set(registration.CLASSIC) <= set(vec.names())  # load_env adds more names
    assert {f"paceline/{game}-v0" for game in registration.ATARI} <= set(gymnasium.registry)


def test_importing_registers_and_loads_nothing():
    code = (
        "import gymnasium, paceline, sys; assert 'paceline/Pong-v0' in gymnasium.registry;"
        "assert not {'paceline.envs.vec', 'paceline._lib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    # Gymnasium imports the package that the id names.
    code = "import gymnasium; gymnasium.make('paceline:paceline/CartPole-v1').reset()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("id", ["CartPole-v1", "Catch-v0", "Mini-Seaquest-v0", "Pong-v0"])
def test_gymnasium_make_vec_returns_the_native_vector(id):
    name = id.removesuffix("-v0") if id == "Pong-v0" else id
    make(name)
    envs = gymnasium.make_vec(f"paceline/{id}", num_envs=3, **ENTRY)
    assert type(envs.unwrapped).__name__ == "VecEnv" and envs.num_envs == 3
    assert envs.spec.id == f"paceline/{id}"
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    obs, _ = envs.reset(seed=2)
    np.testing.assert_array_equal(obs, make(name, 3).reset(seed=2)[0])
    envs.close()
    same = gymnasium.make_vec(f"paceline/{id}", num_envs=2, autoreset_mode=AutoresetMode.SAME_STEP, **ENTRY)
    assert same.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    same.close()


@pytest.mark.parametrize("id", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "Bricks-v0", "Pong-v0", *MINI])
def test_make_passes_check_env(id):
    make(id.removesuffix("-v0") if id == "Pong-v0" else id)
    env = gymnasium.make(f"paceline/{id}", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=1)
    image = env.render()
    assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.any()
    env.close()


def test_spaces_equal_those_of_gymnasium():
    for id in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0"):
        ours, theirs = gymnasium.make(f"paceline/{id}"), gymnasium.make(id)
        assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space


@pytest.mark.parametrize("id, planes", list(zip(MINI, (4, 4, 7, 10, 6))))
def test_mini_games_have_boolean_planes_and_options(id, planes):
    envs = make(id, 2, sticky_action_prob=0, ramping=False, max_episode_steps=3, autoreset_mode="same_step")
    assert envs.single_observation_space == gymnasium.spaces.Box(0, 255, (planes, 10, 10), np.uint8)
    assert envs.single_action_space == gymnasium.spaces.Discrete(6)
    assert envs.get_action_meanings() == ["NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE"]
    obs, _ = envs.reset(seed=1)
    assert set(np.unique(obs)) == {0, 255}
    truncations = [envs.step(np.zeros(2, np.int64))[3].all() for _ in range(3)]
    assert truncations == [False, False, True]


def test_gymnasium_make_only_lowers_the_limit_of_a_mini_game():
    for limit, steps in {3: 3, 2600: 2500}.items():
        assert length(gymnasium.make("paceline/Mini-Freeway-v0", max_episode_steps=limit)) == steps
    assert length(paceline.make("Mini-Freeway-v0", max_episode_steps=2600)) == 2600
    envs = gymnasium.make_vec("paceline/Mini-Freeway-v0", num_envs=1, max_episode_steps=2600)
    assert length(envs, np.zeros(1, np.int64)) == 2600


def length(env, action=0):
    """The steps of an episode that does nothing."""
    env.reset(seed=1)
    for step in range(1, 3000):
        _, _, terminated, truncated, _ = env.step(action)
        if np.any(terminated) or np.any(truncated):
            env.close()
            return step
    raise AssertionError("no end")


def test_sync_and_async_vectors_give_the_same_observations():
    for mode, keywords in (("sync", {}), ("async", {"context": "spawn"})):
        envs = gymnasium.make_vec("paceline/CartPole-v1", num_envs=2, vectorization_mode=mode, vector_kwargs=keywords)
        obs, _ = envs.reset(seed=4)
        np.testing.assert_array_equal(obs, paceline.make_vec("CartPole-v1", 2).reset(seed=4)[0])
        envs.close()


# ------------------------------------------------------------ vector wrappers


def play(envs, steps=250):
    """Returns all results of a run."""
    out = [envs.reset(seed=3)]
    envs.action_space.seed(3)
    for _ in range(steps):
        out.append(envs.step(envs.action_space.sample()))
    return out


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_record_episode_statistics_counts_episodes(mode):
    envs = wrappers.RecordEpisodeStatistics(gymnasium.make_vec("paceline/CartPole-v1", num_envs=3, autoreset_mode=mode, **ENTRY))
    lengths, running = [], np.zeros(3)
    for _, reward, terminated, truncated, infos in play(envs)[1:]:
        running += reward
        for i in np.flatnonzero(terminated | truncated):
            reported = infos.get("final_info", infos) if mode is AutoresetMode.SAME_STEP and "episode" not in infos else infos
            assert reported["_episode"][i] and reported["episode"]["r"][i] == running[i] == reported["episode"]["l"][i]
            lengths.append(running[i])
            running[i] = 0
    assert len(lengths) > 10 and len(envs.return_queue) > 10


def test_normalising_wrappers_work():
    envs = gymnasium.make_vec("paceline/CartPole-v1", num_envs=4, **ENTRY)
    envs = wrappers.NormalizeReward(wrappers.NormalizeObservation(envs))
    last = play(envs)[-1]
    assert np.isfinite(last[0]).all() and abs(envs.env.obs_rms.mean).max() < 1 and np.std(last[1]) < 1


def test_clip_and_transform_wrappers_work():
    envs = gymnasium.make_vec("paceline/MountainCar-v0", num_envs=2, **ENTRY)
    envs = wrappers.TransformObservation(wrappers.ClipReward(envs, -0.5, 0.5), lambda obs: obs * 2)
    plain = gymnasium.make_vec("paceline/MountainCar-v0", num_envs=2, **ENTRY)
    for ours, theirs in zip(play(envs, 20)[1:], play(plain, 20)[1:]):
        np.testing.assert_allclose(ours[0], theirs[0] * 2)
        assert (ours[1] == -0.5).all() and (theirs[1] == -1).all()


def test_infos_become_lists_of_dicts():
    make("Pong")
    envs = wrappers.DictInfoToList(gymnasium.make_vec("paceline/Pong-v0", num_envs=2, **ENTRY))
    for *_, infos in play(envs, 3):
        assert [set(info) for info in infos] == 2 * [set(infos[0])]
        assert infos[1]["recipe"] == "ale" and infos[0]["lives"] == 0


def test_record_video_writes_mp4(tmp_path):
    pytest.importorskip("moviepy", reason="moviepy is not installed")
    envs = gymnasium.make_vec("paceline/CartPole-v1", num_envs=2, render_mode="rgb_array", **ENTRY)
    envs = wrappers.RecordVideo(envs, str(tmp_path), video_length=20, disable_logger=True)
    play(envs, 60)
    envs.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"] * len(list(tmp_path.iterdir())) and list(tmp_path.iterdir())


def test_every_environment_renders_moving_images():
    for id in [*registration.CLASSIC, "Pong", "Breakout"]:
        envs = make(id, 2, render_mode="rgb_array") if id != "Breakout" else make("Pong", 2, render_mode="rgb_array", frameskip=2)
        envs.reset(seed=1)
        first = envs.render()
        for _ in range(10):
            envs.step(np.full(envs.action_space.shape, getattr(envs.single_action_space, "n", 2) - 1, envs.action_space.dtype))
        second = envs.render()
        assert len(first) == 2 and first[0].shape == second[1].shape and first[0].dtype == np.uint8
        assert (first[0] != second[0]).any(), f"{id}: the image does not move"
        envs.close()
    envs = paceline.make_vec("CartPole-v1", 2)
    assert envs.render() is None
    envs.reset(seed=1)
    assert envs.image(np.int64(1)).shape == (400, 600, 3)
    for i in (-1, 2, 1.5):
        with pytest.raises(ConfigError, match=f"^i: {i}, must be 0 to 1$"):
            envs.image(i)
