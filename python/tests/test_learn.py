"""learn: refused arguments, callbacks that end it, loggers, its exclusive environments, and close."""

import copy
import math
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import worker_envs
from envs import MODES, SMALL, Counter, Steps, vector
from paceline import A2C, DQN, PPO
from paceline.callbacks import BaseCallback, CallbackList, ConvertCallback, EvalCallback, EveryNTimesteps
from paceline.errors import BusyError, ConfigError, SpaceError
from paceline.logger import configure

# ------------------------------------------------------------- ends of learning


class Returns(BaseCallback):
    """Returns `result` from the third call on."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def _on_step(self):
        return True if self.n_calls < 3 else self.result


RESULTS = [(False, 3), (np.False_, 3), (0, 3), (np.float32(0), 3), ("", 3), (None, 20), (True, 20), (np.True_, 20), (1, 20)]


@pytest.mark.parametrize("result, steps", RESULTS, ids=lambda value: repr(value))
@pytest.mark.parametrize("form", ["object", "list", "function", "list of functions", "events"])
def test_any_falsy_result_except_none_ends_learning(form, result, steps):
    one = Returns(result)
    callback = {
        "object": one,
        "list": CallbackList([BaseCallback(), one]),
        "function": lambda locals_, _: None if locals_["self"].num_timesteps < 3 else result,
        "list of functions": [lambda locals_, _: True if locals_["self"].num_timesteps < 3 else result, Returns(True)],
        "events": EveryNTimesteps(1, Returns(result)),
    }[form]
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        assert model.learn(20, callback=callback).num_timesteps == steps


@pytest.mark.parametrize("result", [np.False_, None])
def test_callback_on_new_best_can_end_learning(result):
    best = EvalCallback("CartPole-v1", callback_on_new_best=ConvertCallback(lambda *_: result), n_eval_episodes=1, eval_freq=5, verbose=0)
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        assert model.learn(20, callback=best).num_timesteps == (20 if result is None else 5)


# ---------------------------------------------------------------- wrong arguments

WRONG = [
    ({"callback": 5}, TypeError, "callback: int, must be a callback object"),
    ({"callback": [5]}, TypeError, "callback: int, must be a callback object"),
    ({"eval_freq": 100, "eval_env": "NoSuch-v0"}, ConfigError, 'eval_env: environment "NoSuch-v0" is not known'),
    ({"eval_freq": 100, "eval_env": "Acrobot-v1"}, ConfigError, r"eval_env: observations \(6,\) and 3 actions, must be \(4,\)"),
    ({"eval_freq": 100, "eval_env": Steps()}, ConfigError, r"eval_env: observations \(2,\)"),
    ({"eval_freq": 100, "eval_env": 7}, ConfigError, "eval_env: builtins.int, must be"),
    ({"callback": [EvalCallback("Acrobot-v1")]}, ConfigError, r"eval_env: observations \(6,\)"),
    ({"callback": EveryNTimesteps(9, EvalCallback("Acrobot-v1"))}, ConfigError, r"eval_env: observations \(6,\)"),
    ({"eval_freq": -1}, ConfigError, "eval_freq: -1, must be a number, at least 0"),
    ({"eval_freq": math.nan}, ConfigError, "eval_freq: nan, must be a number"),
    ({"eval_freq": 100, "n_eval_episodes": 0}, ConfigError, "n_eval_episodes: 0, must be 1 to 1000000"),
    ({"log_interval": "x"}, ConfigError, "log_interval: 'x', must be 0 to"),
    ({"tb_log_name": 5}, ConfigError, "tb_log_name: 5, must be a str or None"),
    *[({"total_timesteps": value}, ConfigError, f"total_timesteps: {value!r}, must be a number, at least 1")
      for value in (math.nan, math.inf, None, 0, "9", 2**51, True - 1)],
]  # fmt: skip


def test_a_refused_learn_changes_nothing():
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        model.learn(100.0, eval_freq=5e1, n_eval_episodes=1)
        model.logger.record("a", 1)
        before = model.hashes(), model.num_timesteps, model.best_policy, model.logger, model.learning_curve
        for keywords, error, says in WRONG:
            with pytest.raises(error, match=says) as caught:
                model.learn(**({"total_timesteps": 50} | keywords))
            assert "\n" not in str(caught.value)
        assert (model.hashes(), model.num_timesteps, model.best_policy, model.logger, model.learning_curve) == before
        assert len(model.evaluations) == 2 and model.learning_curve.steps[-1] == 100 and model.logger.name_to_value["a"] == 1
        assert model.learn(50, reset_num_timesteps=False).num_timesteps == 150
    with pytest.raises(ConfigError, match="n_eval_episodes: 0, must be 1"):
        EvalCallback("CartPole-v1", n_eval_episodes=0)


def test_a_failed_reset_changes_nothing(tmp_path):
    pytest.importorskip("tensorboard")
    env = Steps()
    with A2C("MlpPolicy", env, seed=1, tensorboard_log=str(tmp_path)) as model:
        curve = model.learn(100).learning_curve
        logger, env.reset = model.logger, None
        with pytest.raises(TypeError):
            model.learn(50)
        assert model.num_timesteps == 100 and model.learning_curve is curve and model.logger is logger and logger._outputs
        del env.reset
        model.learn(50, reset_num_timesteps=False)
        assert model.num_timesteps == 150


@pytest.mark.parametrize(
    "obs, says",
    [
        (gymnasium.make("CartPole-v1").reset(), r"observation: a tuple \(observation, info\), must be .*obs, info = env.reset\(\)"),
        ([[1.0, 2.0], [3.0]], r"observation is a list of parts that differ in shape, its space says \(4,\)"),
        ((np.zeros(4), np.zeros(3)), r"observation is a tuple of parts that differ in shape"),
    ],
)
def test_values_that_are_no_observations_are_refused(obs, says):
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        with pytest.raises(SpaceError, match=says):
            model.predict(obs)
        with model.policy_snapshot() as policy, pytest.raises(SpaceError, match=says):
            policy.act(obs)


# ------------------------------------------------------------------------ logs


def test_the_logger_stays_open_until_the_next_learn(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with A2C("MlpPolicy", "CartPole-v1", seed=1, tensorboard_log=str(tmp_path)) as model:
        model.learn(20)
        first = model.logger
        first.record("final/x", 3.5)
        first.dump(20)
        model.learn(20)
        # the next logger closes the first
        assert model.logger is not first and first._outputs == {}
        second = model.logger
        assert second._outputs
    assert second._outputs == {}
    events = EventAccumulator(str(tmp_path / "A2C_1"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("final/x")] == [(20, 3.5)]
    with A2C("MlpPolicy", "CartPole-v1", seed=1, tensorboard_log=str(tmp_path)) as model:
        own = model.learn(5).logger
        model.set_logger(mine := configure(tmp_path, ["json"]))
        assert own._outputs == {}
        model.learn(5)
    assert mine._outputs
    mine.close()


@pytest.mark.parametrize("run", ["run[1]", "a/b", "*", "absolute"])
def test_each_run_of_a_name_has_its_own_folder(tmp_path, run):
    pytest.importorskip("tensorboard")
    run = str(tmp_path / run) if run == "absolute" else run
    with A2C("MlpPolicy", "CartPole-v1", seed=1, tensorboard_log=str(tmp_path)) as model:
        for number, new in ((1, True), (2, True), (2, False)):
            model.learn(20, tb_log_name=run, reset_num_timesteps=new)
            assert model.logger.dir == str(tmp_path / f"{run}_{number}")


@pytest.mark.parametrize("folder", ["/dev/null/x", "file", 5])
def test_a_wrong_tensorboard_log_is_named(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with A2C("MlpPolicy", "CartPole-v1", seed=1, tensorboard_log=folder) as model:
        with pytest.raises(ConfigError, match=f"^tensorboard_log: {folder}"):
            model.learn(20)
        assert model.num_timesteps == 0


def test_a_logger_may_have_no_formats(tmp_path, monkeypatch):
    monkeypatch.setenv("SB3_LOG_FORMAT", "json")
    logger = configure(tmp_path / "none", [])
    logger.record("a", 1)
    logger.dump(1)
    assert logger._outputs == {} and list((tmp_path / "none").iterdir()) == []
    logger = configure(tmp_path / "variable")
    assert list(logger._outputs) == ["json"]
    logger.close()


# ------------------------------------------- evaluation where the model learns


class Seven(gymnasium.Env):
    """Observes the number of steps. Episodes have 7 steps."""

    observation_space, action_space = gymnasium.spaces.Box(0, 7, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps == 7, False, {}


@pytest.mark.parametrize("cls", [DQN, A2C])
def test_evaluation_in_the_training_environment_is_refused(cls):
    keywords = SMALL if cls is DQN else {"seed": 1}
    env = Seven()
    vector = gymnasium.vector.SyncVectorEnv([Seven, lambda: env])
    other = gymnasium.wrappers.TimeLimit(env, 5)
    for given, same in ((env, env), (env, other), (env, vector), (vector, env), (other, env), (vector, other)):
        with cls("MlpPolicy", given, **keywords) as model:
            says = "eval_env: .*, the environment that the model learns in, must be another one while it learns: the evaluation would"
            for arguments in (
                {"eval_freq": 4, "eval_env": same},
                {"callback": EvalCallback(same)},
                {"callback": [EveryNTimesteps(4, EvalCallback(same))]},
            ):
                with pytest.raises(ConfigError, match=says):
                    model.learn(20, **arguments)
            with pytest.raises(ConfigError, match="^env: .*, the environment that the model learns in"):
                model.learn(20, callback=lambda locals_, _: locals_["self"].evaluate(same, 1))  # noqa: B023
            model.learn(20, eval_freq=8, eval_env=Seven(), n_eval_episodes=1)


def test_an_evaluation_between_two_learns_ends_the_episode():
    """The next learn resets the environment, so no transition leads across the evaluation."""
    seen = []

    def look(locals_, _):
        seen.append((locals_["new_obs"][0, 0], bool(locals_["dones"][0])))

    env = Seven()
    with DQN("MlpPolicy", env, **SMALL) as model:
        model.learn(4, callback=look)
        assert model.evaluate(env, 1).lengths == (7,)
        model.learn(9, callback=look, reset_num_timesteps=False)
        assert seen == [(n, n == 7) for n in (1, 2, 3, 4, 1, 2, 3, 4, 5, 6)] + [(0, True), (1, False), (2, False)]
        # one episode of 4 + 7 steps would be wrong
        assert [episode["l"] for episode in model.ep_info_buffer] in ([7], [4, 7])
        model.evaluate(Seven(), 1)  # another environment object
        model.learn(2, callback=look, reset_num_timesteps=False)
        assert [n for n, _ in seen[-2:]] == [3, 4]


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "Counter-v0", EnvSpec("Counter-v0", Counter, max_episode_steps=99))


def all_happened(model):
    """Whether every stored transition that does not end an episode leads to the next step of the same episode."""
    stored = model.replay_buffer.read(range(int(model.stats["replay_size"])))
    going = stored.dones[:, 0] == 0
    before, after = stored.observations[going], stored.next_observations[going]
    return np.array_equal(after[:, :3], before[:, :3] + [0, 0, 1])


OWN = {
    "single": lambda: (Counter(), {}),
    "id": lambda: ("Counter-v0", {}),
    "ids": lambda: ("Counter-v0", {"num_envs": 2}),
    "workers": lambda: ("Counter-v0", {"num_envs": 2, "env_kwargs": {"workers": 2}}),
    **{mode.value: lambda mode=mode: (vector(mode, 2), {}) for mode in MODES},
}


class Drawn(Counter):
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode


@pytest.mark.parametrize("cls", [Drawn, Counter])
def test_an_id_makes_an_environment_that_renders(cls, monkeypatch, recwarn):
    """As stable-baselines3 makes it, if the environment can; the documentation's GIFs are made of model.env.render()."""
    monkeypatch.setitem(gymnasium.registry, "Counter-v0", EnvSpec("Counter-v0", cls, max_episode_steps=99))
    with DQN("MlpPolicy", "Counter-v0", **SMALL) as model:
        assert model._environments.env.unwrapped.render_mode == ("rgb_array" if cls is Drawn else None)
    with pytest.raises(TypeError, match="other"):
        DQN("MlpPolicy", "Counter-v0", env_kwargs={"other": 1}, **SMALL)
    assert not [w for w in recwarn if "render_mode" in str(w.message)]


@pytest.mark.parametrize("kind", OWN)
def test_a_step_through_get_env_cuts_the_episodes(kind, registered):
    """The next learn resets, and learn in progress refuses the step: no transition is stored that did not happen."""
    env, keywords = OWN[kind]()
    with DQN("MlpPolicy", env, **SMALL, **keywords) as model:
        given = model.get_env()
        action = 0 if isinstance(given, gymnasium.Env) else np.zeros(model.n_envs, int)
        model.learn(71)
        given.reset()
        given.step(action)
        model.learn(71, reset_num_timesteps=False)
        assert all_happened(model)
        for use in (given.reset, lambda: given.step(action)):
            with pytest.raises(BusyError, match="get_env.*: learn is in progress and steps these environments, must be "):
                model.learn(20, callback=lambda *_: use(), reset_num_timesteps=False)  # noqa: B023
            model.learn(21, reset_num_timesteps=False)
        assert all_happened(model)


def test_the_result_of_get_env_has_the_attributes_of_the_environment():
    env = Counter(5)
    with DQN("MlpPolicy", env, **SMALL) as model:
        given = model.get_env()
        if not isinstance(given, gymnasium.Env):
            pytest.skip("stable-baselines3 is installed")
        assert isinstance(given, Counter) and given is model.get_env() and type(given).__name__ == "Counter"
        given.number = 6
        given.reset()
        assert env.number == 6 and env.resets == 1
        for same in (pickle.loads(pickle.dumps(given)), copy.copy(given), copy.deepcopy(given)):
            assert type(same) is Counter and same.resets == 1 and same is not env
        with pytest.raises(ConfigError, match="eval_env: .*, the environment that the model learns in"):
            model.learn(20, eval_freq=4, eval_env=given)


@pytest.mark.parametrize("kind", ["id", "ids", "workers"])
@pytest.mark.parametrize("again", ["get_env", "env", "wrapper"])
def test_set_env_keeps_environments_that_it_is_given_again(kind, again, registered):
    env, keywords = OWN[kind]()
    model = DQN("MlpPolicy", env, **SMALL, **keywords)
    model.learn(71)
    own, given = model._environments.env, model.get_env()
    if again == "wrapper":
        given = gymnasium.Wrapper(own) if model.n_envs == 1 else gymnasium.wrappers.vector.RecordEpisodeStatistics(own)
    model.set_env(own if again == "env" else given)
    assert model._environments.env is (given if again == "wrapper" else own)
    model.learn(71, reset_num_timesteps=False)
    assert all_happened(model)
    if again == "get_env":
        given.reset()
        model.learn(71, reset_num_timesteps=False)
        assert all_happened(model)
    n = model.n_envs
    model.close()
    if n > 1:
        assert own.closed  # the model made these environments, so it closes them


@pytest.mark.parametrize("progress_bar", [False, True])
def test_the_exception_of_a_callback_stays(progress_bar):
    """Also if the trainer cannot be stopped any more."""

    def fail(locals_, _):
        locals_["self"].close()
        raise ZeroDivisionError("mine")

    for env in ("CartPole-v1", Counter()):
        model = DQN("MlpPolicy", env, **SMALL)
        with pytest.raises(ZeroDivisionError, match="^mine$"):
            model.learn(20, callback=fail, progress_bar=progress_bar)


# ------------------------------------------------------------------ close


class Closing(worker_envs.Counting):
    """Fails in its first close."""

    closed = 0

    def close(self):
        self.closed += 1
        if self.closed == 1:
            raise RuntimeError("close fails")


@pytest.mark.parametrize("n", [1, 3])
def test_a_failing_close_hides_no_error_and_ends_the_model(n, monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "Closing-v0", EnvSpec("Closing-v0", Closing))
    with pytest.raises(ConfigError, match="^gamma: 5, must be "):
        PPO("MlpPolicy", "Closing-v0", num_envs=n, gamma=5)
    with PPO("MlpPolicy", "CartPole-v1", num_envs=n) as model, pytest.raises(ConfigError, match="^env: "):
        model.set_env("Closing-v0")
    model = PPO("MlpPolicy", "Closing-v0", num_envs=n, n_steps=8, batch_size=8)
    with pytest.raises(RuntimeError, match="^close fails$"):
        model.close()
    assert model.closed
    model.close()
