"""paceline.sb3.VecEnv compared with a DummyVecEnv of Monitors, and used by SB3's algorithms."""

import warnings

import gymnasium
import numpy as np
import pytest

import paceline
from envs import Counter, Image, vector
from paceline import PacelineError, make_vec
from paceline.errors import ConfigError

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

from stable_baselines3.common import vec_env as theirs  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402

from paceline.sb3 import VecEnv  # noqa: E402

# CartPole falls after about 20 steps, MountainCar is truncated after 200, and a Pong that is never
# played is lost after 760.
RUNS = {"CartPole-v1": 150, "MountainCar-v0": 410, "Pong": 1190}


def make(env, *arguments, **keywords):
    """Makes a VecEnv. Skips the test if the game's ROM is missing."""
    try:
        return VecEnv(env, *arguments, **keywords)
    except PacelineError as err:
        if "ROM" in str(err):
            pytest.skip(f"no ROM: {err}")
        raise


def same(ours, other):
    """Compares infos of one environment, except the seconds of an episode."""
    assert ours.keys() == other.keys()
    for key in ours:
        if key == "episode":
            assert ours[key].keys() == other[key].keys() == {"r", "l", "t"}
            assert (ours[key]["r"], ours[key]["l"]) == (other[key]["r"], other[key]["l"])
            assert type(ours[key]["r"]) is float and type(ours[key]["l"]) is int and 0 <= ours[key]["t"] < 100
        else:
            np.testing.assert_array_equal(ours[key], other[key], strict=True)


@pytest.mark.parametrize("id", RUNS)
def test_every_step_equals_dummy_vec_env(id):
    ours = make(id, num_envs=2, seed=4)
    other = theirs.DummyVecEnv([lambda: Monitor(paceline.single.make(id))] * 2)
    assert (ours.observation_space, ours.action_space) == (other.observation_space, other.action_space)
    assert other.seed(4) == [4, 5]
    rng, ended, infos = np.random.default_rng(1), 0, []
    for step in range(RUNS[id]):
        if step in (0, 400):
            if step:  # without a seed SB3 would draw one
                ours.seed(9), other.seed(9)
            np.testing.assert_array_equal(ours.reset(), other.reset(), strict=True)
            for a, b in zip(ours.reset_infos, other.reset_infos, strict=True):
                same(a, b)
        actions = rng.integers(ours.action_space.n, size=2) if id != "Pong" else np.zeros(2, np.int64)
        # Both ways to step alternate.
        results = ours.step(actions) if step % 3 else (ours.step_async(actions), ours.step_wait())[1]
        expected = other.step(actions)
        for a, b in zip(results[:3], expected[:3]):
            np.testing.assert_array_equal(a, b, strict=True)
        for a, b in zip(results[3] + ours.reset_infos, expected[3] + other.reset_infos, strict=True):
            same(a, b)
        infos += results[3]
        ended += int(results[2].sum())
    assert ended >= 2 and sum("episode" in info and "terminal_observation" in info for info in infos) == ended
    assert any(info["TimeLimit.truncated"] for info in infos) == (id == "MountainCar-v0")
    ours.close()
    ours.close()


def test_reported_episodes_are_games_with_unclipped_rewards():
    ours = make("SpaceInvaders", num_envs=2, seed=1, episodic_life=True)
    assert ours.reset().shape == (2, 4, 84, 84)
    rng, games, lives, returns, lengths = np.random.default_rng(1), 0, 0, np.zeros(2), np.zeros(2, int)
    while games < 2:
        _, rewards, dones, infos = ours.step(rng.integers(6, size=2))
        assert set(rewards) <= {0, 1}
        lengths += 1
        for i, info in enumerate(infos):
            returns[i] += info["raw_reward"]
            assert ("terminal_observation" in info) == dones[i] and ("episode" in info) == info["game_over"]
            lives += dones[i]
            if info["game_over"]:
                assert info["lives"] == 0 and ours.reset_infos[i]["lives"] == 3
                assert (info["episode"]["r"], info["episode"]["l"]) == (returns[i], lengths[i])
                assert returns[i] > 5 * lengths[i] / 100  # a hit gives 5 to 30 points
                games += 1
                returns[i] = lengths[i] = 0
            elif dones[i]:
                assert info["lives"] == ours.reset_infos[i]["lives"] > 0
    assert lives >= 5
    ours.close()


def test_a_lost_life_can_end_an_episode_without_a_reset():
    ours = make("SpaceInvaders", num_envs=1, seed=1, life_loss_info=True)
    ours.reset()
    rng = np.random.default_rng(1)
    while True:
        obs, _, dones, infos = ours.step(rng.integers(6, size=1))
        if dones[0]:
            break
    assert infos[0]["lives"] == 2 and "episode" not in infos[0]
    np.testing.assert_array_equal(infos[0]["terminal_observation"], obs[0])
    ours.close()


def test_reset_discards_a_pending_step_and_the_episode():
    with_pending, without = VecEnv("CartPole-v1", 3, seed=2), VecEnv("CartPole-v1", 3, seed=2)
    for envs in (with_pending, without):
        envs.reset()
        for _ in range(5):
            envs.step(np.zeros(3, int))
        if envs is with_pending:
            envs.step_async(np.ones(3, int))
        envs.seed(7)
        assert envs.reset_infos == [{}, {}, {}]
    np.testing.assert_array_equal(with_pending.reset(), without.reset())
    ends = {}
    while len(ends) < 3:
        _, _, dones, infos = with_pending.step(np.zeros(3, int))
        ends |= {i: infos[i]["episode"] for i in np.flatnonzero(dones) if i not in ends}
    assert all(end["r"] == end["l"] < 12 for end in ends.values())
    with_pending.close()
    without.close()


class Alternate:
    """Has the method of a model that evaluate_policy calls."""

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return np.arange(len(obs)) % 2, None


def test_sb3_wrappers_and_evaluate_policy_accept_it():
    envs = VecEnv("CartPole-v1", 4, seed=1)
    assert isinstance(envs, theirs.VecEnv) and envs.unwrapped is envs
    assert not theirs.is_vecenv_wrapped(envs, theirs.VecMonitor)
    assert envs.env_is_wrapped(Monitor) == [True] * 4 and envs.env_is_wrapped(gymnasium.wrappers.TimeLimit, [0]) == [False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # evaluate_policy warns if there is no Monitor
        mean, _ = evaluate_policy(Alternate(), envs, n_eval_episodes=8)
    assert mean < 12
    with pytest.warns(UserWarning, match="already wrapped"):
        monitored = theirs.VecMonitor(envs)
    normal = theirs.VecNormalize(monitored)
    assert theirs.is_vecenv_wrapped(normal, theirs.VecMonitor)
    envs.seed(3)
    normal.reset()
    for _ in range(60):
        obs, rewards, dones, infos = normal.step(np.zeros(4, int))
        for info in (infos[i] for i in np.flatnonzero(dones)):
            assert info["episode"]["r"] == info["episode"]["l"] and np.abs(info["terminal_observation"]).max() <= 10
    assert 0.5 < obs.std() < 3 and normal.get_attr("render_mode") == [None] * 4
    assert normal.render_mode is None and envs.get_images() == [None] * 4
    normal.close()


def test_algorithms_of_sb3_learn_in_it():
    few = {"verbose": 0, "seed": 1, "device": "cpu"}
    for algorithm, steps, more in (
        (sb3.PPO, 256, {"n_steps": 32, "batch_size": 64, "n_epochs": 2}),
        (sb3.A2C, 200, {}),
        (sb3.DQN, 400, {"learning_starts": 100, "buffer_size": 500, "train_freq": 4}),
    ):
        model = algorithm("MlpPolicy", VecEnv("CartPole-v1", 4), **few, **more)
        before = [p.detach().numpy().copy() for p in model.policy.parameters()]
        model.learn(steps)
        assert model.num_timesteps >= steps and len(model.ep_info_buffer) >= 3
        assert {"r", "l", "t"} == model.ep_info_buffer[0].keys()
        assert any((a != b.detach().numpy()).any() for a, b in zip(before, model.policy.parameters()))
        model.env.close()


def test_images_need_no_transposing():
    envs = make("Pong", num_envs=2)
    model = sb3.PPO("CnnPolicy", envs, n_steps=16, batch_size=16, n_epochs=1, seed=1, device="cpu")
    assert model.env is envs and not theirs.is_vecenv_wrapped(model.env, theirs.VecTransposeImage)
    model.learn(32)
    envs.close()
    # Images with the channel last need transposing.
    last = theirs.VecTransposeImage(VecEnv(vector(gymnasium.vector.AutoresetMode.SAME_STEP, 2, Image)))
    assert last.reset().shape == (2, 1, 40, 40)
    for _ in range(3):
        _, _, dones, infos = last.step(np.ones(2, int))
    assert dones.all() and infos[1]["terminal_observation"].shape == (1, 40, 40)
    last.close()


def test_images_are_tiled_and_recorded(tmp_path):
    envs = VecEnv("CartPole-v1", 3, seed=1, render_mode="rgb_array")
    envs.reset()
    images = envs.get_images()
    assert len(images) == 3 and envs.env_method("render", indices=[2])[0].shape == images[0].shape == (400, 600, 3)
    assert envs.render().shape == (800, 1200, 3)  # SB3 tiles the images
    pytest.importorskip("moviepy", reason="moviepy is not installed")
    video = theirs.VecVideoRecorder(envs, str(tmp_path), lambda step: step == 0, video_length=5)
    video.reset()
    for _ in range(6):
        video.step(np.zeros(3, int))
    video.close()
    assert [file.suffix for file in tmp_path.iterdir()] == [".mp4"]


def test_env_method_calls_methods_of_the_library():
    envs = VecEnv("CartPole-v1", 2, seed=1)
    envs.reset()
    (state,) = envs.env_method("clone_state", indices=1)
    first = envs.step([0, 1])[0]
    envs.env_method("restore_state", state, indices=[0])
    assert (envs.step([1, 1])[0][0] == first[1]).all()
    assert envs.get_attr("observation_space", [0]) == [envs.observation_space]
    assert not envs.has_attr("action_masks")
    with pytest.raises(AttributeError):
        envs.env_method("step", 1)
    with pytest.raises(AttributeError):
        envs.set_attr("gravity", 1)
    envs.close()


class Tuned(Counter):
    gain = 1

    def twice(self, x, plus=0):
        return 2 * x + self.number + plus


@pytest.mark.parametrize("processes", [2, None])
def test_python_environments_equal_dummy_vec_env(processes):
    ours = VecEnv([lambda i=i: Tuned(i) for i in range(3)], 3, workers=processes, seed=5)
    other = theirs.DummyVecEnv([lambda i=i: Monitor(Tuned(i)) for i in range(3)])
    other.seed(5)
    np.testing.assert_array_equal(ours.reset(), other.reset(), strict=True)
    for step in range(30):
        actions = np.array([step % 3, 1, 2])
        results, expected = ours.step(actions), other.step(actions)
        for a, b in zip(results[:3], expected[:3]):
            np.testing.assert_array_equal(a, b, strict=True)
        for a, b in zip(results[3], expected[3], strict=True):
            same(a, b)
    assert ours.get_attr("number", [2, 0]) == [2, 0]
    ours.set_attr("gain", 5, [1])
    assert ours.get_attr("gain") == [1, 5, 1]
    assert ours.env_method("twice", 4, plus=10) == [18, 19, 20]
    assert ours.has_attr("gain") and ours.has_attr("twice") and not ours.has_attr("loss")
    assert [method(4) for method in ours.get_attr("twice", [1, 2])] == [9, 10]
    if processes:
        with pytest.raises(ConfigError, match="indices: \\[1\\], must be None"):
            ours.env_method("twice", 4, indices=[1])
        with pytest.raises(AttributeError, match="loss"):
            ours.set_attr("loss", 7, [1])
    else:
        assert ours.env_method("twice", 4, indices=[1]) == [9]
        ours.set_attr("loss", 7, [1])
        assert ours.get_attr("loss", [1]) == [7] and not ours.has_attr("loss")
    ours.set_attr("loss", 7)
    assert ours.get_attr("loss") == [7] * 3 and ours.has_attr("loss")
    ours.close()


def test_bad_arguments_are_refused():
    for envs, text in (
        (make_vec("CartPole-v1", 2), "autoreset_mode: 'next_step', must be 'same_step' for stable-baselines3"),
        (make_vec("CartPole-v1", 2, autoreset_mode="same_step", batch_size=1), "batch_size: 1, must be num_envs, 2, for"),
        (gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"), "autoreset_mode: 'next_step', must be"),
    ):
        with pytest.raises(ConfigError, match=text):
            VecEnv(envs)
        envs.close()
    with pytest.raises(ConfigError, match="autoreset_mode: 'same_step', must be left out"):
        VecEnv("CartPole-v1", 2, autoreset_mode="same_step")
    for unsafe in ("CartPole-v1", make_vec("CartPole-v1", 2, autoreset_mode="same_step", copy=False)):
        with pytest.raises(ConfigError, match="copy: False, must be True"):
            VecEnv(unsafe, **({"copy": False} if unsafe == "CartPole-v1" else {}))
    unsafe.close()
    made = make_vec("CartPole-v1", 2, autoreset_mode="same_step")
    with pytest.raises(ConfigError, match="render_mode: must be left out with environments that are made already"):
        VecEnv(made, render_mode=None)
    envs = VecEnv(made)
    envs.set_options([{"a": 1}, {"a": 2}])
    with pytest.raises(ConfigError, match="options: differ, must be the same"):
        envs.reset()
    envs.set_options({"reset_mask": np.ones(2, bool)})
    with pytest.raises(ConfigError, match="options: 'reset_mask', must not be there"):
        envs.reset()
    assert envs.reset().shape == (2, 4)  # options count for one reset
    with pytest.raises(ConfigError, match="environment 1: action: 2, must be 0 to 1"):
        envs.step([0, 2])
    envs.close()


class Both(Counter):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, truncated, info


@pytest.mark.parametrize("make_one", [lambda: gymnasium.make("CartPole-v1"), Both])
def test_gymnasium_vectors_equal_dummy_vec_env(make_one):
    """Gymnasium's vectors work, also if an episode terminates at its step limit."""
    made = gymnasium.vector.SyncVectorEnv([make_one] * 2, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    ours, other = VecEnv(made, seed=1), theirs.DummyVecEnv([lambda: Monitor(make_one())] * 2)
    other.seed(1)
    np.testing.assert_array_equal(ours.reset(), other.reset())
    for _ in range(40):
        results, expected = ours.step(np.ones(2, int)), other.step(np.ones(2, int))
        for a, b in zip(results[:3], expected[:3]):
            np.testing.assert_array_equal(a, b, strict=True)
        for a, b in zip(results[3], expected[3], strict=True):
            same(a, b)
    ours.close()


class Own(Counter):
    """Its infos have the keys of the library's Atari games, with other meanings."""

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"raw_reward": 100.0, "game_over": self.count != 3}


def test_keys_of_the_users_infos_do_not_change_episodes():
    ours, other = VecEnv(Own, 2), theirs.DummyVecEnv([lambda: Monitor(Own())] * 2)
    ours.reset(), other.reset()
    for _ in range(20):
        for a, b in zip(ours.step(np.ones(2, int))[3], other.step(np.ones(2, int))[3], strict=True):
            same(a, b)
    ours.close()


class Hybrid(Counter):
    """Keeps the actions that it gets, which must be of its space."""

    def __init__(self, action_space, got):
        super().__init__()
        self.action_space, self.got = action_space, got

    def step(self, action):
        assert self.action_space.contains(action), action
        self.got.append(action)
        self.count += 1
        return self.observe(), 1.0, self.count == 5, False, {}


TUPLE = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3), gymnasium.spaces.Box(-1, 1, (2,))])
DICT = gymnasium.spaces.Dict(k=gymnasium.spaces.MultiBinary(2), b=gymnasium.spaces.Box(-1, 1, (2,)))
FEW = {"n_steps": 16, "batch_size": 16, "seed": 1}


@pytest.mark.parametrize("space", [TUPLE, DICT], ids=["tuple", "dict"])
@pytest.mark.parametrize("kind", ["VecEnv", "vector", "single"])
def test_hybrid_actions_reach_the_environments(space, kind):
    got = []
    if kind == "single":
        env = Hybrid(space, got)
    else:
        env = make_vec(lambda: Hybrid(space, got), 2, autoreset_mode="same_step")
        env = VecEnv(env) if kind == "VecEnv" else env
    with paceline.PPO("MlpPolicy", env, **FEW) as model:
        model.learn(64)
        assert len(got) == 64
        envs = model.get_env()
        obs, n = envs.reset(), envs.num_envs
        batch, _ = model.predict(obs)
        each = [{key: part[i] for key, part in batch.items()} if space is DICT else tuple(part[i] for part in batch) for i in range(n)]
        for actions in (batch, each):
            got.clear()
            envs.step(actions)
            for one, want in zip(got, each, strict=True):
                for key in space if space is DICT else (0, 1):
                    np.testing.assert_array_equal(one[key], want[key])
        assert evaluate_policy(model, envs, n_eval_episodes=2) == (5.0, 0.0)


def test_hybrid_actions_of_another_form_are_refused():
    for space, name, other in ((TUPLE, "tuple", {}), (DICT, "dict", ())):
        envs = VecEnv(lambda space=space: Hybrid(space, []), 2)
        envs.reset()
        for actions in (np.zeros(2), [0, 1], [other, other]):
            with pytest.raises(ConfigError, match=f"actions: .*, must be a {name} of arrays or a list with a {name} for each environment"):
                envs.step(actions)
        envs.close()


def test_stable_baselines3_is_imported_at_first_use(process):
    loaded = "assert ('stable_baselines3' in sys.modules) is"
    process(f"import sys, paceline; {loaded} False; paceline.sb3.VecEnv; {loaded} True")
    hide = "import sys; sys.modules['stable_baselines3'] = None; import paceline"
    text = process(f"{hide}\ntry: paceline.sb3\nexcept ImportError as err: print(err)").stdout
    assert text == "stable-baselines3 is not installed: pip install 'paceline[sb3]'\n"
