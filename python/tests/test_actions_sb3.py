"""Actions of every kind beside stable-baselines3: shapes, files both ways, its VecEnvs, callbacks and evaluate_policy."""

import numpy as np
import pytest
from gymnasium import spaces

from paceline import A2C, PPO
from paceline.callbacks import EvalCallback
from paceline.errors import ConfigError
from test_actions_learn import BOX, Acts, small

sb3 = pytest.importorskip("stable_baselines3")
common = pytest.importorskip("stable_baselines3.common")

ROWS = np.random.default_rng(4).uniform(-1, 1, (60, 3)).astype(np.float32)
KINDS = {
    "box": BOX,
    "wide": spaces.Box(-1e3, 3.4e38, (3,)),
    "matrix": spaces.Box(-1, 1, (2, 2)),
    "multi_discrete": spaces.MultiDiscrete([3, 2, 4]),
    "discrete": spaces.Discrete(4),
}
EVERY = pytest.mark.parametrize("kind", KINDS)
BOTH = pytest.mark.parametrize("ours, theirs", [(A2C, sb3.A2C), (PPO, sb3.PPO)], ids=["a2c", "ppo"])


def trained(cls, space, **keywords):
    """A model of stable-baselines3's after some updates, so that no weight is its initial one."""
    batch = {"batch_size": 16} if cls is sb3.PPO else {}
    model = cls("MlpPolicy", Acts(space), n_steps=16, seed=1, learning_rate=0.02, device="cpu", **batch, **keywords)
    return model.learn(96)


@BOTH
@EVERY
def test_files_of_stable_baselines3_act_the_same(ours, theirs, kind, tmp_path):
    space = KINDS[kind]
    kwargs = {"log_std_init": -1.0} if isinstance(space, spaces.Box) else {}
    model = trained(theirs, space, policy_kwargs=kwargs)
    model.save(tmp_path / "theirs.zip")
    must, _ = model.predict(ROWS, deterministic=True)
    for env in (None, Acts(space)):
        with ours.load(tmp_path / "theirs.zip", env) as again:
            assert again.action_space == space
            acts, _ = again.predict(ROWS, deterministic=True)
            assert acts.dtype == must.dtype and acts.shape == must.shape
            np.testing.assert_allclose(acts, must, rtol=0, atol=1e-5)
            one, theirs_one = again.predict(ROWS[0])[0], model.predict(ROWS[0])[0]
            assert one.dtype == theirs_one.dtype and one.shape == theirs_one.shape
            weights = again.get_parameters()["policy"]
            state = model.policy.state_dict()
            assert weights.keys() == state.keys()
            for name, tensor in state.items():
                np.testing.assert_array_equal(weights[name], tensor.numpy(), err_msg=name)
    again = ours.load(tmp_path / "theirs.zip", Acts(space))
    with again:
        again.learn(32)
        model.policy.load_state_dict(again.policy.state_dict())
        acts, must = (each.predict(ROWS, deterministic=True)[0] for each in (again, model))
        np.testing.assert_allclose(acts, must, rtol=1e-6, atol=1e-5)
        np.testing.assert_array_equal(again.policy.predict(ROWS, deterministic=True)[0], must)


def test_files_with_other_distributions_are_refused(tmp_path):
    trained(sb3.PPO, BOX, use_sde=True).save(tmp_path / "sde.zip")
    with pytest.raises(ConfigError, match=r"sde.zip: trained with use_sde=True, must be without: state-dependent exploration \(gSDE\)"):
        PPO.load(tmp_path / "sde.zip")
    trained(sb3.A2C, spaces.MultiBinary(4)).save(tmp_path / "binary.zip")
    with pytest.raises(ConfigError, match="binary.zip: MultiBinary actions, must be Box, Discrete or MultiDiscrete"):
        A2C.load(tmp_path / "binary.zip", Acts(spaces.MultiBinary(4)))
    trained(sb3.PPO, BOX).save(tmp_path / "box.zip")
    with pytest.raises(ConfigError, match=r"^env: low\[0\] of its actions is -2.0, must be -1.0 as in the model"):
        PPO.load(tmp_path / "box.zip", Acts(spaces.Box(np.array([-2, -3], np.float32), BOX.high)))
    with pytest.raises(ConfigError, match="log_std|action_net"):
        PPO.load(tmp_path / "box.zip", Acts(spaces.Discrete(2)))
    sb3.PPO("MlpPolicy", Acts(spaces.Box(-1, 1, (1200,))), n_steps=8, batch_size=8, device="cpu").save(tmp_path / "long.zip")
    with pytest.raises(ConfigError, match=r"action space: low of shape \(1200,\) is not all in the file; give env"):
        PPO.load(tmp_path / "long.zip")
    with PPO.load(tmp_path / "long.zip", Acts(spaces.Box(-1, 1, (1200,)))) as model:
        assert model.predict(ROWS[0])[0].shape == (1200,)


@pytest.mark.parametrize("kind", ["dict", "multi_binary"])
def test_policies_that_stable_baselines3_does_not_have(kind):
    from test_actions import SPACES

    with small(PPO, Acts(SPACES[kind])) as model, pytest.raises(ConfigError, match="^policy: stable-baselines3 has no policy"):
        model.policy  # noqa: B018


@EVERY
def test_vec_envs_monitors_callbacks_and_evaluate_policy(kind, tmp_path):
    from stable_baselines3.common.callbacks import EvalCallback as Theirs
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    space = KINDS[kind]
    envs = VecMonitor(DummyVecEnv([lambda: Acts(space)] * 2))
    calls = [
        EvalCallback(DummyVecEnv([lambda: Acts(space)]), n_eval_episodes=2, eval_freq=16, verbose=0),
        Theirs(VecMonitor(DummyVecEnv([lambda: Acts(space)])), n_eval_episodes=2, eval_freq=16, verbose=0),
    ]
    with small(PPO, envs) as model:
        model.learn(64, callback=calls)
        assert [call.best_mean_reward for call in calls] == [45, 45]
        assert model.ep_info_buffer[0]["l"] == 9
        assert evaluate_policy(model, VecMonitor(DummyVecEnv([lambda: Acts(space)])), n_eval_episodes=3) == (45, 0)
        assert evaluate_policy(model, VecMonitor(DummyVecEnv([lambda: Acts(space)])), 3, deterministic=False)[0] == 45


@BOTH
@EVERY
def test_locals_have_the_actions_of_stable_baselines3(ours, theirs, kind):
    seen = []

    def look(locals_, _):
        seen.append(locals_["clipped_actions"])
        return True

    space = KINDS[kind]
    with small(ours, Acts(space)) as model:
        model.learn(8, callback=look)
    theirs("MlpPolicy", Acts(space), n_steps=8, device="cpu").learn(8, callback=look)
    assert len(seen) == 16 and seen[0].shape == seen[8].shape and seen[0].dtype == seen[8].dtype


def test_a_vec_env_of_environments_with_other_bounds_is_refused():
    from stable_baselines3.common.vec_env import DummyVecEnv

    wide = spaces.Box(BOX.low, BOX.high + 1)
    envs = DummyVecEnv([lambda: Acts(BOX), lambda: Acts(wide)])
    with pytest.raises(ConfigError, match="environment 1: action space Box.*, must be that of environment 0, Box"):
        small(PPO, envs)


def test_rl_zoos_keywords_without_gsde_run():
    zoo = {
        "n_steps": 32, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 2, "ent_coef": 0.0, "learning_rate": 1e-3, "clip_range": 0.2,
        "policy_kwargs": {"log_std_init": -2, "ortho_init": False, "net_arch": [16]}, "target_kl": 0.05, "normalize_advantage": True,
    }  # fmt: skip
    with PPO("MlpPolicy", "Pendulum-v1", num_envs=2, batch_size=32, seed=0, **zoo) as model:
        model.learn(128)
        assert model.target_kl == 0.05 and np.isfinite(model.get_parameters()["policy"]["log_std"]).all()
