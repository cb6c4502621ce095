"""A3C and APPO: keywords, learners and their schedules, orders of races, files.

test_a2c.py and test_ppo.py test what these methods share with A2C and PPO.
"""

import inspect
import json
import threading
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import vector
from paceline import A2C, A3C, APPO, PPO, PQN, Policy, a3c, appo, linear
from paceline.callbacks import BaseCallback
from paceline.config import Config, describe
from paceline.errors import CheckpointError, ConfigError, MissingFileError, PacelineError

SMALL = {"seed": 7, "policy_kwargs": {"net_arch": [16]}, "num_envs": 8, "n_steps": 8, "learning_rate": 0.01}
KEYWORDS = {A3C: SMALL, APPO: {**SMALL, "batch_size": 8, "n_epochs": 2, "pull_period": 3}}
both = pytest.mark.parametrize("cls", KEYWORDS)


def small(cls, env="CartPole-v1", **keywords):
    return cls("MlpPolicy", env, **{**KEYWORDS[cls], "learners": 4, **keywords})


def weights(cls, steps=640, **keywords):
    with small(cls, **keywords) as model:
        return model.learn(steps).hashes().weights


# ---------------------------------------------------------------- keywords


@pytest.mark.parametrize("cls, of", [(A3C, A2C), (APPO, PPO)])
def test_positional_keywords_and_defaults_equal_those_of_the_synchronous_method(cls, of):
    ours, theirs = (
        {name: p.default for name, p in inspect.signature(each).parameters.items() if p.kind is not p.KEYWORD_ONLY} for each in (cls, of)
    )
    assert list(ours) == list(theirs) and ours == theirs
    assert set(of.keywords()) - {"updates", "outside_learners", "outside_learner"} <= set(cls.keywords())


@both
def test_every_setting_is_a_keyword_and_defaults_are_the_library_defaults(cls):
    by_others = {
        "env", "env_options", "learning_rate_final", "learning_rate_schedule", "clip_range_schedule", "clip_range_vf_schedule", "autoreset",
        "normalize_images", "host_data", "net_arch_pi", "net_arch_vf", "trunk", "activation_fn", "ortho_init", "log_std_init",
        "rms_prop_alpha", "rms_prop_eps_inside", "rms_prop_first", "adam_eps",
    } | ({"use_rms_prop", "rms_prop_eps"} if cls is APPO else set())  # fmt: skip
    assert {s.name for s in describe(cls.METHOD)} - by_others <= set(cls.keywords())
    defaults = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    for setting in describe(cls.METHOD):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config(cls.METHOD)
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_an_order_selects_its_schedule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "race.order").touch()
    for settings in (a3c.settings, appo.settings):
        assert settings({"order": "race.order"}) == {"order": "race.order", "schedule": "recorded"}
        assert settings({"order": tmp_path / "race"}) == {"order": f"{tmp_path}/race.order", "schedule": "recorded"}
        assert settings({"order": "nothing"}) == {"order": "nothing", "schedule": "recorded"}
        assert settings({"order": None, "latency_file": None}) == {"order": None, "latency_file": None}
        assert settings({"order": "race", "schedule": "race"}) == {"order": "race.order", "schedule": "race"}
        assert settings({"latency_file": tmp_path / "l.json"}) == {"latency_file": f"{tmp_path}/l.json"}
    assert appo.settings({"clip_range": linear(0.2)}) == {"clip_range": 0.2, "clip_range_schedule": "0.0:0.2,1.0:0"}


@both
@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"learners": 0}, "^learners: 0, must be 1 to 100$"),
        ({"learners": 101}, "^learners: 101, must be 1 to 100$"),
        ({"learners": 3}, r"^num_envs: 8, must be a multiple of learners \(3\)$"),
        ({"learners": 8, "groups": 2}, r"^groups: 2, must be at most num_envs / learners \(1\)$"),
        ({"schedule": "hogwild"}, '^schedule: "hogwild", must be virtual, race, recorded$'),
        ({"schedule": "recorded"}, "^order: empty, must name a file with schedule recorded$"),
        ({"schedule": "race", "order": "x"}, '^order: "x", must be empty with schedule race$'),
        ({"order": "no such file"}, "^order: .*no such file: no such file or directory$"),
        ({"order": "a\0b"}, "must not contain NUL"),
        ({"shards": 0}, "^shards: 0, must be 1 to 64$"),
        ({"rule": "sum"}, '^rule: "sum", must be gradient, overwrite, multi_step_adam, mean$'),
        ({"rule": "overwrite", "sync_period": 2}, "^sync_period: 2, must be 1 with rule overwrite, which pushes every gradient$"),
        ({"rule": "mean", "pull_period": 4}, "^pull_period: 4, must be 0 with rule mean, where parameters change only when"),
        ({"rule": "mean", "pull_period": 0, "adam_time": "local"}, "^adam_time: local, must be global with rule mean"),
        ({"sync_period": 0}, "^sync_period: 0, must be 1 to 1024$"),
        ({"pull_period": -1}, "^pull_period: -1, must be 0 to 1048576$"),
        ({"max_staleness": -1}, "^max_staleness: -1, must be 0 to"),
        ({"adam_time": "now"}, '^adam_time: "now", must be global, local$'),
        ({"latency_step": 0}, '^latency_step: "0", must be seconds, 1e-9 to 60, or median:sigma with sigma 0 to 2$'),
        ({"latency_push": "0.1:3"}, '^latency_push: "0.1:3", must be seconds'),
        ({"latency_pull": "soon"}, '^latency_pull: "soon", must be seconds'),
        ({"latency_file": "nowhere.json"}, "^latency_file: .*nowhere.json: no such file or directory$"),
        ({"use_sde": True}, "use_sde: True, must be False"),
        ({"n_steps": 0}, "^n_steps: 0, must be 1 to"),
    ],
)
def test_wrong_keywords_are_refused_in_a_sentence(cls, keywords, says):
    with pytest.raises(PacelineError, match=says):
        small(cls, **keywords)


def test_rules_and_optimizers_that_do_not_fit_are_refused():
    with pytest.raises(
        ConfigError, match="^rule: multi_step_adam, must be another where the optimiser is rmsprop: it takes steps of Adam$"
    ):
        small(A3C, rule="multi_step_adam")
    with pytest.raises(ConfigError, match="^rule: multi_step_adam, must be another where the optimiser is rmsprop"):
        small(APPO, policy_kwargs={"optimizer_class": "RMSprop"})
    small(A3C, rule="multi_step_adam", use_rms_prop=False).close()


def test_keywords_of_other_methods_name_the_method():
    with pytest.raises(TypeError, match="'vtrace_groups': only A2C and A3C have groups of V-trace"):
        small(APPO, vtrace_groups=2)
    with pytest.raises(TypeError, match="'vtrace': only A2C, A3C, APPO, GA3C and PPO have V-trace"):
        PQN("MlpPolicy", "CartPole-v1", vtrace=True)
    with pytest.raises(TypeError, match="'clip_range': only PPO and APPO have a clipped objective"):
        small(A3C, clip_range=0.1)
    for cls in (A2C, PQN):
        with pytest.raises(TypeError, match="'learners': only A3C, APPO and DQN have several learners"):
            cls("MlpPolicy", "CartPole-v1", learners=2)


# ---------------------------------------------------------------- learning


@pytest.mark.parametrize("cls, of", [(A3C, A2C), (APPO, PPO)])
def test_one_learner_is_bit_identical_to_the_synchronous_method(cls, of):
    keywords = {name: value for name, value in KEYWORDS[cls].items() if name != "pull_period"}
    with of("MlpPolicy", "CartPole-v1", **keywords) as model:
        want = model.learn(640).hashes()
    assert weights(cls, learners=1, rule="gradient", pull_period=0) == want.weights
    with small(cls, learners=1, rule="gradient", pull_period=0, schedule="race") as model:
        assert model.learn(640).hashes() == want


@both
def test_learn_counts_and_reports(cls):
    with small(cls) as model:
        assert model.learn(640) is model
        stats = model.stats
        assert 640 <= stats["num_timesteps"] == model.num_timesteps < 704 and stats["rollouts"] >= 1
        assert stats["updates"] == stats["updates_due"] == stats["pushes"] > 10 and 0 <= stats["lag"] <= stats["lag_most"]
        assert 0 < -stats["entropy_loss"] <= np.log(2) + 1e-6 and np.isfinite(stats["loss"])
        assert (model.learners, model.schedule, model.order, model.shards) == (4, "virtual", "", 4)
        assert model.rule == ("gradient" if cls is A3C else "multi_step_adam")
        with pytest.raises(AttributeError, match="learners: read-only, is given when the model is made"):
            model.learners = 2
        assert model.learning_curve.steps[-1] == model.num_timesteps
        assert repr(model) == f"<paceline.{cls.__name__} on CartPole-v1>"


@both
def test_every_keyword_changes_the_weights(cls):
    results = [
        weights(cls, **keywords)
        for keywords in (
            {}, {"learners": 2}, {"rule": "overwrite"}, {"pull_period": 2}, {"latency_gradient": 0.01}, {"latency_step": "0.01:2"},
            {"seed": 8}, {"n_steps": 16}, {"gamma": 0.9}, {"gae_lambda": 0.8}, {"ent_coef": 0.1}, {"vf_coef": 0.1}, {"max_grad_norm": 0.01},
            {"learning_rate": (1e-2, 0.0)}, {"precision": "bf16"}, {"normalize_obs": True}, {"normalize_reward": True},
            {"vtrace": True}, {"rule": "mean", "pull_period": 0},
            *({"n_epochs": 3}, {"batch_size": 4}, {"clip_range": 0.01}, {"adam_time": "local"}, {"sync_period": 2}) * (cls is APPO),
        )
    ]  # fmt: skip
    assert len(set(results)) == len(results)
    assert {weights(cls, num_threads=n) for n in (1, 2, 3)} == {results[0]}


def test_groups_of_vtrace_are_groups_of_a_learner():
    with small(A3C, vtrace=True, vtrace_groups=2, vtrace_steps=2) as model:
        assert model._periods().rollout == 2 * 8 and model.learn(640).stats["updates"] > 20
    with pytest.raises(ConfigError, match=r"^vtrace_groups: 4, must divide num_envs / learners \(2\)$"):
        small(A3C, vtrace=True, vtrace_groups=4)


@both
def test_rates_end_with_the_steps_of_all_learners(cls):
    with small(cls, learning_rate=linear(0.01)) as model:
        model.learn(640)
        assert 0 <= model.stats["learning_rate"] < 0.002


@both
def test_callbacks_see_the_rounds_of_learners(cls):
    class Count(BaseCallback):
        def __init__(self):
            super().__init__()
            self.starts = self.ends = 0

        def _on_rollout_start(self):
            self.starts += 1

        def _on_rollout_end(self):
            self.ends += 1

        def _on_step(self):
            assert self.locals["rewards"].shape == (8,) and self.locals["dones"].shape == (8,)
            return self.num_timesteps < 320

    with small(cls) as model:
        model.learn(640, count := Count())
        assert count.n_calls == 320 / 2  # a learner has two environments
        assert count.starts >= count.ends == model.stats["rollouts"] + (count.starts > model.stats["rollouts"]) > 0
        assert model.num_timesteps == 320


@both
def test_environments_stepped_from_python(cls):
    def run(mode, **keywords):
        with small(cls, vector(mode, 4), **{"num_envs": 4, **keywords}) as model:
            model.learn(320)
            assert model.num_timesteps >= 320 and model.stats["updates"] > 5
            return model.hashes()

    same, disabled = (run(mode) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED))
    assert same == disabled == run(AutoresetMode.SAME_STEP, num_threads=1) != run(AutoresetMode.NEXT_STEP)


@both
def test_a_model_acts_evaluates_and_is_set(cls, tmp_path):
    with small(cls) as model, small(cls, seed=8) as other:
        model.learn(640)
        obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        actions, state = model.predict(obs, deterministic=True)
        assert actions.shape == (50,) and state is None
        other.set_parameters(model.get_parameters())
        assert other.hashes() == model.hashes()
        np.testing.assert_array_equal(other.predict(obs, deterministic=True)[0], actions)
        assert 640 <= other.learn(640, reset_num_timesteps=False).num_timesteps < 704
        result = model.evaluate(episodes=5, seed=1)
        assert result.episodes == 5 and result.mean_return > 5
        with model.policy_snapshot() as policy:
            policy.save(tmp_path / "policy.zip")
        with Policy.load(tmp_path / "policy.zip") as policy:
            np.testing.assert_array_equal(policy.act(obs), actions)
        model.learn(64, eval_freq=32, n_eval_episodes=2)
        assert len(model.evaluations) >= 1


@pytest.mark.slow
@both
def test_every_kind_of_action_is_taken(cls):
    for env in ("Pendulum-v1", "MountainCarContinuous-v0"):
        with small(cls, env) as model:
            model.learn(320)
            assert model.predict(np.zeros((3, *model.observation_space.shape), np.float32))[0].shape == (3, 1)


@pytest.mark.slow
@both
def test_tuned_presets_learn_cartpole(cls):
    with cls.from_preset("tuned", "CartPole-v1", seed=1) as model:
        assert model.learners == {A3C: 8, APPO: 4}[cls] and model.n_envs == 8 * model.learners
        model.learn(100_000)
        assert model.evaluate(episodes=20, seed=5).mean_return > 100


# ------------------------------------------------------------------- files


@both
@pytest.mark.parametrize("first", [192, 202])
def test_a_resumed_run_equals_an_uninterrupted_run(cls, tmp_path, first):
    keywords = {"learning_rate": linear(0.01)}
    whole = weights(cls, 640, **keywords)
    with small(cls, **keywords) as model:
        model.learn(640, callback=lambda locals, globals: model.num_timesteps < first)
        model.save(tmp_path / "half", replay=True)
        at = model.num_timesteps
        assert at == first
    with cls.load(tmp_path / "half") as model:
        assert model.num_timesteps == first and model.learners == 4
        model.learn(640 - at, reset_num_timesteps=False)
        assert model.hashes().weights == whole
    with pytest.raises(ConfigError, match=f"a run of '{cls.METHOD}', must be of 'a2c'"):
        A2C.load(tmp_path / "half")
    with pytest.raises(PacelineError, match='half.zip: learners: the checkpoint has "4", this trainer has "2"$'):
        cls.load(tmp_path / "half", learners=2)


def race(cls, path, steps=2000, **keywords):
    """The hashes and the steps of a race, whose order is saved at path."""
    with small(cls, schedule="race", **keywords) as model:
        model.learn(steps)
        model.save_order(path)
        return model.hashes(), model.num_timesteps


@both
@pytest.mark.parametrize(
    "more",
    [{}, {"rule": "overwrite", "learning_rate": linear(0.01)}, {"rule": "mean", "pull_period": 0}],
    ids=["default", "overwrite", "mean"],
)
def test_a_race_is_repeated_from_its_order(cls, tmp_path, more):
    want = race(cls, tmp_path / "folder" / "race", **more)
    file = tmp_path / "folder" / "race.order"
    assert file.read_bytes().startswith(b"paceline order 2\n")
    for threads, order in ((1, file), (2, tmp_path / "folder" / "race")):
        with small(cls, order=order, num_threads=threads, **more) as model:
            assert model.schedule == "recorded" and model.order == str(file)
            model.learn(2000, log_interval=None, eval_freq=500, n_eval_episodes=1)
            assert (model.hashes(), model.num_timesteps) == want
            model.save_order(tmp_path / "again.order")
    assert (tmp_path / "again.order").read_bytes() == file.read_bytes()


@both
@pytest.mark.parametrize("more", [{}, {"num_envs": 2, "learners": 1}, {"rule": "mean", "pull_period": 0}], ids=["default", "one", "mean"])
def test_calls_of_equal_length_are_repeated_one_by_one(cls, tmp_path, more):
    def calls(**keywords):
        results = []
        with small(cls, **{**more, **keywords}) as model:
            for _ in range(3):
                model.learn(320)
                results.append((model.hashes(), model.num_timesteps, model.stats["updates"]))
            if model.schedule == "race":
                model.save_order(tmp_path / "race")
        return results

    assert calls(schedule="race") == calls(order=tmp_path / "race.order")


@both
def test_a_race_is_repeated_in_environments_stepped_from_python(cls, tmp_path):
    def run(**keywords):
        with small(cls, vector(AutoresetMode.SAME_STEP, 4), **{"num_envs": 4, **keywords}) as model:
            model.learn(400)
            if model.schedule == "race":
                model.save_order(tmp_path / "race")
            return model.hashes()

    assert run(schedule="race") == run(order=tmp_path / "race")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize("cls, more", [(A3C, {}), (APPO, {"batch_size": 1, "pull_period": 0, "normalize_advantage": False})])
def test_the_mean_of_single_steps_in_environments_stepped_from_python(cls, more, mode):
    """A learner whose only row resets has no step, and the others go on without it."""
    envs = vector(mode, 4, lambda _: gymnasium.make("CartPole-v1"))
    with small(cls, envs, num_envs=4, rule="mean", n_steps=1, **more) as model:
        for _ in range(2):
            model.learn(400)
            assert model.num_timesteps >= 400


@both
def test_a_race_that_was_stopped_and_continued_is_repeated(cls, tmp_path):
    """The record of the parts, joined, repeats them; a checkpoint has the order, too."""
    with small(cls, schedule="race") as model:

        def stop():
            while model.num_timesteps < 500:
                time.sleep(0.001)
            model.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        model.learn(100_000_000)
        stopper.join()
        first = model.num_timesteps
        model.save(tmp_path / "half", replay=True)
    with cls.load(tmp_path / "half") as model:
        model.learn(1000, reset_num_timesteps=False)
        model.save_order(tmp_path / "whole.order")
        model.save(tmp_path / "whole.zip", replay=True)
        want, end = model.hashes(), model.num_timesteps
    for order in (tmp_path / "whole.order", tmp_path / "whole.zip"):
        with small(cls, order=order) as model:
            model.learn(100_000_000, callback=lambda *_: model.num_timesteps < first)
            assert model.num_timesteps == first
            model.learn(1000, reset_num_timesteps=False)
            assert (model.hashes(), model.num_timesteps) == (want, end)


@both
def test_steps_after_the_end_of_an_order_are_refused(cls, tmp_path):
    want, end = race(cls, tmp_path / "race.order", 640)
    with small(cls, order=tmp_path / "race.order") as model:
        with pytest.raises(ConfigError, match=rf"order: ends at step {end}, after \d+ visits; learner \d has more rounds or visits"):
            model.learn(6400)
        assert (model.hashes(), model.num_timesteps) == (want, end)
        model.save(tmp_path / "model")


@both
def test_a_repeated_run_is_loaded_without_the_file_of_its_order(cls, tmp_path):
    order, whole, weights = tmp_path / "race.order", tmp_path / "whole.zip", tmp_path / "weights.zip"
    race(cls, order, 640)
    with small(cls, order=order) as model:
        want = model.learn(640).hashes()
        model.save(whole, replay=True)
        model.save(weights)
    order.unlink()
    for file in (whole, weights):
        with pytest.raises(MissingFileError, match="^order: .*race.order: no such file or directory$"):
            cls.load(file)
    with cls.load(whole, order=whole) as model:
        assert model.hashes() == want
    with cls.load(weights, schedule="virtual", order=None) as model:
        assert model.hashes() == want
        done = model.num_timesteps  # a race ends with its learners' rollouts
        assert done + 64 <= model.learn(64, reset_num_timesteps=False).num_timesteps < done + 128


@both
def test_orders_that_do_not_fit_are_refused(cls, tmp_path):
    file = tmp_path / "race.order"
    race(cls, file)
    for name, recorded, own in (("learners", 4, 2), ("shards", 4, 3), ("num_envs", 8, 16), ("n_steps", 8, 5), ("seed", 7, 12)):
        with pytest.raises(ConfigError, match=f'^order: {name}: the record has "{recorded}", this run has "{own}"$'):
            small(cls, order=file, **{name: own})
    text = file.read_bytes()
    for damaged in (text[:-1], text[:20], b"", text[:30] + bytes([text[30] ^ 1]) + text[31:], b"PK\3\4" + text):
        file.write_bytes(damaged)
        with pytest.raises(PacelineError, match="^order: "):
            small(cls, order=file)
    with pytest.raises(PacelineError, match="^order: "):
        small(cls, order=tmp_path)
    with small(cls) as model:
        model.learn(64)
        model.save(tmp_path / "virtual.zip", replay=True)
        says = "^order: not recorded with schedule virtual, must be schedule race or recorded$"
        with pytest.raises(ConfigError, match=says):
            model.save_order(tmp_path / "none")
        assert not (tmp_path / "none.order").exists()
    says = 'a checkpoint without a recorded order, must be one of schedule "race" or "recorded" that was saved with its experience'
    with pytest.raises(ConfigError, match=says):
        small(cls, order=tmp_path / "virtual.zip")
    with pytest.raises(ConfigError, match='schedule: the checkpoint has "virtual", this trainer has "race"'):
        cls.load(tmp_path / "virtual.zip", schedule="race")


@both
def test_a_closed_model_saves_no_order(cls, tmp_path):
    model = small(cls, schedule="race")
    model.close()
    with pytest.raises(PacelineError, match="model: closed"):
        model.save_order(tmp_path / "race")


@both
def test_measured_durations_are_read(cls, tmp_path):
    file = tmp_path / "latencies.json"
    file.write_text(json.dumps({"step": [0.001, 0.002, 0.1], "gradient": [0.01], "push": [0.0001], "pull": [0.0001]}))
    assert weights(cls, latency_file=file) == weights(cls, latency_file=str(file), num_threads=1) != weights(cls)
    file.write_text('{"steps": [1]}')
    with pytest.raises(PacelineError, match="^latency_file: .*steps"):
        small(cls, latency_file=file)


def test_missing_files_are_named(tmp_path):
    with pytest.raises((MissingFileError, CheckpointError), match="nothing"):
        A3C.load(tmp_path / "nothing")
    with gymnasium.make("CartPole-v1") as env, pytest.raises(ConfigError, match=r"num_envs: 1, must be a multiple of learners \(2\)"):
        A3C("MlpPolicy", env, learners=2)
