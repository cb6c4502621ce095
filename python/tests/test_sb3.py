"""Comparisons with installed Stable-Baselines3 (pip install 'paceline[sb3]')."""

import gymnasium
import numpy as np
import pytest

import paceline
from envs import SMALL, Steps
from paceline import A2C, DQN, QRDQN
from paceline.errors import BusyError, ConfigError

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


def test_sb3_weights_give_the_same_q_values():
    theirs = sb3.DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [16]}, seed=3, device="cpu")
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as ours:
        assert list(ours.get_parameters()["policy"]) == list(theirs.get_parameters()["policy"])
        ours.set_parameters(theirs.get_parameters())
        obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
        np.testing.assert_array_equal(ours.predict(obs, deterministic=True)[0], theirs.predict(obs, deterministic=True)[0])
        one = ours.predict(obs[0], deterministic=True)[0], theirs.predict(obs[0], deterministic=True)[0]
        assert one[0] == one[1] and one[0].shape == one[1].shape


def test_sb3_convolutions_give_the_same_q_values():
    import gymnasium

    class Image(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        action_space = gymnasium.spaces.Discrete(5)

        def reset(self, *, seed=None, options=None):
            return self.observation_space.sample(), {}

    theirs = sb3.DQN("CnnPolicy", Image(), buffer_size=100, seed=3, device="cpu")
    with DQN("CnnPolicy", Image(), buffer_size=100, learning_starts=50) as ours:
        assert list(ours.get_parameters()["policy"]) == list(theirs.get_parameters()["policy"])
        ours.set_parameters(theirs.get_parameters(), exact_match=False)
        obs = np.random.default_rng(0).integers(0, 256, (8, 4, 84, 84), np.uint8)
        with ours.policy_snapshot() as policy:
            values = policy.q_values(obs)
        import torch

        expected = theirs.q_net(torch.as_tensor(obs)).detach().numpy()
        np.testing.assert_allclose(values, expected, atol=1e-4 * np.abs(expected).max())


def test_callbacks_of_sb3_are_called(tmp_path):
    from stable_baselines3.common import callbacks

    class Count(callbacks.BaseCallback):
        def _on_step(self):
            self.logger.record("mine/steps", self.num_timesteps)
            return True

    count = Count()
    every = callbacks.EveryNTimesteps(100, callbacks.CheckpointCallback(1, str(tmp_path)))
    with DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL) as model:
        model.learn(250, callbacks.CallbackList([count, every]))
    assert count.n_calls == 125 and count.num_timesteps == 250
    assert len(list(tmp_path.iterdir())) == 2


def test_sb3_evaluates_the_model():
    import gymnasium
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        mean, _ = evaluate_policy(model, Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3)
        assert mean >= 5


KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}}
both = pytest.mark.parametrize("cls", [DQN, A2C])
GIVEN = {
    "built in": lambda: "CartPole-v1",
    "gymnasium.Env": lambda: gymnasium.make("CartPole-v1"),
    "same_step vector": lambda: gymnasium.make_vec(
        "CartPole-v1", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    ),
    "paceline.sb3.VecEnv": lambda: paceline.sb3.VecEnv("CartPole-v1", num_envs=2),
    "DummyVecEnv": lambda: _made(2),
    "VecFrameStack": lambda: _stacked(_made(2)),
    "VecFrameStack of ours": lambda: _stacked(paceline.sb3.VecEnv("CartPole-v1", num_envs=2)),
    "VecMonitor of ours": lambda: _monitored(paceline.sb3.VecEnv("CartPole-v1", num_envs=2)),
    "SubprocVecEnv": lambda: _made(2, processes=True),
    "AsyncVectorEnv": lambda: gymnasium.make_vec(
        "CartPole-v1",
        2,
        vectorization_mode="async",
        vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP, "context": "spawn"},
    ),
}


def _made(n, processes=False):
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    return make_vec_env("CartPole-v1", n_envs=n, vec_env_cls=SubprocVecEnv if processes else DummyVecEnv)


def _stacked(envs):
    from stable_baselines3.common.vec_env import VecFrameStack

    return VecFrameStack(envs, 3)


def _monitored(envs):
    from stable_baselines3.common.vec_env import VecMonitor

    return VecMonitor(envs)


@both
@pytest.mark.parametrize("given", list(GIVEN))
@pytest.mark.filterwarnings("ignore:The environment is already wrapped")
def test_get_env_is_a_vec_env_for_every_kind_of_environment(cls, given):
    """The model takes every kind of environment, and get_env returns a VecEnv.

    SB3's documented loop and evaluate_policy run on it, and learning continues.
    """
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv

    env = GIVEN[given]()
    with cls("MlpPolicy", env, **KEYWORDS[cls]) as model:
        model.learn(200)
        envs = model.get_env()
        assert isinstance(envs, VecEnv) and envs.num_envs == model.n_envs and model.get_env() is model.env is envs
        gymnasiums = ("gymnasium.Env", "same_step vector", "AsyncVectorEnv")
        assert isinstance(env, str) or given in gymnasiums or isinstance(envs, type(env)) or model.env_name
        obs = envs.reset()
        for _ in range(30):
            actions, _ = model.predict(obs)
            obs, rewards, dones, infos = envs.step(actions)
            assert rewards.shape == dones.shape == (model.n_envs,) and len(infos) == model.n_envs
        if model.env_name and isinstance(env, str):
            assert envs.render(mode="rgb_array").ndim == 3
        mean, _ = evaluate_policy(model, envs, n_eval_episodes=3, warn=False)
        assert mean >= 8
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps >= 300
        assert model.env_name == ("CartPole-v1" if given in ("built in", "paceline.sb3.VecEnv") else None)
        envs.close()


@both
def test_a_vec_env_gives_the_bits_of_a_gymnasium_vector(cls):
    """DummyVecEnv and Gymnasium's vector of the same environments give the same bits."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    same = gymnasium.vector.AutoresetMode.SAME_STEP
    makers = [lambda: gymnasium.make("CartPole-v1")] * 3
    hashes = []
    for env in (DummyVecEnv(makers), gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=same)):
        with cls("MlpPolicy", env, **KEYWORDS[cls]) as model:
            hashes.append(model.learn(600).hashes())
    assert hashes[0] == hashes[1]


def test_dqn_refuses_vec_normalize():
    from stable_baselines3.common.vec_env import VecNormalize

    envs = VecNormalize(_made(2))
    with pytest.raises(ConfigError, match="env: a VecNormalize.*NormalizeObservation"):
        DQN("MlpPolicy", envs, **SMALL)
    with DQN("MlpPolicy", _made(2), **SMALL) as model, pytest.raises(ConfigError, match="env: a VecNormalize.*NormalizeObservation"):
        model.set_env(envs)
    with A2C("MlpPolicy", envs) as model:
        model.learn(200)
        assert model.get_vec_normalize_env() is envs


@both
@pytest.mark.parametrize("built_in", [True, False])
def test_every_callback_of_sb3_runs(cls, built_in, tmp_path):
    from stable_baselines3.common import callbacks

    class Watch(callbacks.BaseCallback):
        def __init__(self):
            super().__init__()
            self.episodes = []

        def _on_step(self):
            assert self.training_env.num_envs == 2 and self.model.get_vec_normalize_env() is None
            for done, info in zip(self.locals["dones"], self.locals["infos"]):
                if done:
                    self.episodes.append(info["episode"]["r"])
            self.logger.record("a/b", 1.0)
            self.logger.record_mean("a/c", 2.0)
            return True

    watch = Watch()
    evaluation = callbacks.EvalCallback(
        _made(1), best_model_save_path=str(tmp_path / "best"), log_path=str(tmp_path), eval_freq=50, n_eval_episodes=2, verbose=0,
        callback_on_new_best=callbacks.StopTrainingOnRewardThreshold(1e9),
        callback_after_eval=callbacks.StopTrainingOnNoModelImprovement(100),
    )  # fmt: skip
    checkpoints = callbacks.CheckpointCallback(100, str(tmp_path / "checkpoints"), save_replay_buffer=cls is DQN, save_vecnormalize=True)
    every = callbacks.EveryNTimesteps(100, callbacks.ConvertCallback(lambda *_: True))
    others = [callbacks.StopTrainingOnMaxEpisodes(10), every, callbacks.LogEveryNTimesteps(200), callbacks.ProgressBarCallback()]
    with cls("MlpPolicy", "CartPole-v1" if built_in else _made(2), **KEYWORDS[cls], **({"num_envs": 2} if built_in else {})) as model:
        model.learn(5000, callback=[watch, evaluation, checkpoints, *others])
        # 10 episodes of each environment ended learning
        assert len(watch.episodes) == 20 and len(model.ep_info_buffer) == 20
        assert watch.episodes == [e["r"] for e in model.ep_info_buffer]
    assert np.load(tmp_path / "evaluations.npz")["results"].shape[1] == 2
    files = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert files[0] == "rl_model_200_steps.zip" and any("replay_buffer" in name for name in files) == (cls is DQN)
    with cls.load(tmp_path / "best" / "best_model", env=_made(2)) as best:
        best.learn(100)


@both
def test_loggers_of_sb3_are_accepted(cls, tmp_path):
    from stable_baselines3.common.logger import HParam, configure

    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        model.set_logger(configure(str(tmp_path), ["csv", "json", "tensorboard"]))
        model.logger.record("hparams", HParam({"a": 1}, {"b": 0}), exclude=("csv", "json"))
        model.learn(900, log_interval=1)
    assert "rollout/ep_rew_mean" in (tmp_path / "progress.csv").read_text()


def test_the_documented_summary_writer_runs(tmp_path):
    """SB3's SummaryWriterCallback finds the TensorBoard writer in Paceline's logger."""
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import TensorBoardOutputFormat

    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    class SummaryWriterCallback(BaseCallback):
        def _on_training_start(self):
            found = (output for output in self.logger.output_formats if isinstance(output, TensorBoardOutputFormat))
            self.tb_formatter = next(found)

        def _on_step(self):
            for i in range(self.locals["env"].num_envs):
                self.tb_formatter.writer.add_scalar(f"direct/{i}", self.n_calls, self.num_timesteps)
                self.tb_formatter.writer.flush()
            return True

    with DQN("MlpPolicy", gymnasium.make("CartPole-v1"), **SMALL, tensorboard_log=str(tmp_path)) as model:
        model.learn(300, callback=SummaryWriterCallback(), log_interval=1)
    events = accumulator.EventAccumulator(str(tmp_path / "DQN_1")).Reload()
    assert len(events.Scalars("direct/0")) == 300 and len(events.Scalars("rollout/ep_rew_mean")) > 3


@both
def test_model_policy_is_a_copy_in_torch(cls):
    import torch

    with cls("MlpPolicy", "CartPole-v1", **{**KEYWORDS[cls], "policy_kwargs": {"activation_fn": torch.nn.Tanh}}) as model:
        model.learn(300)
        obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        policy = model.policy
        np.testing.assert_array_equal(policy.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
        if cls is DQN:
            with model.policy_snapshot() as ours:
                np.testing.assert_allclose(model.q_net(torch.as_tensor(obs)).detach().numpy(), ours.q_values(obs), atol=1e-5)
        next(iter(policy.parameters())).data.zero_()  # only the copy changes
        assert any(array.any() for array in model.get_parameters()["policy"].values())


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("policy, shape", [("MlpPolicy", (3,)), ("MlpPolicy", (2, 40, 44)), ("CnnPolicy", (2, 40, 44))])
def test_q_net_needs_torch_only(policy, shape, normalize, monkeypatch):
    """Torch modules compute the library's Q-values without Stable-Baselines3."""
    import importlib.util

    import torch

    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "stable_baselines3" else find_spec(name))
    kwargs = {"normalize_images": normalize}
    space = gymnasium.spaces.Box(-1, 1, shape) if shape == (3,) else gymnasium.spaces.Box(0, 255, shape, np.uint8)
    with (
        DQN(policy, (space, gymnasium.spaces.Discrete(3)), buffer_size=100, learning_starts=50, seed=1, policy_kwargs=kwargs) as model,
        model.policy_snapshot() as ours,
    ):
        obs = np.stack([space.sample() for _ in range(10)])
        values = model.q_net(torch.as_tensor(obs)).detach().numpy()
        np.testing.assert_allclose(values, ours.q_values(obs), atol=1e-4 * np.abs(values).max())
        assert set(model.policy.state_dict()) == set(model.get_parameters()["policy"])
    with A2C("MlpPolicy", "CartPole-v1") as model, pytest.raises(ConfigError, match="policy: needs stable-baselines3"):
        _ = model.policy


@both
def test_devices_and_policies_may_be_objects(cls):
    import torch
    from stable_baselines3.a2c import MlpPolicy as OfA2C
    from stable_baselines3.dqn import MlpPolicy as OfDQN

    with cls(OfDQN if cls is DQN else OfA2C, "CartPole-v1", **KEYWORDS[cls], device=torch.device("cpu")) as model:
        assert model.policy_name == "MlpPolicy" and model.device == torch.device("cpu")
    with pytest.raises(ConfigError, match="device"):
        cls("MlpPolicy", "CartPole-v1", device=torch.device("cuda"), **KEYWORDS[cls])


def test_policies_of_sb3_contrib_s_qrdqn_may_be_objects():
    policies = pytest.importorskip("sb3_contrib.qrdqn.policies", reason="sb3-contrib is not installed")
    space = gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8), gymnasium.spaces.Discrete(3)
    for policy, env in ((policies.MlpPolicy, "CartPole-v1"), (policies.CnnPolicy, space)):
        with QRDQN(policy, env, buffer_size=100, learning_starts=50, seed=1) as model:
            assert model.policy_name == ("CnnPolicy" if policy is policies.CnnPolicy else "MlpPolicy")
    with pytest.raises(ConfigError, match="policy: .*MultiInputPolicy.*: custom networks are not supported"):
        QRDQN(policies.MultiInputPolicy, "CartPole-v1")


def test_a_model_learns_in_sb3_atari_environments():
    """make_atari_env with frame stacks and transposed images, as in RL Zoo, and the library's
    recipe.
    """
    pytest.importorskip("cv2")
    import ale_py
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

    gymnasium.register_envs(ale_py)
    envs = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=2, seed=1), n_stack=4)
    small = {"buffer_size": 300, "learning_starts": 40, "batch_size": 8, "seed": 1}
    for given in (envs, VecTransposeImage(envs)):
        with DQN("CnnPolicy", given, **small) as model:
            model.learn(80)
            assert model.obs_layout.shape == (4, 84, 84) and model.predict(given.reset())[0].shape == (2,)
    with pytest.warns(paceline.PacelineWarning, match="recipe='sb3'"), DQN("CnnPolicy", "PongNoFrameskip-v4", num_envs=2, **small) as model:
        model.learn(80)
        assert model.recipe.startswith("sb3 ") and model.get_env().observation_space.shape == (4, 84, 84)
    envs.close()


class Far(gymnasium.Env):
    """Observations near 100. The sign of the first one's offset selects the action with reward 10.
    Episodes have 20 steps.
    """

    observation_space, action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def observe(self):
        self.now = self.np_random.normal(size=2)
        return (100 + self.now).astype(np.float32)

    def step(self, action):
        reward = 10.0 if (action == 1) == (self.now[0] > 0) else 0.0
        self.steps += 1
        return self.observe(), reward, False, self.steps == 20, {}


def _normalized(n, **keywords):
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

    if n == 1:
        return VecNormalize(VecMonitor(DummyVecEnv([Far])), training=False, norm_reward=False, **keywords)
    return VecNormalize(DummyVecEnv([lambda: Monitor(Far())] * n), **keywords)


@pytest.mark.parametrize("how", ["learn", "EvalCallback"])
def test_evaluation_uses_the_normalisation_of_training(how):
    from paceline.callbacks import EvalCallback

    envs, evaluation = _normalized(4), _normalized(1)
    with paceline.PPO("MlpPolicy", envs, n_steps=64, learning_rate=3e-3, seed=1) as model:
        if how == "learn":
            model.learn(7680, eval_freq=7680, n_eval_episodes=10, eval_env=evaluation)
            last = model.evaluations[-1][1]
        else:
            model.learn(7680, callback=(callback := EvalCallback(evaluation, n_eval_episodes=10, eval_freq=7680, verbose=0)))
            last = callback.evaluations[-1][1]
        assert last.mean_return > 160  # the maximum is 200, chance is 100
        np.testing.assert_allclose(evaluation.obs_rms.mean, 100, atol=0.2)
        assert evaluation.obs_rms is not envs.obs_rms
        # The model learns from normalised rewards and shows the Monitor's.
        assert model.stats["mean_return"] < 50 < model.ep_info_buffer[-1]["r"]
        at, length = model.num_timesteps, len(model.learning_curve.steps)
        for bad in (Far(), _made(1)):
            arguments = {"eval_freq": 64, "eval_env": bad} if how == "learn" else {"callback": [EvalCallback(bad)]}
            with pytest.raises(ConfigError, match="eval_env: .* in no VecNormalize, must be in one, as the model's environments are"):
                model.learn(64, **arguments)
        assert (model.num_timesteps, len(model.learning_curve.steps)) == (at, length)
    with A2C("MlpPolicy", Far(), seed=1) as model, pytest.raises(ConfigError, match="in a VecNormalize, must be in none"):
        model.learn(64, eval_freq=64, eval_env=evaluation)
    envs, evaluation = _normalized(4, norm_obs=False), _normalized(1, norm_obs=False)
    with A2C("MlpPolicy", envs, seed=1) as model:
        model.learn(40, eval_freq=20, eval_env=evaluation, n_eval_episodes=1)
        assert evaluation.ret_rms.mean == envs.ret_rms.mean


@pytest.mark.parametrize("given", ["Env", "DummyVecEnv", "SubprocVecEnv", "VecMonitor"])
def test_episodes_of_monitors_are_shown(given):
    """The Monitor's episodes count, also inside wrappers that change rewards or end episodes at a
    lost life.
    """
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor

    from test_monitor import Thirds, hundredth

    def one():
        return Thirds(hundredth(Monitor(Steps())))

    def plain():
        return hundredth(Steps())

    envs = {
        "Env": one,
        "DummyVecEnv": lambda: DummyVecEnv([one] * 2),
        "SubprocVecEnv": lambda: SubprocVecEnv([one] * 2, start_method="fork"),
        "VecMonitor": lambda: VecMonitor(DummyVecEnv([Steps] * 2)),
    }[given]()
    with DQN("MlpPolicy", envs, **SMALL) as model:
        model.learn(100)
        assert {(episode["r"], episode["l"]) for episode in model.ep_info_buffer} == {(6.0, 6), (9.0, 9)}
        result = model.evaluate(envs, 4)
        assert set(result.returns) == {6.0, 9.0}
        theirs, _ = evaluate_policy(model, envs, n_eval_episodes=4)
        assert 6 <= theirs <= 9
        assert model.evaluate(plain(), 2).returns == pytest.approx((0.09, 0.06))
    envs.close()


def test_get_env_during_learn_only_shows_the_environments():
    """Stable-baselines3's own EvalCallback reads training_env, whose steps would break off the episodes in progress."""
    from stable_baselines3.common import callbacks
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([Steps] * 2))
    with A2C("MlpPolicy", env, seed=1) as model:
        model.learn(40)
        evaluation = callbacks.EvalCallback(VecNormalize(DummyVecEnv([Steps]), training=False), eval_freq=10, verbose=0)
        model.learn(40, callback=evaluation, reset_num_timesteps=False)  # a warning about other types would be an error
        assert len(evaluation.evaluations_results or [1]) and model.get_env().obs_rms is env.obs_rms
        with pytest.raises(BusyError, match="get_env.*reset: learn is in progress and steps these environments"):
            model.learn(40, callback=lambda *_: evaluate_policy(model, model.get_env(), 1), reset_num_timesteps=False)
        assert evaluate_policy(model, model.get_env(), 1, warn=False)[0] > 0
        model.learn(40, reset_num_timesteps=False)


def test_evaluation_in_the_training_environment_is_refused():
    from stable_baselines3.common import callbacks
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = Steps()
    for given, same in ((env, DummyVecEnv([lambda: env])), (_normalized(4), None)):
        with A2C("MlpPolicy", given, seed=1) as model:
            for one in (same, model.get_env()):
                if one is None:
                    continue
                with pytest.raises(ConfigError, match="eval_env: .*, the environment that the model learns in"):
                    model.learn(20, eval_freq=5, eval_env=one)
                with pytest.raises(ConfigError, match="eval_env: .*, the environment that the model learns in"):
                    model.learn(20, callback=[callbacks.EvalCallback(one, eval_freq=5, verbose=0)])
            model.learn(20)
