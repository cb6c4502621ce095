"""Scripts of Stable-Baselines3 run without it: files, attributes, ids, spaces."""

import io
import warnings
from collections import deque

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

import paceline
from envs import SMALL, Walk
from paceline import A2C, DQN, PPO, PacelineWarning, Policy, make_vec
from paceline.errors import ConfigError, SpaceError

# learn(100) is whole rollouts of PPO
KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}, PPO: {"seed": 1, "n_steps": 50, "batch_size": 25}}
each = pytest.mark.parametrize("cls", list(KEYWORDS))


@pytest.fixture
def rom():
    """Skips the test if the ROM of Pong is missing."""
    try:
        make_vec("Pong").close()
    except ConfigError as err:
        pytest.skip(f"no ROM: {err}")


# ---------------------------------------------------------------------- files


@each
def test_the_documented_script_runs(cls, tmp_path, monkeypatch):
    """The first example of Stable-Baselines3's documentation runs: learn, save, load without env,
    predict.
    """
    monkeypatch.chdir(tmp_path)
    env = gymnasium.make("CartPole-v1")
    model = cls("MlpPolicy", env, **KEYWORDS[cls])
    model.learn(total_timesteps=300, log_interval=4)
    expected = model.get_parameters()["policy"]
    model.save("dqn_cartpole")
    model.close()
    del model
    assert [path.name for path in tmp_path.iterdir()] == ["dqn_cartpole.zip"]
    for name in ("dqn_cartpole", "dqn_cartpole.zip", tmp_path / "dqn_cartpole"):
        with cls.load(name, print_system_info=True, custom_objects={"learning_rate": 1e-3, "lr_schedule": None}) as model:
            assert model.learning_rate == 1e-3
            for key, array in model.get_parameters()["policy"].items():
                np.testing.assert_array_equal(array, expected[key])
            obs, _ = env.reset()
            action, _states = model.predict(obs, deterministic=True)
            env.step(action)


def test_files_are_saved_under_the_given_name(tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.learn(200)
        (tmp_path / "best").mkdir()  # a folder of the same name does not matter
        for name, file in (("best", "best.zip"), ("new/dir/x", "new/dir/x.zip"), ("x.paceline", "x.paceline")):
            model.save(tmp_path / name)
            assert (tmp_path / file).is_file()
            DQN.load(tmp_path / name).close()
            Policy.load(tmp_path / name).close()
        buffer = io.BytesIO()
        model.save(buffer, replay=True)
        hashes = model.hashes()
    buffer.seek(0)
    with DQN.load(buffer) as model:
        assert model.hashes() == hashes


def test_a_saved_replay_buffer_is_loaded(tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.learn(300)
        model.save_replay_buffer(tmp_path / "buffer")
        hashes, size = model.hashes(), model.replay_buffer.size()
        assert size == len(model.replay_buffer) == 300 and not model.replay_buffer.full
        # pending: the steps of the window in progress
        assert model.stats["replay_size"] == 264 and model.stats["replay_pending"] == 36
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "seed": 9}) as model:
        model.learn(150)
        weights = model.hashes().weights
        model.load_replay_buffer(tmp_path / "buffer.pkl")
        assert model.hashes().replay == hashes.replay and model.hashes().weights == weights
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps == 250
        with pytest.raises(ConfigError, match="truncate_last_traj: False, must be True"):
            model.load_replay_buffer(tmp_path / "buffer.pkl", truncate_last_traj=False)
    with A2C("MlpPolicy", "CartPole-v1") as model, pytest.raises(ConfigError, match="a2c is an on-policy method"):
        model.load_replay_buffer(tmp_path / "buffer")


@each
def test_set_env_changes_between_built_in_and_python_environments(cls, tmp_path):
    """The model changes between built-in environments and those stepped from Python, also from a
    file.

    Only the spaces must agree. Weights and counts stay.
    """
    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        model.learn(200)
        weights = model.hashes().weights
        model.save(tmp_path / "built_in", replay=True)
        model.set_env(gymnasium.make("CartPole-v1"))
        assert model.hashes().weights == weights and model.num_timesteps == 200
        model.learn(100, reset_num_timesteps=False)
        model.set_env("CartPole-v1")
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps == 400
        with pytest.raises(ConfigError, match=r"env: \(shape, dtype, actions, num_envs\)"):
            model.set_env(gymnasium.make("Acrobot-v1"))
    with cls.load(tmp_path / "built_in", env=gymnasium.make("CartPole-v1")) as model:
        assert model.hashes().weights == weights
        model.learn(100, reset_num_timesteps=False)


# ----------------------------------------------------------------- attributes


def test_models_have_the_attributes_of_sb3():
    def rate(progress):
        return 1e-3 * progress

    changed = {"learning_rate": rate, "policy_kwargs": {"net_arch": [16, 8]}, "train_freq": 8}
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, **changed}) as model:
        assert model.learning_rate is rate and model.lr_schedule(0.5) == 5e-4
        assert (model.gamma, model.tau, model.n_envs, model.batch_size) == (0.99, 1.0, 1, int(model.setting("batch_size")))
        assert model.train_freq == (8, "step") and model.train_freq.frequency == 8 and model.gradient_steps == 1
        assert model.net_arch == [16, 8] and model.policy_kwargs == {"net_arch": [16, 8]}
        assert model.exploration_initial_eps == 1.0 and 0 <= model.exploration_final_eps <= 1
        assert model.device == "cpu" or str(model.device) == "cpu"
        assert model.get_vec_normalize_env() is None and model.use_sde is False and model.policy_class == "MlpPolicy"
        assert model.observation_space.shape == (4,) and model.action_space.n == 2
        model.learn(300)
        assert isinstance(model.ep_info_buffer, deque) and 0 < len(model.ep_info_buffer) <= 100
        assert np.mean([episode["r"] for episode in model.ep_info_buffer]) == pytest.approx(model.stats["mean_return"])
        assert model._n_updates == model.stats["updates"] and model._current_progress_remaining == 0
        for name in ("nothing", "rollout_buffer", "q_net_nothing"):
            with pytest.raises(AttributeError, match=name):
                getattr(model, name)
            assert not hasattr(model, name)
        assert not hasattr(model, "ent_coef")
        model.set_random_seed(model.seed)
        with pytest.raises(ConfigError, match="seed: 77, must be given when the model is made"):
            model.set_random_seed(77)
    with A2C("MlpPolicy", "CartPole-v1", learning_rate=(1e-3, 0.0)) as model:
        assert model.gae_lambda == 1.0 and model.n_steps == 5 and model.normalize_advantage is False
        assert model.lr_schedule(0.25) == pytest.approx(2.5e-4)
        for name in ("replay_buffer", "q_net"):
            with pytest.raises(AttributeError, match=name):
                getattr(model, name)


def test_unknown_keywords_name_an_alternative():
    for name, says in {
        "prioritized_replay_alpha": "DQN has prioritized, priority_alpha and priority_beta",
        "lerning_rate": "did you mean learning_rate?",
        "duelling": "did you mean dueling?",
    }.items():
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}': .*{says}"):
            DQN("MlpPolicy", "CartPole-v1", **{name: 1})
    with pytest.raises(TypeError, match="'dueling': only DQN and Gorila have dueling networks"):
        A2C("MlpPolicy", "CartPole-v1", dueling=True)
    with pytest.raises(TypeError, match="'xyz'$"):
        A2C.from_preset("tuned", "CartPole-v1", xyz=1)


# ------------------------------------------------------------- names and spaces


@pytest.mark.parametrize("id", ["ALE/Pong-v5", "PongNoFrameskip-v4", "Pong-v5", "paceline/Pong-v0", "atari/pong"])
def test_ids_of_atari_games_name_the_built_in_game(id):
    from paceline.envs import _ids

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        meaning = _ids.meaning(id)
    assert meaning.name in ("Pong", "atari/pong")
    others = "v5" in id or "v4" in id
    assert [str(w.message).startswith(repr(id)) and "replaces it" in str(w.message) for w in caught] == [True] * others
    assert bool(meaning.env_kwargs) == others


def test_every_id_of_ale_py_names_a_built_in_game(process):
    pytest.importorskip("ale_py")
    process(
        "import gymnasium, ale_py; from paceline.envs import _ids; "
        "ids = [id for id in gymnasium.registry if id.startswith('ALE/')]; "
        "assert len(ids) > 100 and all(map(_ids.atari, ids)), [id for id in ids if not _ids.atari(id)]"
    )


@pytest.mark.parametrize("id", ["ALE/Pong-v5", "PongNoFrameskip-v4", "Pong-v5"])
def test_ids_of_atari_games_name_the_built_in_game_if_gymnasium_knows_them(id, rom, monkeypatch):
    """ale-py registers the ids when it is imported; the import must not change their meaning."""
    monkeypatch.setitem(gymnasium.registry, id, EnvSpec(id, entry_point=lambda: Walk(spaces.Box(-1, 1, (3,)))))
    with pytest.warns(PacelineWarning, match=f"^'{id}': .*, the library's own 'Pong'") as caught:
        envs = make_vec(id, 2)
        env = paceline.make(id)
    assert {warning.filename for warning in caught} == {__file__}
    assert envs.reset(seed=1)[0].shape == (2, 4, 84, 84) and env.reset(seed=1)[0].shape == (4, 84, 84)
    assert envs.recipe.startswith("sb3") == id.startswith("PongNo")
    with pytest.raises(ConfigError, match=f"^workers: 2, must be None for {id}: "), pytest.warns(PacelineWarning):
        make_vec(id, 2, workers=2)
    envs.close()
    env.close()


def test_ids_of_gymnasium_are_made():
    gymnasium.register("WalkForSwap-v0", entry_point=lambda: Walk(spaces.Box(-1, 1, (3,))))
    with DQN("MlpPolicy", "WalkForSwap-v0", **SMALL) as model:
        model.learn(120)
        assert model.stats["mean_return"] in (7.5, 7.615384615384615, pytest.approx(7.6, abs=0.2)) and model.env_name is None
        assert model.evaluate("WalkForSwap-v0", 2).returns == (9.0, 6.0)
    with pytest.raises(ConfigError, match="Walk7"):
        DQN("MlpPolicy", "Walk7-v0", **SMALL)


SPACES = [
    spaces.Discrete(5, start=2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(6),
    spaces.Box(-9, 9, (2, 3), np.int64),
    spaces.Box(0, 255, (7,), np.uint8),
    spaces.Box(0, 1, (4,), np.bool_),
    spaces.Box(-1, 1, (3, 2), np.float64),
]


@each
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_observation_space_is_learnt_from(cls, space, tmp_path):
    env = Walk(space)
    with cls("MlpPolicy", env, **KEYWORDS[cls]) as model:
        model.learn(150)
        batch = np.stack([space.sample() for _ in range(20)])
        actions = model.predict(batch, deterministic=True)[0]
        assert set(actions) <= {3, 4} and model.predict(batch[0], deterministic=True)[0] == actions[0]
        model.save(tmp_path / "model")
        assert model.evaluate(Walk(space), 2).returns == (9.0, 6.0)
    for loaded in (cls.load(tmp_path / "model"), Policy.load(tmp_path / "model")):
        with loaded:
            np.testing.assert_array_equal(loaded.predict(batch, deterministic=True)[0], actions)


# ------------------------------------------------------------ begin, act, observe


@each
@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_an_own_loop_equals_learn(cls, mode):
    """A loop of begin, act and observe gives the same bits as learn, in every mode.

    Arrays may be overwritten after every call.
    """

    def made():
        return gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode)

    with cls("MlpPolicy", made(), **KEYWORDS[cls]) as model:
        expected, steps = model.learn(600).hashes(), model.num_timesteps
    envs = made()
    pair = (envs.single_observation_space, envs.single_action_space)
    for env, keywords in ((envs, {}), *([(pair, {"num_envs": 3})] if mode.value != "NextStep" else [])):
        with cls("MlpPolicy", env, **KEYWORDS[cls], **keywords) as model:
            obs, _ = envs.reset(seed=KEYWORDS[cls]["seed"])
            model.begin(600, obs)
            while model.num_timesteps < steps:
                actions = model.act()
                obs, rewards, terminated, truncated, infos = envs.step(actions)
                final, done = infos.get("final_obs"), terminated | truncated
                if mode.value == "Disabled" and done.any():
                    final = obs.copy()
                    obs, _ = envs.reset(options={"reset_mask": done})
                given = [array.copy() for array in (obs, rewards, terminated, truncated)]
                model.observe(*given, final)
                actions[:] = 0
                for array in given:
                    array[...] = 0
            assert model.hashes() == expected


def test_an_own_loop_refuses_bad_arguments():
    pair = (spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    obs, zeros, no = np.zeros((2, 3), np.float32), np.zeros(2), np.zeros(2, bool)
    with DQN("MlpPolicy", pair, num_envs=2, **SMALL) as model:
        with pytest.raises(ConfigError, match="act: no run was begun"):
            model.act()
        with pytest.raises(SpaceError, match=r"obs: observation of shape \(3, 3\)"):
            model.begin(100, np.zeros((3, 3), np.float32))
        model.begin(100, obs)
        model.act()
        with pytest.raises(SpaceError, match="rewards: 3 values, must be 2"):
            model.observe(obs, np.zeros(3), no, no)
        with pytest.raises(SpaceError, match="final_obs: None for environment 1, must be an observation: its episode was truncated"):
            model.observe(obs, zeros, no, np.array([False, True]))
        model.observe(obs, zeros, no, no)
        with pytest.raises(ConfigError, match="env: None, must be an environment for learn"):
            model.learn(10)
    with (
        DQN("MlpPolicy", "CartPole-v1", **SMALL) as model,
        pytest.raises(ConfigError, match="begin: env 'CartPole-v1', must be a Gymnasium environment"),
    ):
        model.begin(10, obs)


def test_ids_that_gymnasium_cannot_make_are_refused():
    """Gymnasium's message names the existing version or the missing package."""

    def needs(**keywords):
        raise gymnasium.error.DependencyNotInstalled("Box3D is not installed,\n pip install it")

    gymnasium.register("Needs-v0", needs)
    lander = "'LunarLander-v2', must be registered with Gymnasium: .* is deprecated. Please use `LunarLander-v3` instead"
    lake = "'FrozenLake-v7', must be registered with Gymnasium: Environment version `v7` .* doesn't exist"
    try:
        for id, says in [
            ("LunarLander-v2", f"^env: {lander}"),
            ("FrozenLake-v7", f"^env: {lake}"),
            ("CartPole-v7", "CartPole-v1"),
            ("Needs-v0", "^env: 'Needs-v0', Gymnasium cannot make this environment: Box3D is not installed, pip install it$"),
            ("Nothing-v0", '^environment "Nothing-v0" is not known'),
        ]:
            with pytest.raises(ConfigError, match=says):
                DQN("MlpPolicy", id, **SMALL)
        with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model, pytest.raises(ConfigError, match=f"^eval_env: {lander}"):
            model.learn(100, eval_freq=50, eval_env="LunarLander-v2")
        with pytest.raises(ConfigError, match=f"^id: {lake}"):
            make_vec("FrozenLake-v7")
    finally:
        del gymnasium.registry["Needs-v0"]


def test_vectors_of_ale_py_are_learnt_from(rom):
    vectors = pytest.importorskip("ale_py.vector_env", reason="ale-py has no vector environment")
    with A2C("CnnPolicy", vectors.AtariVectorEnv("pong", num_envs=2), seed=1) as model:
        model.learn(40)
        assert model.num_timesteps == 40 and model.stats["updates"] == 4


def test_get_env_works_without_sb3(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    envs = make_vec("CartPole-v1", 2)
    for env in (gymnasium.make("CartPole-v1"), envs):
        with DQN("MlpPolicy", env, **SMALL) as model:
            assert isinstance(model.get_env(), type(env))
    with DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL) as model:
        obs, _ = model.get_env().reset(seed=1)
        assert obs.shape == (2, 4)


def test_atari_environments_have_action_meanings(rom):
    pong = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    assert paceline.make("Pong").get_action_meanings() == pong
    assert gymnasium.make("paceline/Pong-v0").unwrapped.get_action_meanings() == pong
    assert len(make_vec("Pong", 2, full_action_space=True).get_action_meanings()) == 18
    assert make_vec("CartPole-v1").get_action_meanings() == []


def test_warnings_name_the_line_of_the_call(rom, tmp_path):
    small = {"buffer_size": 200, "learning_starts": 50, "policy": "CnnPolicy"}
    calls = [
        lambda: DQN(env="Pong-v5", **small),
        lambda: DQN.from_preset("sb3", "Pong-v5", buffer_size=200),
        lambda: DQN("MlpPolicy", "CartPole-v1", **SMALL, replay_buffer_kwargs={"handle_timeout_termination": False}),
        lambda: DQN("MlpPolicy", "CartPole-v1", **SMALL, tau=0.5),
    ]
    for call in calls:
        with pytest.warns(PacelineWarning) as caught, call() as model:
            model.save(tmp_path / "model")
        assert {warning.filename for warning in caught} == {__file__}


def test_wrong_arguments_are_refused():
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        for call, says in [
            (lambda: model.set_logger(None), "logger: None, must have the method record"),
            (lambda: model.learn("many"), "total_timesteps: 'many', must be a number"),
            (lambda: DQN("MlpPolicy", "CartPole-v1", policy_kwargs=[1]), "policy_kwargs: .*, must be a dict"),
            (lambda: DQN("MlpPolicy", (1, 2)), "env: builtins.tuple, must be the name .* or a pair"),
        ]:
            with pytest.raises(ConfigError, match=says):
                call()


ZOO = {
    "CartPole-v1": {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
    },
    "MountainCar-v0": {
        "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10000, "learning_starts": 1000, "gamma": 0.98,
        "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
    },
    "Acrobot-v1": {
        "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50000, "learning_starts": 0, "gamma": 0.99,
        "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
    },
}  # fmt: skip
ZOO["LunarLander-v3"] = ZOO["Acrobot-v1"]


@pytest.mark.parametrize("id", list(ZOO))
@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
def test_keywords_of_rl_zoo_run_unchanged(id):
    if id.startswith("Lunar"):
        pytest.importorskip("Box2D", reason="Box2D is not installed")
    with DQN("MlpPolicy", gymnasium.make(id), policy_kwargs={"net_arch": [256, 256]}, **ZOO[id]) as model:
        model.learn(1300)
        assert model.stats["updates"] == model.stats["updates_due"] > 100
