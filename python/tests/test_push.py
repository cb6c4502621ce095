"""Gymnasium environments stepped from Python: autoreset modes and failures."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envs import MODES, SMALL, Counter, Image, vector
from paceline import DQN
from paceline._ffi import TERMINATED, TRUNCATED
from paceline.envs._source import adapt
from paceline.errors import ConfigError, NotFiniteError, PacelineWarning, SpaceError
from paceline.spaces import ObsLayout

PIXELS = {k: v for k, v in SMALL.items() if k != "policy_kwargs"}


def learn(env, steps=300, **keywords):
    """Returns the hashes and stats after training."""
    with DQN("MlpPolicy", env, **{**SMALL, **keywords}) as model:
        model.learn(steps)
        return model.hashes(), model.stats


def test_one_environment_gives_one_result_in_every_mode():
    results = [learn(vector(mode))[0] for mode in MODES]
    single = learn(Counter())[0]
    assert all(result == single for result in results)
    assert learn(Counter(), seed=8)[0] != single


def test_images_give_one_result_in_every_mode():
    def run(env):
        with DQN("CnnPolicy", env, **PIXELS) as model:
            return model.learn(100).hashes()

    results = [run(vector(mode, make=Image)) for mode in MODES]
    assert all(result == run(Image()) for result in results)


def test_same_step_and_disabled_agree_for_three_environments():
    results = [learn(vector(mode, 3))[0] for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)]
    assert results[0] == results[1]


@pytest.mark.parametrize("mode", MODES)
def test_resets_are_no_steps(mode):
    env = vector(mode, 3)
    _, stats = learn(env, 300)
    taken = sum(e.steps_taken for e in env.envs)
    assert taken == stats["num_timesteps"] and 300 <= taken < 303
    finished = sum(e.episode + (e.count == 3 + e.episode % 3) for e in env.envs)
    assert stats["episodes"] == finished


@pytest.mark.parametrize("mode", MODES)
def test_rows_follow_the_header(mode):
    """Rows equal numbers computed by hand, for episodes of 3 (terminated), 4 (truncated) and 5
    steps.
    """
    source = adapt(vector(mode, 2))
    rows = source.rows
    source.reset(seed=1)
    assert rows.obs.tolist() == [[0, 0, 0, -1], [1, 0, 0, -1]]
    seen = []
    for step in range(9):
        rows.actions[...] = [step % 3, 1]
        source.step()
        ended = TERMINATED * rows.terminated[0] | TRUNCATED * rows.truncated[0]
        seen.append((rows.rewards[0], ended, rows.obs[0].tolist(), rows.final_obs[0].tolist()))
    if mode == AutoresetMode.NEXT_STEP:
        assert source.autoreset == "next_step"
        assert [s[1] for s in seen] == [0, 0, 1, 0, 0, 0, 0, 2, 0]
        assert seen[2][2] == [0, 0, 3, 2] and seen[3][2] == [0, 1, 0, -1]
        assert seen[7][2] == [0, 1, 4, 1] and seen[8][2] == [0, 2, 0, -1]
    else:
        assert source.autoreset == "same_step"
        assert [s[1] for s in seen] == [0, 0, 1, 0, 0, 0, 2, 0, 0]
        assert [s[0] for s in seen] == [1, 2, 3, 1, 2, 3, 4, 1, 2]
        assert seen[2][2] == [0, 1, 0, -1] and seen[2][3] == [0, 0, 3, 2]
        assert seen[6][2] == [0, 2, 0, -1] and seen[6][3] == [0, 1, 4, 0]
    source.env.close()


def test_dense_final_obs_needs_no_mask():
    """final_obs may be a full array, as ale-py gives it. Only rows of ended episodes are valid."""

    class Dense(SyncVectorEnv):
        def step(self, actions):
            obs, rewards, terminated, truncated, infos = super().step(actions)
            if "final_obs" in infos:
                dense = np.full((self.num_envs, 4), 777, np.float32)
                for i in np.flatnonzero(infos["_final_obs"]):
                    dense[i] = infos["final_obs"][i]
                infos = {"final_obs": dense}
            return obs, rewards, terminated, truncated, infos

    dense = Dense([lambda i=i: Counter(i) for i in range(2)], autoreset_mode=AutoresetMode.SAME_STEP)
    assert learn(dense)[0] == learn(vector(AutoresetMode.SAME_STEP, 2))[0]


@pytest.mark.filterwarnings("ignore:synchronized")
def test_synchronized_changes_nothing_with_one_environment():
    """With one environment, synchronized changes nothing, also if the host steps it."""
    for concurrent in (False, True):
        results = [learn(Counter(), concurrent=concurrent, synchronized=s)[0] for s in (False, True)]
        assert results[0] == results[1]


@pytest.mark.parametrize("mode", MODES)
def test_waits_for_long_updates_return_to_python(mode):
    """Act and observe return to Python every tenth of a second. The interrupted work is done only
    once.
    """

    def run(poll):
        waited = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("paceline._native.POLL_MS", poll)
            patch.setattr("paceline.learning.Loop._waiting", lambda self: waited.append(self))
            keywords = {**SMALL, "train_freq": 1, "gradient_steps": 20, "policy_kwargs": {"net_arch": [256, 256]}, "batch_size": 64}
            with DQN("MlpPolicy", vector(mode, 2), **keywords) as model:
                return model.learn(80).hashes(), len(waited)

    slow, fast = run(100_000), run(1)
    assert slow[0] == fast[0] and slow[1] == 0 and fast[1] > 0


class Broken(Counter):
    """Fails once, in its 100th step."""

    def __init__(self, number, how):
        super().__init__(number)
        self.how = how

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.steps_taken == 100:
            if self.how == "raise":
                raise KeyError("the simulator is gone")
            if self.how == "nan obs":
                obs[2] = np.nan
            if self.how == "nan reward":
                reward = float("nan")
            if self.how == "shape":
                obs = np.zeros(5, np.float32)
            if self.how == "dtype":
                obs = obs.astype(np.complex64)
            if self.how == "reward":
                reward = "much"
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize(
    "how, error, says",
    [
        ("raise", KeyError, "the simulator is gone"),
        ("nan obs", NotFiniteError, "environment 0.*NaN"),
        ("nan reward", NotFiniteError, "environment 0: step .*: reward: NaN, must be finite"),
        ("shape", SpaceError, r"environment 0: observation of shape \(5,\), its space says \(4,\)"),
        ("dtype", SpaceError, "environment 0: observation of dtype complex64, its space says float32"),
        ("reward", SpaceError, "environment 0: reward 'much', must be a number"),
    ],
)
def test_a_failing_environment_is_named_and_learning_continues(tmp_path, how, error, says):
    env = Broken(0, how)
    with DQN("MlpPolicy", env, **SMALL) as model:
        with pytest.raises(error, match=says):
            model.learn(300)
        assert model.num_timesteps == 99
        model.save(tmp_path / "model", replay=True)
        model.predict(np.zeros(4))
        resets = env.resets
        model.learn(201, reset_num_timesteps=False)
        assert model.num_timesteps == 300 and env.resets > resets


@pytest.mark.parametrize("mode", MODES)
def test_nan_names_the_environment(mode):
    env = SyncVectorEnv([lambda: Counter(0), lambda: Broken(1, "nan reward")], autoreset_mode=mode)
    with DQN("MlpPolicy", env, **SMALL) as model, pytest.raises(NotFiniteError, match="environment 1: step .*: reward"):
        model.learn(400)


def test_changed_spaces_are_reported():
    env = Counter()
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.learn(100)
        env.action_space = gymnasium.spaces.Discrete(5)
        with pytest.raises(SpaceError, match=r"action space: Discrete\(5\), must be Discrete\(3\)"):
            model.learn(100, reset_num_timesteps=False)


def test_wrong_vector_results_are_reported():
    class Odd(SyncVectorEnv):
        wrong = False

        def step(self, actions):
            obs, rewards, terminated, truncated, infos = super().step(actions)
            return obs, rewards[:1] if self.wrong else rewards, terminated, truncated, infos

    env = Odd([Counter, Counter])
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.learn(100)
        env.wrong = True
        with pytest.raises(SpaceError, match=r"rewards of shape \(1,\), must be \(2,\)"):
            model.learn(100)


def test_ends_without_a_last_observation_are_terminations():
    class Forgetful(SyncVectorEnv):
        def step(self, actions):
            return (*super().step(actions)[:4], {})

    source = adapt(Forgetful([Counter, Counter], autoreset_mode=AutoresetMode.SAME_STEP))
    rows = source.rows
    source.reset(seed=1)
    with pytest.warns(
        PacelineWarning, match=r"environment 0: its episode ended, but infos\['final_obs'\] has no row for it: the end counts"
    ) as said:
        for _ in range(3 + 4):  # episodes of 3 steps (terminated) and 4 steps (truncated)
            source.step()
            assert not rows.truncated.any()
    assert rows.terminated.all() and len(said) == 1
    with DQN("MlpPolicy", source.env, **SMALL) as model:
        model.learn(100)


def test_actions_count_from_the_space_start():
    class Offset(Counter):
        action_space = gymnasium.spaces.Discrete(3, start=-1)

    env = Offset()
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.learn(200)
        assert set(env.actions) == {-1, 0, 1}
        assert model.predict(np.zeros(4), deterministic=True)[0] in (-1, 0, 1)


def test_a_model_loads_without_its_environment(tmp_path):
    path = tmp_path / "model.zip"
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        model.learn(200)
        model.save(path, replay=True)
        hashes = model.hashes()
    with DQN.load(path) as model:
        assert model.hashes() == hashes and model.get_env() is None
        model.predict(Counter().reset()[0])
        assert model.evaluate(Counter(), 2).episodes == 2
        model.save(tmp_path / "again", replay=True)
        with pytest.raises(ConfigError, match="env: None, must be an environment for learn: call set_env"):
            model.learn(100)
        with pytest.raises(ConfigError, match="^env: builtins.NoneType, must be "):
            model.set_env(None)
        model.set_env(Counter())
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps == 300
    with DQN.load(path, Counter()) as model:
        assert model.hashes() == hashes
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps == 300


def test_set_env_replaces_the_environment():
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        model.learn(102)
        other = Counter(5)
        model.set_env(other)
        assert model._environments.env is other
        model.learn(100, reset_num_timesteps=False)
        assert other.steps_taken == 100 and model.num_timesteps == 202
        with pytest.raises(ConfigError, match="must be"):
            model.set_env(vector(AutoresetMode.SAME_STEP, 2))


def test_num_envs_must_agree():
    with pytest.raises(ConfigError, match="num_envs: 3, must be 2, as the environment given has"):
        DQN("MlpPolicy", vector(AutoresetMode.SAME_STEP, 2), **SMALL, num_envs=3)


def test_continuous_actions_are_refused():
    class Continuous(Counter):
        action_space = gymnasium.spaces.Box(-1, 1, (2,))

    with pytest.raises(ConfigError, match="actions: a box of 2, must be discrete for dqn"):
        DQN("MlpPolicy", Continuous(), **SMALL)


def test_callbacks_get_the_results_of_each_round():
    seen = []

    def look(locals_, globals_):
        seen.append((locals_["rewards"].copy(), locals_["dones"].copy(), locals_["infos"], locals_["new_obs"].copy()))

    with DQN("MlpPolicy", vector(AutoresetMode.SAME_STEP, 2), **SMALL) as model:
        model.learn(14, look)
    assert [r[0].tolist() for r in seen] == [[n, n] for n in (1, 2, 3, 1, 2, 3, 4)]
    assert [bool(r[1][0]) for r in seen] == [False, False, True, False, False, False, True]
    assert seen[2][2][0]["TimeLimit.truncated"] is np.False_ or not seen[2][2][0]["TimeLimit.truncated"]
    assert seen[6][2][1]["TimeLimit.truncated"] and seen[6][2][1]["terminal_observation"][:3].tolist() == [1, 1, 4]
    assert seen[2][3][0].tolist() == [0, 1, 0, -1]


def test_gymnasium_wrappers_are_supported():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.learn(200)
        single = gymnasium.make("CartPole-v1")
        result = model.evaluate(single, episodes=3)
        assert result.episodes == 3 and result.mean_return == result.mean_length
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_plays_vector_environments(mode):
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        result = model.evaluate(vector(mode, 2), episodes=6)
        # Each environment plays episodes of 3, 4 and 5 steps: returns 6, 10 and 15.
        assert result.episodes == 6 and result.mean_return == pytest.approx(31 / 3) and result.mean_length == 4
        assert (result.min_return, result.max_return) == (6, 15)
        assert result.std_return == pytest.approx(np.std([6, 10, 15] * 2, ddof=1))
        for env in (vector(mode, 2), "CartPole-v1"):
            for wrong in (2.9, "3", 0, 1_000_001):
                with pytest.raises(ConfigError, match=f"^episodes: {wrong!r}, must be 1 to 1000000$"):
                    model.evaluate(env, wrong)


def test_float64_observations_are_cast():
    class Double(Counter):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2, 2), np.float64)

        def observe(self):
            return super().observe().astype(np.float64).reshape(2, 2)

    assert ObsLayout.of_space(Double.observation_space).shape == (4,)
    assert learn(Double())[0] == learn(Counter())[0]
