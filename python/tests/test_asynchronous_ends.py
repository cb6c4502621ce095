"""Where learn ends: the learners of A3C and APPO finish their rollouts."""

import pytest
from gymnasium.vector import AutoresetMode

from envs import vector
from paceline import A2C, A3C, APPO, PPO

SMALL = {"seed": 7, "policy_kwargs": {"net_arch": [16]}, "n_steps": 8, "learning_rate": 0.01}
KEYWORDS = {A3C: SMALL, APPO: {**SMALL, "batch_size": 8, "n_epochs": 2}}


@pytest.mark.parametrize("how", ["built in", "after the update", "next step"])
@pytest.mark.parametrize("cls, of", [(A3C, A2C), (APPO, PPO)])
def test_one_learner_ends_as_the_synchronous_method(cls, of, how):
    keywords = KEYWORDS[cls]

    def run(cls, callback=None, **more):
        env = vector(AutoresetMode.NEXT_STEP, 3) if how == "next step" else "CartPole-v1"
        if how != "next step":
            more.update(num_envs=3, mid_batch_reset=how == "built in")
        with cls("MlpPolicy", env, **{**keywords, **more}) as model:
            ends = []
            for total, reset in ((150, True), (31, False), (77, True)):
                model.learn(total, callback, reset_num_timesteps=reset)
                ends.append((model.num_timesteps, model.stats["updates"], model.stats["rollouts"], model.hashes().weights))
            return ends

    want = run(of)
    more = {"learners": 1, "rule": "gradient"} | ({"pull_period": 0} if cls is APPO else {})
    assert run(cls, **more) == run(cls, lambda *_: True, **more) == run(cls, schedule="race", **more) == want


@pytest.mark.parametrize("mid_batch_reset", [True, False])
@pytest.mark.parametrize("rule", ["gradient", "mean"])
@pytest.mark.parametrize("cls", KEYWORDS)
def test_learners_end_with_their_rollouts(cls, rule, mid_batch_reset, tmp_path):
    """learn has the same end for callbacks and records, for any number of threads, and in a race that is repeated."""

    def run(callback=None, log_interval=None, save_to=None, **more):
        keywords = {**KEYWORDS[cls], "num_envs": 8, "learners": 4, "rule": rule, "pull_period": 0, "learning_rate": (0.01, 0.001)}
        with cls("MlpPolicy", "CartPole-v1", **keywords, mid_batch_reset=mid_batch_reset, **more) as model:
            ends = []
            for total, reset in ((150, True), (31, False), (77, True)):
                model.learn(total, callback, log_interval, reset_num_timesteps=reset)
                ends.append((model.num_timesteps, model.stats["updates"], model.hashes()))
            if save_to is not None:
                model.save_order(save_to)
            return ends

    want = run()
    assert want == run(lambda *_: True) == run(lambda *_: True, num_threads=1) == run(log_interval=1, num_threads=1)
    want = run(schedule="race", save_to=tmp_path / "race.order")
    assert want == run(schedule="recorded", order=tmp_path / "race.order")
