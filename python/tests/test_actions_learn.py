"""A2C and PPO with actions of every kind: learning, acting, masks, files and what is refused."""

import functools
import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from paceline import A2C, DQN, PPO, PQN, Policy
from paceline.errors import ConfigError, PacelineError, SpaceError
from test_actions import EVERY, SPACES, leaves

OBS = spaces.Box(-1, 1, (3,))
BOX = spaces.Box(np.array([-1, -3], np.float32), np.array([2, 3], np.float32))
SMALL = {"n_steps": 8, "seed": 3, "num_threads": 1}
BOTH = pytest.mark.parametrize("cls", [A2C, PPO])


def small(cls, env, **keywords):
    if cls is PPO:
        keywords = {"batch_size": 8, "n_epochs": 2} | keywords
    return cls("MlpPolicy", env, **(SMALL | keywords))


class Acts(gymnasium.Env):
    """Episodes of 9 steps, whose actions must be in the space; with masks in a masked one."""

    def __init__(self, space, observation_space=OBS, masks=False):
        self.observation_space, self.action_space, self.masks = observation_space, space, masks
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe()

    def observe(self):
        obs = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        self.mask = self.np_random.integers(0, 2, 5)
        self.mask[self.np_random.integers(0, 3)] = self.mask[3 + self.np_random.integers(0, 2)] = 1
        return obs, {"action_mask": self.mask.copy()} if self.masks else {}

    def step(self, action):
        assert self.action_space.contains(action), action
        if self.masks:
            assert self.mask[action[0]] and self.mask[3 + action[1]]
        self.taken.append(action)
        self.steps += 1
        obs, infos = self.observe()
        return obs, float(self.steps), False, self.steps == 9, infos


@EVERY
@BOTH
def test_models_learn_act_and_are_saved(cls, space, tmp_path):
    rows = np.random.default_rng(1).uniform(-1, 1, (6, 3)).astype(np.float32)
    every = gymnasium.vector.utils.batch_space(space, 6)
    with small(cls, Acts(space)) as model:
        before = model.get_parameters()["policy"]
        model.learn(64)
        after = model.get_parameters()["policy"]
        assert all(np.isfinite(array).all() for array in after.values())
        assert all((before[name] != after[name]).any() for name in before)
        layout = model.action_layout
        assert ("log_std" in after) == (len(layout.low) > 0)
        assert after["action_net.weight"].shape == (layout.mask_size or len(layout.low), 64)
        if layout.keys:
            assert after["mu_net.weight"].shape == (len(layout.low), 64)
        assert model.action_space == space
        mode, state = model.predict(rows, deterministic=True)
        assert state is None and every.contains(mode)
        drawn = [model.predict(rows)[0] for _ in range(2)]
        assert all(every.contains(actions) for actions in drawn)
        assert any((a != b).any() for a, b in zip(*map(leaves, drawn)))
        assert space.contains(model.predict(rows[0])[0] if layout.n == 0 else model.predict(rows[0])[0][()])
        for one, of_all in zip(leaves(model.predict(rows[2], deterministic=True)[0]), leaves(mode)):
            np.testing.assert_array_equal(one, of_all[2], strict=True)
        with model.policy_snapshot() as policy, Policy.from_bytes(policy.to_bytes()) as copy:
            for actions in (policy.act(rows), copy.act(rows), policy.predict(rows)[0]):
                for ours, same in zip(leaves(actions), leaves(mode)):
                    np.testing.assert_array_equal(ours, same, strict=True)
        model.save(tmp_path / "model")
    with cls.load(tmp_path / "model") as again:
        assert again.action_space == space or layout.low.size
        for ours, same in zip(leaves(again.predict(rows, deterministic=True)[0]), leaves(mode)):
            np.testing.assert_array_equal(ours, same, strict=True)
        again.set_env(Acts(space))
        again.learn(16, reset_num_timesteps=False)
        assert again.num_timesteps == 80
        assert again.evaluate(Acts(space), 2).mean_length == 9


@BOTH
def test_runs_go_on_with_the_same_bits(cls, tmp_path):
    with small(cls, "Pendulum-v1", num_envs=2) as whole, small(cls, "Pendulum-v1", num_envs=2) as half:
        whole.learn(64)
        half.learn(32)
        half.save(tmp_path / "model", replay=True)
        assert half.hashes() != whole.hashes()
        with cls.load(tmp_path / "model") as again:
            again.learn(32, reset_num_timesteps=False)
            assert again.hashes() == whole.hashes()


@pytest.mark.parametrize("kind", ["box", "tuple", "multi_discrete"])
def test_parameters_are_copied_by_name(kind):
    with small(PPO, Acts(SPACES[kind])) as model, small(PPO, Acts(SPACES[kind]), seed=9) as other:
        model.learn(32)
        assert other.hashes() != model.hashes()
        other.set_parameters(model.get_parameters())
        assert other.hashes() == model.hashes()
        weights = model.get_parameters()["policy"]
        del weights["action_net.bias"]
        with pytest.raises(ConfigError, match="action_net.bias"):
            other.set_parameters({"policy": weights})


def test_shapes_and_dtypes_are_those_of_stable_baselines3():
    cases = {
        "box": (BOX, (2,), np.float32),
        "multi_discrete": (spaces.MultiDiscrete([3, 2]), (2,), np.int64),
        "multi_binary": (spaces.MultiBinary(4), (4,), np.int8),
        "discrete": (spaces.Discrete(4, start=-2), (), np.int64),
    }
    for space, shape, dtype in cases.values():
        with small(A2C, Acts(space)) as model:
            one, many = (model.predict(np.zeros((*n, 3), np.float32))[0] for n in ((), (5,)))
            assert (one.shape, many.shape) == (shape, (5, *shape))
            assert one.dtype == many.dtype == dtype


def test_a_box_is_drawn_around_its_mean_and_clipped():
    with small(PPO, Acts(BOX), policy_kwargs={"log_std_init": -1.0}) as model:
        weights = {name: np.zeros_like(array) for name, array in model.get_parameters()["policy"].items()}
        weights["action_net.bias"][...] = [5, -0.5]
        weights["log_std"][...] = np.log([1e-3, 0.25])
        assert (model.get_parameters()["policy"]["log_std"] == -1).all()
        model.set_parameters({"policy": weights})
        rows = np.zeros((20_000, 3), np.float32)
        np.testing.assert_array_equal(model.predict(rows[:2], deterministic=True)[0], [[2, -0.5]] * 2)
        drawn = model.predict(rows)[0]
        assert (drawn[:, 0] == 2).all()
        assert abs(drawn[:, 1].mean() + 0.5) < 0.01 and abs(drawn[:, 1].std() - 0.25) < 0.01
        with model.policy_snapshot() as policy:
            np.testing.assert_array_equal(policy.outputs(rows[0])["mean"], [5, -0.5])


def test_squashed_and_scaled_actions_fill_the_bounds():
    with small(A2C, Acts(BOX), squashed=True, scaled=True, policy_kwargs={"log_std_init": 2.0}) as model:
        model.learn(40)
        drawn = model.predict(np.zeros((2000, 3), np.float32))[0]
        assert (drawn >= BOX.low).all() and (drawn <= BOX.high).all()
        assert (abs(drawn - (BOX.low + BOX.high) / 2) > 0.4 * (BOX.high - BOX.low)).mean() > 0.5
        with pytest.raises(ConfigError, match="policy: stable-baselines3 has no policy whose box actions are squashed or scaled"):
            model.policy  # noqa: B018


def test_masks_are_kept_to_in_every_branch():
    space = spaces.MultiDiscrete([3, 2])
    env = SyncVectorEnv([lambda: Acts(space, masks=True)] * 3)
    with small(PPO, env, action_masks=True) as model:
        model.learn(240)
        assert len(env.envs[2].taken) == 80
        masks = np.tile([0, 0, 1, 1, 0], (4, 1))
        for deterministic in (False, True):
            actions, _ = model.predict(np.zeros((4, 3), np.float32), deterministic=deterministic, action_masks=masks)
            np.testing.assert_array_equal(actions, [[2, 0]] * 4)
        assert model.evaluate(Acts(space, masks=True), 3, deterministic=False).mean_return == 45
        masks[2, 3:] = 0
        with pytest.raises(PacelineError, match="action mask: branch 1 allows none of 2 actions"):
            model.predict(np.zeros((4, 3), np.float32), action_masks=masks)
        with pytest.raises(SpaceError, match=r"action_masks: shape \(4, 3\), must be \(4, 5\)"):
            model.predict(np.zeros((4, 3), np.float32), action_masks=masks[:, :3])
        with pytest.raises(SpaceError, match=r"action_masks: shape \(2,\), must be \(5,\)"):
            model.predict(np.zeros(3, np.float32), action_masks=[1, 1])


def own_loop(model, space, steps, masks=None):
    """Steps the environments of a model made with spaces."""
    random, n = np.random.default_rng(2), 2
    every, taken = gymnasium.vector.utils.batch_space(space, n), []
    model.begin(steps, random.uniform(-1, 1, (n, 3)), action_masks=masks)
    while model.num_timesteps < steps:
        taken.append(model.act())
        assert every.contains(taken[-1])
        over = np.full(n, len(taken) % 7 == 0)
        obs = random.uniform(-1, 1, (n, 3))
        model.observe(obs, random.normal(size=n), ~over & over, over, obs, action_masks=masks)
    return taken


@EVERY
def test_loops_of_the_callers_own(space):
    with small(PPO, (OBS, space), num_envs=2) as model:
        own_loop(model, space, 64)
        assert model.stats["updates"] > 0
    with small(A2C, (OBS, space), num_envs=2) as one, small(A2C, (OBS, space), num_envs=2) as same:
        for ours, theirs in zip(own_loop(one, space, 64), own_loop(same, space, 64), strict=True):
            for a, b in zip(leaves(ours), leaves(theirs), strict=True):
                np.testing.assert_array_equal(a, b)
        assert one.hashes() == same.hashes()


@pytest.mark.parametrize("kind", ["box", "multi_discrete", "tuple"])
def test_what_a_host_observes_must_be_finite(kind):
    with small(PPO, (OBS, SPACES[kind]), num_envs=2) as model:
        own_loop(model, SPACES[kind], 16)
        obs, ok, never = np.zeros((2, 3), np.float32), np.zeros(2), np.zeros(2, bool)
        model.begin(32, obs, reset_num_timesteps=False)
        model.act()
        for bad in (np.nan, np.inf, -np.inf):
            broken = obs.copy()
            broken[1, 2] = bad
            with pytest.raises(PacelineError, match="environment 1: .*observation: component 2 is .*, must be finite"):
                model.observe(broken, ok, never, never)
            with pytest.raises(PacelineError, match="environment 0: .*reward"):
                model.observe(obs, np.array([bad, 0]), never, never)
        model.observe(obs, ok, never, never)
        assert np.isfinite(model.predict(obs)[0] if kind != "tuple" else model.predict(obs)[0][1]).all()
        with pytest.raises(PacelineError):
            model.begin(8, np.full((2, 3), np.nan))
            model.act()


def test_masks_of_the_callers_own_loop():
    space = spaces.MultiDiscrete([3, 2])
    masks = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 1, 0]])
    with small(PPO, (OBS, space), num_envs=2, action_masks=True) as model:
        for actions in own_loop(model, space, 64, masks):
            assert actions[0].tolist() == [0, 1] and actions[1, 0] in (1, 2) and actions[1, 1] == 0
        with pytest.raises(SpaceError, match="action_masks: none of the 3 actions of branch 0 of environment 1, must allow at least one"):
            model.begin(8, np.zeros((2, 3)), action_masks=[[1] * 5, [0, 0, 0, 1, 1]])
        model.begin(8, np.zeros((2, 3)), action_masks=masks)
        model.act()
        with pytest.raises(PacelineError, match="environment 0: .*action mask: branch 1 allows none of 2 actions"):
            model.observe(np.zeros((2, 3)), [0, 0], [False] * 2, [False] * 2, action_masks=[[1, 1, 1, 0, 0], [1] * 5])


@BOTH
@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"use_sde": True}, r"^use_sde: True, must be False: state-dependent exploration \(gSDE\) is not built"),
        ({"sde_sample_freq": 4}, r"^sde_sample_freq: 4, must be -1: state-dependent exploration \(gSDE\) is not built"),
        ({"policy_kwargs": {"use_sde": True}}, r"^policy_kwargs\['use_sde'\]: True, must be False: state-dependent"),
        ({"policy_kwargs": {"full_std": False}}, r"^policy_kwargs\['full_std'\]: False, must be True: state-dependent"),
        ({"policy_kwargs": {"squash_output": True}}, r"^policy_kwargs\['squash_output'\]: True, must be False: .*squashed=True takes"),
        ({"policy_kwargs": {"log_std_init": float("nan")}}, "^log_std_init: "),
        ({"policy_kwargs": {"log_std_init": 21}}, "^log_std_init: .*must be"),
    ],
)
def test_keywords_that_are_refused(cls, keywords, says):
    with pytest.raises(ConfigError, match=says):
        small(cls, Acts(BOX), **keywords)
    same = {"use_sde": False, "sde_sample_freq": -1, "policy_kwargs": {"squash_output": False, "full_std": True, "log_std_init": 0.5}}
    with small(cls, Acts(BOX), **same) as model:
        assert (model.get_parameters()["policy"]["log_std"] == 0.5).all()


@BOTH
def test_settings_that_do_not_fit_the_actions(cls):
    infinite = spaces.Box(-np.inf, np.inf, (2,))
    for space, keywords, says in (
        (infinite, {"scaled": True}, "scaled: true, must be false where a bound of the box is infinite"),
        (SPACES["box"], {"scaled": True, "squashed": True}, "scaled: true, must be false where a bound of the box is infinite"),
        (spaces.MultiDiscrete([2, 3]), {"squashed": True}, "must be false where actions are branches of"),
        (spaces.Discrete(2), {"scaled": True}, "must be false where actions are"),
        (spaces.MultiDiscrete(np.zeros(0, int)), {}, "action space: MultiDiscrete.*, must have at least one entry"),
        (spaces.Box(0, 1, (0,)), {}, r"action space: a Box of shape \(0,\), must have no empty axis"),
    ):
        with pytest.raises(ConfigError, match=says):
            small(cls, Acts(space), **keywords)
    with small(cls, Acts(infinite), squashed=True) as model:
        assert (abs(model.predict(np.zeros((50, 3), np.float32))[0]) <= 1).all()


@BOTH
@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "box", "dict"])
def test_callbacks_see_the_actions_of_the_environment(cls, kind):
    env, seen = Acts(SPACES[kind]), []

    def look(locals_, _):
        for name in ("actions", "clipped_actions"):
            seen.append([part[0] for part in leaves(locals_[name])])

    with small(cls, env, policy_kwargs={"log_std_init": 2.0}) as model:
        model.learn(40, callback=look)
    taken = [leaves(action) for action in env.taken]
    assert len(taken) == 40
    for ours, same, theirs in zip(seen[::2], seen[1::2], taken, strict=True):
        for a, b, c in zip(ours, same, theirs, strict=True):
            np.testing.assert_array_equal(a, c)
            np.testing.assert_array_equal(b, c)
    if kind == "box":
        assert np.isin(np.array(taken)[:, :, 0], [-1, 2]).any()  # clipped


def test_clipped_actions_are_within_the_bounds_of_built_in_environments():
    def look(locals_, _):
        actions = locals_["clipped_actions"]
        assert actions.shape == (3, 1) and actions.dtype == np.float32
        reached.append(abs(actions).max())

    reached, of_dqn = [], []
    with small(PPO, "Pendulum-v1", num_envs=3, policy_kwargs={"log_std_init": 2.0}) as model:
        model.learn(60, callback=look)
    assert max(reached) == 2
    with DQN("MlpPolicy", "CartPole-v1", seed=1) as model:  # stable-baselines3's DQN does not have it
        model.learn(8, callback=lambda locals_, _: of_dqn.append("clipped_actions" in locals_))
    assert of_dqn == [False] * 8


@pytest.mark.parametrize("cls", [DQN, PQN])
@pytest.mark.parametrize("kind", ["box", "multi_discrete", "multi_binary", "dict"])
def test_methods_of_one_discrete_action_name_ppo(cls, kind):
    with pytest.raises(ConfigError, match=rf"^actions: .*, must be discrete for {cls.METHOD}; a2c, a3c, appo, ga3c and ppo take them$"):
        cls("MlpPolicy", Acts(SPACES[kind]))


def test_an_update_ends_early_at_target_kl():
    kept = {}
    for target_kl in (None, 1e-9):
        with small(PPO, Acts(BOX), n_epochs=10, learning_rate=1e-2, target_kl=target_kl) as model:
            model.learn(64)
            kept[target_kl] = model.stats["updates"]
    assert kept[None] == 80 and 0 < kept[1e-9] < 80


def test_bounds_that_change_between_environments_are_refused(tmp_path):
    wide = spaces.Box(BOX.low, np.array([2, 4], np.float32))
    says = r"env: high\[1\] of its actions is 4.0, must be 3.0 as in the model"
    with small(PPO, Acts(BOX)) as model:
        model.learn(16)
        with pytest.raises(ConfigError, match=says):
            model.set_env(Acts(wide))
        with pytest.raises(ConfigError, match=says):
            model.evaluate(Acts(wide), 1)
        with pytest.raises(ConfigError, match="eval_" + says):
            model.learn(16, eval_env=Acts(wide), eval_freq=8)
        model.set_env(Acts(BOX))
        model.save(tmp_path / "model")
        env = Acts(BOX)
        model.set_env(env)
        env.action_space = wide
        with pytest.raises(SpaceError, match="action space: Box.*, must be Box.*the environment.s space when the model was made"):
            model.learn(16)
    with pytest.raises(ConfigError, match=says):
        PPO.load(tmp_path / "model", Acts(wide))
    with PPO.load(tmp_path / "model", Acts(BOX)) as model:
        model.learn(8)


@pytest.mark.parametrize("kind", ["box", "matrix", "dict", "turned"])
def test_workers_step_with_these_actions(make, kind):
    with small(PPO, make(functools.partial(Acts, SPACES[kind]))) as model:
        model.learn(64)
        assert model.stats["updates"] >= 16 and model.stats["episodes"] > 0


@pytest.mark.parametrize("workers", [None, 2])
def test_workers_with_other_bounds_are_refused(make, workers):
    envs = [functools.partial(Acts, space) for space in (BOX, spaces.Box(BOX.low, BOX.high + 1))]
    with pytest.raises(ConfigError, match=r"^environment 1: action space Box.*4.*, must be that of environment 0, Box.*3"):
        make(envs, 2, workers_=workers)


def test_pendulum_native_and_from_python(tmp_path):
    with small(PPO, "Pendulum-v1", num_envs=2) as model:
        model.learn(64)
        assert model.action_space == spaces.Box(-2, 2, (1,))
        native = model.evaluate(episodes=2)
        pushed = model.evaluate(gymnasium.make("Pendulum-v1"), 2)
        assert native.mean_length == pushed.mean_length == 200
        with model.policy_snapshot() as policy:
            policy.save(tmp_path / "policy")
    with Policy.load(tmp_path / "policy") as policy:
        assert policy.action_layout.space() == spaces.Box(-2, 2, (1,))
        assert json.dumps(policy.act(np.zeros(3)).tolist())
