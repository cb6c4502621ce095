"""Action masks of Gymnasium environments in acting, learning, predicting and evaluating."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import MODES, SMALL, Counter, vector
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, Policy
from paceline.envs._source import adapt
from paceline.errors import ConfigError, SpaceError

MASKS = {"action_masks": True}


def gate(episode, count):
    """Returns the allowed actions: two of three, or one."""
    mask = (np.arange(3) + episode + count) % 3 != 0
    if count % 4 == 3:
        mask[2 - count % 3] = False
    return mask.astype(np.int8) if mask.any() else np.array([1, 0, 0], np.int8)


class Gated(Counter):
    """A Counter with action masks. It refuses forbidden actions."""

    wrong = None  # replaces the info of the 50th step

    def info(self):
        mask = gate(self.episode, self.count)
        if self.steps_taken == 50 and self.wrong is not None:
            return self.wrong(mask)
        return {"action_mask": mask}

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        return obs, self.info()

    def step(self, action):
        assert gate(self.episode, self.count)[action - self.action_space.start]
        *rest, _ = super().step(action)
        return *rest, self.info()


def learn(env, steps=300, **keywords):
    with DQN("MlpPolicy", env, **{**SMALL, **MASKS, **keywords}) as model:
        model.learn(steps)
        assert model.setting("action_masks") == "true"
        return model.hashes()


def test_one_environment_gives_one_result_in_every_mode():
    results = [learn(vector(mode, make=Gated), double_q=True) for mode in MODES]
    assert all(result == learn(Gated(), double_q=True) for result in results)
    assert learn(Gated()) != results[0]  # differs from double_q


def test_same_step_and_disabled_agree_for_three_environments():
    results = [learn(vector(mode, 3, Gated)) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)]
    assert results[0] == results[1]


@pytest.mark.parametrize("mode", MODES)
def test_each_row_has_the_mask_of_its_observation(mode):
    source = adapt(vector(mode, 3, Gated))
    rows = source.rows
    source.masked = None  # the first reset detects the masks
    source.reset(seed=1)
    assert source.masked
    for _ in range(40):
        for i, obs in enumerate(rows.obs.astype(int)):
            expected = [1, 1, 1] if mode == AutoresetMode.NEXT_STEP and rows.terminated[i] else gate(obs[1], obs[2]).tolist()
            assert rows.action_masks[i].tolist() == expected
            if rows.ended[i] and mode != AutoresetMode.NEXT_STEP:
                last = rows.final_obs[i].astype(int)
                assert rows.final_action_masks[i].tolist() == ([1, 1, 1] if rows.terminated[i] else gate(last[1], last[2]).tolist())
            rows.actions[i] = np.flatnonzero(gate(obs[1], obs[2]))[0]
        source.step()
    source.env.close()


def test_masks_may_be_lists_or_booleans():
    """Masks may be lists or booleans. Mask entry 0 is the first action, also if the action space
    starts elsewhere.
    """

    class Lists(Gated):
        def info(self):
            return {"action_mask": [bool(x) for x in super().info()["action_mask"]]}

    class Shifted(Gated):
        action_space = gymnasium.spaces.Discrete(3, start=5)

    learn(Shifted())  # Shifted refuses forbidden actions
    assert learn(Lists()) == learn(Gated())
    assert learn(vector(AutoresetMode.SAME_STEP, 2, Lists)) == learn(vector(AutoresetMode.SAME_STEP, 2, Gated))


@pytest.mark.parametrize(
    "make", [Gated, lambda: vector(AutoresetMode.SAME_STEP, 2, Gated), lambda: vector(AutoresetMode.NEXT_STEP, 2, Gated)]
)
@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda mask: {"action_mask": mask * 0}, ConfigError, "action mask: allows none of 3 actions, must allow one"),
        # Gymnasium's vector itself refuses this shape
        (lambda mask: {"action_mask": [1, 0]}, (SpaceError, ValueError), "shape"),
        (lambda mask: {}, SpaceError, "infos has no 'action_mask'"),
    ],
)
def test_wrong_masks_are_refused_and_learning_continues(make, wrong, error, says):
    env = make()
    first = env if isinstance(env, Gated) else env.envs[0]
    first.wrong = wrong
    with DQN("MlpPolicy", env, **SMALL, **MASKS) as model:
        with pytest.raises(error, match=says):
            model.learn(300)
        if error is ConfigError:
            with pytest.raises(ConfigError, match="environment 0: "):
                first.steps_taken = 49
                model.learn(300)
        first.wrong = None
        model.learn(300 - model.num_timesteps, reset_num_timesteps=False)
        assert model.num_timesteps >= 300


def test_predict_returns_allowed_actions_only(tmp_path):
    with DQN("MlpPolicy", Gated(), exploration_final_eps=1.0, exploration_fraction=1.0, **SMALL, **MASKS) as model:
        before = model.get_parameters()["policy"]
        model.learn(100)
        assert before.keys() == model.get_parameters()["policy"].keys()
        obs = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
        masks = np.eye(3, dtype=bool)[np.arange(60) % 3]
        for deterministic in (True, False):
            actions, _ = model.predict(obs, deterministic=deterministic, action_masks=masks)
            assert actions.tolist() == (np.arange(60) % 3).tolist()
        one, _ = model.predict(obs[0], action_masks=[0, 0, 1], deterministic=True)
        assert one.shape == () and one == 2
        values = np.where(np.arange(3) == 1, -np.inf, model.policy_snapshot().q_values(obs))
        got, _ = model.predict(obs, deterministic=True, action_masks=np.array([[1, 0, 1]] * 60))
        assert got.tolist() == values.argmax(axis=1).tolist()
        for bad, says in (([[1, 1, 1]] * 59, r"shape \(59, 3\), must be \(60, 3\)"), ([1, 1, 1], r"shape \(3,\), must be \(60, 3\)")):
            with pytest.raises(SpaceError, match=says):
                model.predict(obs, action_masks=bad)
        for bad, says in (
            ([["a", "b", "c"]] * 60, "a list of 60, must be an array of numbers"),
            ([[1, 0], [1]], "a list of 2, must be an array of numbers"),
            (np.full((60, 3), np.nan), "has NaN, must be 0 for each forbidden action and another number for each allowed one"),
        ):
            with pytest.raises(SpaceError, match=f"^action_masks: {says}$"):
                model.predict(obs, action_masks=bad)
        masks[7] = False
        with pytest.raises(ConfigError, match="environment 7: action mask: allows none of 3 actions") as caught:
            model.predict(obs, action_masks=masks)
        assert caught.value.index == 7
        model.save(tmp_path / "a", replay=True)
    with Policy.load(tmp_path / "a") as policy:
        assert policy.act(obs[0], action_masks=[0, 1, 0]) == 1
        assert policy.predict(obs[0], action_masks=[0, 1, 0], deterministic=False)[0] == 1
        for mode in MODES:  # Gated refuses forbidden actions
            assert policy.evaluate(vector(mode, 3, Gated), 6, epsilon=0.5).episodes == 6
        assert policy.evaluate(Gated(), 5).episodes == 5


def test_a_loaded_model_still_uses_masks(tmp_path):
    with DQN("MlpPolicy", Gated(), **SMALL, **MASKS) as model:
        model.learn(200).save(tmp_path / "a", replay=True)
        hashes = model.hashes()
    with DQN.load(tmp_path / "a", Gated()) as model:
        assert model.hashes() == hashes and model.setting("action_masks") == "true"
        model.learn(100, reset_num_timesteps=False)
        model.set_env(Counter())
        with pytest.raises(SpaceError, match="environment 0: infos has no 'action_mask', must have one after every reset and step"):
            model.learn(100, reset_num_timesteps=False)
        model.set_env(vector(AutoresetMode.SAME_STEP, 1, Gated))  # the model still uses masks
        model.learn(100, reset_num_timesteps=False)


class Open(Gated):
    """Has masks but accepts every action."""

    def step(self, action):
        *rest, _ = Counter.step(self, action)
        return *rest, self.info()


class OpenLater(Open):
    """Has masks after steps but not after resets."""

    def reset(self, *, seed=None, options=None):
        return Counter.reset(self)[0], {}


@pytest.mark.parametrize("make", [Open, OpenLater])
@pytest.mark.parametrize("mode", [None, *MODES, "stable-baselines3"])
def test_unused_masks_are_ignored_with_one_warning(make, mode):
    """The run equals that of environments without masks."""

    def run(make):
        if mode == "stable-baselines3":
            env = pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv([make] * 2)
        else:
            env = make() if mode is None else vector(mode, 2, make)
        with DQN("MlpPolicy", env, **SMALL) as model, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.learn(200).learn(100, reset_num_timesteps=False)
            assert model.setting("action_masks") == "false"
            model.predict(np.zeros(4, np.float32), deterministic=True)
            return model.hashes(), [str(one.message) for one in said if "action_mask" in str(one.message)]

    (hashes, said), (plain, nothing) = run(make), run(Counter)
    assert hashes == plain and nothing == []
    assert len(said) == 1 and "action_masks=True" in said[0]


@pytest.mark.parametrize("method", [DQN, A2C])
def test_acting_without_masks_after_learning_with_them_warns_once(method, tmp_path):
    keywords = SMALL if method is DQN else {}
    obs = np.zeros((2, 4), np.float32)

    def warned(act):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            act()
        return [one for one in said if "learnt with masks" in str(one.message)]

    with method("MlpPolicy", Gated(), **keywords, **MASKS) as model:
        model.learn(100).save(tmp_path / "a")
        assert not warned(lambda: model.predict(obs, action_masks=np.ones((2, 3))))
        (one,) = warned(lambda: model.predict(obs, deterministic=True))
        assert one.filename == __file__
        model.learn(50, reset_num_timesteps=False)
        assert not warned(lambda: model.predict(obs))
    for load in (Policy.load, lambda path: Policy.from_bytes(Policy.load(path).to_bytes())):
        with load(tmp_path / "a") as policy:
            assert len(warned(lambda: (policy.act(obs), policy.predict(obs[0])))) == 1
    with Policy.load(tmp_path / "a") as policy:
        assert not warned(lambda: policy.evaluate(Gated(), 2))
        assert len(warned(lambda: policy.evaluate(Counter(), 2))) == 1
    with method("MlpPolicy", Counter(), **keywords) as model:
        assert not warned(lambda: model.learn(100).predict(obs))
        model.policy_snapshot().evaluate(Open(), 2)
        # Gated raises it: the model acts as it has learnt, without masks
        with pytest.raises(AssertionError):
            model.evaluate(Gated(), 20, epsilon=1.0)


METHODS = [
    (A2C, {}), (A3C, {"learners": 3}), (GA3C, {}), (APPO, {"learners": 3, "n_steps": 8, "batch_size": 8}),
    (PPO, {"n_steps": 8, "batch_size": 8}),
]  # fmt: skip


@pytest.mark.parametrize("method, keywords", METHODS)
def test_forbidden_actions_have_probability_0(method, keywords):
    """A Gated environment refuses forbidden actions. With one allowed action the entropy is 0."""

    def run(env):
        with method("MlpPolicy", env, seed=7, action_masks=True, policy_kwargs={"net_arch": [16]}, ent_coef=0.1, **keywords) as model:
            model.learn(300)
            assert model.setting("action_masks") == "true"
            # at most two of three actions are allowed
            assert 0 < -model.stats["entropy_loss"] < np.log(2)
            obs = np.zeros((200, *Gated.observation_space.shape), np.float32)
            drawn = model.predict(obs, action_masks=np.tile([1, 0, 1], (200, 1)))[0] - Gated.action_space.start
            assert set(drawn.tolist()) == {0, 2}
            return model.hashes()

    same, disabled = (run(vector(mode, 3, Gated)) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED))
    assert same == disabled != run(vector(AutoresetMode.NEXT_STEP, 3, Gated))


def test_begin_act_and_observe_take_masks():
    """begin, act and observe give the same bits as learn."""
    expected = learn(vector(AutoresetMode.SAME_STEP, 3, Gated))
    envs = vector(AutoresetMode.SAME_STEP, 3, Gated)
    with DQN("MlpPolicy", (envs.single_observation_space, envs.single_action_space), num_envs=3, **SMALL, **MASKS) as model:
        obs, infos = envs.reset(seed=SMALL["seed"])
        with pytest.raises(SpaceError, match="action_masks: None, must be given: the model was made with action_masks=True"):
            model.begin(300, obs)
        model.begin(300, obs, action_masks=infos["action_mask"])
        while model.num_timesteps < 300:
            obs, rewards, terminated, truncated, infos = envs.step(model.act())
            final = infos.get("final_info", {}).get("action_mask")
            if final is not None:
                final = np.where(infos["final_info"]["_action_mask"][:, None], final, 1)
            with pytest.raises(SpaceError, match=r"action_masks: shape \(2, 3\), must be \(3, 3\)"):
                model.observe(obs, rewards, terminated, truncated, infos.get("final_obs"), action_masks=infos["action_mask"][:2])
            model.observe(
                obs, rewards, terminated, truncated, infos.get("final_obs"), action_masks=infos["action_mask"], final_action_masks=final
            )
        assert model.hashes() == expected


def test_masks_are_read_from_dummy_vec_env():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Single(Gated):
        # Gated ignores the seed that DummyVecEnv gives
        def reset(self, *, seed=None, options=None):
            return super().reset()

    envs = DummyVecEnv([lambda i=i: Single(i) for i in range(3)])
    assert learn(envs) == learn(vector(AutoresetMode.SAME_STEP, 3, Gated))


@pytest.mark.parametrize("wrapper", ["VecMonitor", "VecFrameStack", "VecNormalize", "both"])
def test_masks_are_read_through_sb3_wrappers(wrapper):
    """The wrappers' reset_infos are empty."""
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")

    class First(Gated):
        """Allows only the first action and refuses the others."""

        def reset(self, *, seed=None, options=None):
            return super().reset()

        def info(self):
            return {"action_mask": np.array([1, 0, 0], np.int8)}

        def step(self, action):
            assert action == 0
            *rest, _ = Counter.step(self, action)
            return *rest, self.info()

    wraps = {
        "VecMonitor": vec_env.VecMonitor,
        "VecFrameStack": lambda envs: vec_env.VecFrameStack(envs, 2),
        "VecNormalize": vec_env.VecNormalize,
        "both": lambda envs: vec_env.VecNormalize(vec_env.VecMonitor(envs)),
    }
    with A2C("MlpPolicy", wraps[wrapper](vec_env.DummyVecEnv([First] * 2)), seed=1, action_masks=True) as model:
        model.learn(100)
        assert model.setting("action_masks") == "true"
