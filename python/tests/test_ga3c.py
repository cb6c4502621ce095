"""GA3C: keywords, predictors and trainers, schedules, the tuner and its trace, files.

test_a2c.py tests what GA3C shares with A2C, and test_asynchronous.py the orders of other methods.
"""

import csv
import inspect
import itertools
import os

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import vector
from paceline import A2C, GA3C, PPO, Policy, ga3c, linear, plots
from paceline.config import Config, describe
from paceline.errors import CheckpointError, ConfigError, MissingFileError, PacelineError

SMALL = {"seed": 7, "policy_kwargs": {"net_arch": [16]}, "num_envs": 6, "n_steps": 4, "learning_rate": 0.01, "rms_prop_eps": 0.01}
TUNED = {"tuner": "ladder", "tuner_period": 0.05, "tuner_pairs": 2, "num_envs": 16, "predictors": 3, "trainers": 3}


def small(env="CartPole-v1", **keywords):
    return GA3C("MlpPolicy", env, **{**SMALL, **keywords})


def weights(steps=600, **keywords):
    with small(**keywords) as model:
        return model.learn(steps).hashes().weights


# ---------------------------------------------------------------- keywords


def test_positional_keywords_equal_those_of_a2c():
    ours, theirs = (
        {name: p.default for name, p in inspect.signature(cls).parameters.items() if p.kind is not p.KEYWORD_ONLY} for cls in (GA3C, A2C)
    )
    assert list(ours) == list(theirs) and ours == {**theirs, "learning_rate": 3e-4}


def test_every_setting_is_a_keyword_and_defaults_are_the_library_defaults():
    by_others = {
        "env", "env_options", "learning_rate_final", "learning_rate_schedule", "autoreset", "normalize_images", "host_data", "net_arch_pi",
        "net_arch_vf", "trunk", "activation_fn", "ortho_init", "log_std_init", "rms_prop_alpha", "rms_prop_eps_inside", "rms_prop_first",
        "adam_eps",
    }  # fmt: skip
    assert {s.name for s in describe("ga3c")} - by_others <= set(GA3C.keywords())
    defaults = {name: p.default for name, p in inspect.signature(GA3C).parameters.items()}
    for setting in describe("ga3c"):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config("ga3c")
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_every_keyword_is_documented():
    text = inspect.getdoc(GA3C)
    for name in set(GA3C.keywords()) - set(A2C.keywords()):
        assert name in text, name


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"predictors": 0}, "^predictors: 0, must be 1 to 64$"),
        ({"trainers": 65}, "^trainers: 65, must be 1 to 64$"),
        ({"min_training_batch": 20, "training_queue": 19}, r"^training_queue: 19, must be at least min_training_batch \(20\)"),
        ({"regulariser": "none"}, '^regulariser: "none", must be paper, authors, exact$'),
        ({"loss_reduction": "max"}, '^loss_reduction: "max", must be sum, mean$'),
        ({"rms_prop": "tf2"}, '^rms_prop: "tf2", must be tf1, custom$'),
        ({"log_eps": 0}, "^log_eps: 0, must be "),
        ({"schedule": "hogwild"}, '^schedule: "hogwild", must be virtual, race, recorded$'),
        ({"schedule": "recorded"}, "^order: empty, must name a file with schedule recorded$"),
        ({"schedule": "race", "order": "x"}, '^order: "x", must be empty with schedule race$'),
        ({"order": "no such file"}, "^order: .*no such file: no such file or directory$"),
        ({"tuner": "best"}, '^tuner: "best", must be none, paper, authors, ladder$'),
        ({"tuner": "paper", "tuner_start": [1, 2]}, "^tuner_start: .*, must be three numbers: predictors, trainers, agents$"),
        ({"tuner_period": 0}, "^tuner_period: 0, must be "),
        ({"latency_update": 0}, '^latency_update: "0", must be seconds, 1e-9 to 60, or median:sigma with sigma 0 to 2$'),
        ({"latency_file": "nowhere.json"}, "^latency_file: .*nowhere.json: no such file or directory$"),
        ({"n_steps": 1, "normalize_advantage": True}, "^normalize_advantage: true, must be false where an update has one step"),
        ({"use_sde": True}, "use_sde: True, must be False"),
        ({"device": "cuda"}, "^device: cuda, must be auto or cpu for ga3c$"),
    ],
)
def test_wrong_keywords_are_refused_in_a_sentence(keywords, says):
    with pytest.raises(PacelineError, match=says):
        small(**keywords)


def test_keywords_of_other_methods_name_the_method():
    with pytest.raises(TypeError, match="'learners': only A3C, APPO and DQN have several learners"):
        small(learners=2)
    with pytest.raises(TypeError, match="'normalize_obs': only A2C, A3C, APPO and PPO normalise"):
        small(normalize_obs=True)
    with pytest.raises(TypeError, match="'predictors': only GA3C has predictors and trainers"):
        PPO("MlpPolicy", "CartPole-v1", predictors=2)
    with pytest.raises(TypeError, match="'schedule': only A3C, APPO, DQN, GA3C and Gorila are asynchronous"):
        PPO("MlpPolicy", "CartPole-v1", schedule="race")
    with pytest.raises(TypeError, match="tuner_trace"):
        small(tuner_trace="x")


# ---------------------------------------------------------------- learning


def test_learn_counts_and_reports():
    with small() as model:
        assert model.learn(600) is model
        stats = model.stats
        assert 600 <= stats["num_timesteps"] == model.num_timesteps < 606
        assert stats["updates"] == stats["updates_due"] > 100 and stats["pps"] > stats["tps"] > 0
        assert 0 <= stats["lag_mean"] <= stats["lag_most"] and 1 <= stats["training_batch"] <= 4 and stats["prediction_batch"] >= 1
        assert (stats["predictors"], stats["trainers"], stats["agents"]) == (2, 2, 6) and np.isnan(stats["tuner_periods"])
        assert (model.predictors, model.trainers, model.schedule, model.order, model.tuner) == (2, 2, "virtual", "", "none")
        assert model.learning_curve.steps[-1] == model.num_timesteps
        with pytest.raises(AttributeError, match="trainers: read-only, is given when the model is made"):
            model.trainers = 2
        assert repr(model) == "<paceline.GA3C on CartPole-v1>"


def test_every_keyword_changes_the_weights():
    results = [
        weights(**keywords)
        for keywords in (
            {}, {"predictors": 1}, {"trainers": 1}, {"prediction_batch_max": 1}, {"prediction_queue": 2},
            {"min_training_batch": 8}, {"wait_for_update": True}, {"regulariser": "authors", "log_eps": 0.1, "ent_coef": 0.1},
            {"regulariser": "exact", "ent_coef": 0.1}, {"ent_coef": 0.1}, {"log_eps": 0.1}, {"loss_reduction": "mean"},
            {"rms_prop": "custom"}, {"use_rms_prop": False}, {"latency_step": 0.01}, {"latency_predict": "0.01:1"},
            {"latency_update": 0.01}, {"latency_update": 0.01, "training_queue": 1}, {"latency_device": 1},
            {"latency_cores": 1}, {**TUNED}, {**TUNED, "tuner": "authors"},
            {"seed": 8}, {"n_steps": 8}, {"gamma": 0.9}, {"gae_lambda": 0.8}, {"vf_coef": 0.1}, {"max_grad_norm": 0.01},
            {"learning_rate": (1e-2, 0.0)}, {"precision": "bf16"}, {"vtrace": True},
        )
    ]  # fmt: skip
    assert len(set(results)) == len(results)
    assert {weights(num_threads=n) for n in (1, 2, 3)} == {results[0]}


def test_environments_stepped_from_python():
    def run(mode, **keywords):
        with small(vector(mode, 4), **{"num_envs": 4, **keywords}) as model:
            model.learn(320)
            assert model.num_timesteps == 320 and model.stats["updates"] > 5
            return model.hashes()

    same, disabled = (run(mode) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED))
    assert same == disabled == run(AutoresetMode.SAME_STEP, num_threads=1) != run(AutoresetMode.NEXT_STEP)


def test_callbacks_see_rows_of_all_agents_and_stop():
    calls = []

    def callback(locals, globals):
        calls.append(locals["self"].num_timesteps)
        assert locals["rewards"].shape == (6,) and locals["dones"].shape == (6,)
        return calls[-1] < 300

    with small() as model:
        model.learn(600, callback)
        assert 300 <= model.num_timesteps < 306 and len(calls) > 30 and calls == sorted(set(calls))


def test_a_model_acts_evaluates_and_is_set(tmp_path):
    with small() as model, small(seed=8) as other:
        model.learn(600)
        obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        actions, state = model.predict(obs, deterministic=True)
        assert actions.shape == (50,) and state is None
        other.set_parameters(model.get_parameters())
        assert other.hashes() == model.hashes()
        np.testing.assert_array_equal(other.predict(obs, deterministic=True)[0], actions)
        assert other.learn(600, reset_num_timesteps=False).num_timesteps >= 600
        assert model.evaluate(episodes=5, seed=1).mean_return > 5
        with model.policy_snapshot() as policy:
            policy.save(tmp_path / "policy.zip")
        with Policy.load(tmp_path / "policy.zip") as policy:
            np.testing.assert_array_equal(policy.act(obs), actions)
        model.learn(64, eval_freq=32, n_eval_episodes=2)
        assert len(model.evaluations) >= 1


@pytest.mark.slow
def test_every_kind_of_action_is_taken():
    for env in ("Pendulum-v1", "MountainCarContinuous-v0"):
        with small(env) as model:
            model.learn(320)
            assert model.predict(np.zeros((3, *model.observation_space.shape), np.float32))[0].shape == (3, 1)


def test_presets():
    with GA3C.from_preset("paper", "CartPole-v1", seed=1) as model:
        assert (model.n_envs, model.rms_prop, model.loss_reduction, model.max_grad_norm) == (32, "tf1", "sum", 0)
        assert model.learn(1000).stats["updates"] > 100


# ------------------------------------------------------------------- files


@pytest.mark.parametrize("first", [200, 301])
@pytest.mark.parametrize("more", [{}, TUNED])
def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path, first, more):
    keywords = {"learning_rate": linear(0.01), **more}
    with small(**keywords) as model:
        model.learn(600)
        want, end = model.hashes().weights, model.num_timesteps
    with small(**keywords) as model:
        model.learn(600, callback=lambda locals, globals: model.num_timesteps < first)
        model.save(tmp_path / "half", replay=True)
        at = model.num_timesteps
        assert first <= at < first + 16
    with GA3C.load(tmp_path / "half") as model:
        assert model.num_timesteps == at and model.trainers == keywords.get("trainers", 2)
        model.learn(600 - at, reset_num_timesteps=False)
        assert (model.hashes().weights, model.num_timesteps) == (want, end)
    with pytest.raises(ConfigError, match="a run of 'ga3c', must be of 'a2c'"):
        A2C.load(tmp_path / "half")


@pytest.mark.parametrize("more", [{}, {**TUNED, "tuner_period": 0.002}], ids=["plain", "tuner"])
def test_a_race_is_repeated_from_its_order(tmp_path, more):
    file = tmp_path / "folder" / "race.order"
    with small(schedule="race", **more) as model:
        model.learn(2000)
        model.save_order(tmp_path / "folder" / "race")
        model.save(tmp_path / "race.zip", replay=True)
        want = model.hashes(), model.num_timesteps
    assert file.read_bytes().startswith(b"paceline ga3c order 3\n")
    for threads, order in ((1, file), (2, tmp_path / "folder" / "race"), (1, tmp_path / "race.zip")):
        with small(order=order, num_threads=threads, **more) as model:
            assert model.schedule == "recorded"
            model.learn(2000)
            assert (model.hashes(), model.num_timesteps) == want
            model.save_order(tmp_path / "again.order")
        assert (tmp_path / "again.order").read_bytes() == file.read_bytes()
    with pytest.raises(PacelineError, match='seed: the record has "7", this run has "8"'):
        small(order=file, seed=8, **more)


def test_orders_that_do_not_fit_are_refused(tmp_path):
    with small(schedule="race") as model:
        model.learn(200)
        model.save_order(tmp_path / "race")
    with pytest.raises(PacelineError, match='num_envs: the record has "6", this run has "5"'):
        small(order=tmp_path / "race", num_envs=5)
    text = (tmp_path / "race.order").read_bytes()
    for damaged in (text[:-1], text[:30], b"", text[:40] + bytes([text[40] ^ 1]) + text[41:]):
        (tmp_path / "race.order").write_bytes(damaged)
        with pytest.raises(PacelineError, match="^order: "):
            small(order=tmp_path / "race.order")
    with small() as model, pytest.raises(ConfigError, match="^order: not recorded with schedule virtual"):
        model.save_order(tmp_path / "none")
    assert not (tmp_path / "none.order").exists()


# --------------------------------------------------------------- the tuner


def test_the_trace_of_the_tuner(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with small(**TUNED, tuner_start=(2, 1, 4)) as model:
        model.learn(2000)
        model.save_trace(tmp_path / "new" / "trace")
        with open(tmp_path / "new" / "trace.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        stats = model.stats
        assert len(rows) == stats["tuner_periods"] > 5 and [int(row["period"]) for row in rows] == list(range(1, len(rows) + 1))
        assert sum(row["kept"] == "true" for row in rows) == stats["tuner_kept"]
        moved = {"predictors": 2, "trainers": 1, "agents": 4}
        assert any(int(rows[0][name]) != number for name, number in moved.items())
        assert all(float(a["time"]) < float(b["time"]) for a, b in itertools.pairwise(rows)) and float(rows[0]["new"]) > 0
        model.save(tmp_path / "run", replay=True)
    with GA3C.load(tmp_path / "run") as model:
        model.save_trace(tmp_path / "again.csv")
        assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "new" / "trace.csv").read_bytes()
        model.learn(2000, reset_num_timesteps=False)
        model.save_trace(tmp_path / "again.csv")
        assert (tmp_path / "again.csv").read_bytes().startswith((tmp_path / "new" / "trace.csv").read_bytes())
    assert not os.listdir(".")  # nothing is written but by save_trace and save


def test_there_is_no_trace_without_a_tuner(tmp_path):
    says = "^trace: nothing is adjusted with tuner none and schedule virtual, must be another tuner than none"
    with small() as model, pytest.raises(ConfigError, match=says):
        model.save_trace(tmp_path / "none")
    assert not (tmp_path / "none.csv").exists()
    with pytest.raises(PacelineError, match="model: closed"):
        model.save_trace(tmp_path / "none")


@pytest.mark.parametrize("tuner", ["ladder", "authors"])
def test_the_trace_is_drawn(tmp_path, tuner):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    with small(**{**TUNED, "tuner": tuner}) as model:
        model.learn(2000).save_trace(tmp_path / "trace.csv")
    plots.save_trace(tmp_path / "trace.png", tmp_path / "trace.csv")
    with image.open(tmp_path / "trace.png") as drawn:
        assert drawn.format == "PNG" and drawn.width > drawn.height > 300
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="^trace: .*other.csv: columns .*, must be period, time, predictors"):
        plots.save_trace(tmp_path / "x.png", tmp_path / "other.csv")
    with pytest.raises(MissingFileError, match="^trace: .*nothing.csv: no such file"):
        plots.save_trace(tmp_path / "x.png", tmp_path / "nothing.csv")
    whole = (tmp_path / "trace.csv").read_bytes()
    for damaged in (whole + b"1,2\n", whole + b"x" * 9 + b"," * 8 + b"\n", whole + b"\xff\n"):
        (tmp_path / "damaged.csv").write_bytes(damaged)
        with pytest.raises(CheckpointError, match="^trace: .*damaged.csv: damaged: "):
            plots.save_trace(tmp_path / "x.png", tmp_path / "damaged.csv")
    with pytest.raises(CheckpointError, match="^trace: .*: not read: Is a directory$"):
        plots.save_trace(tmp_path / "x.png", tmp_path)
    (tmp_path / "short.csv").write_text((tmp_path / "trace.csv").read_text().splitlines()[0] + "\n")
    plots.save_trace(tmp_path / "short.png", tmp_path / "short.csv")


def test_settings_of_keywords(tmp_path):
    assert ga3c.settings({"order": "nothing"}) == {"order": "nothing", "schedule": "recorded"}
    assert ga3c.settings({"latency_file": tmp_path / "l.json"}) == {"latency_file": f"{tmp_path}/l.json"}


def test_every_cnn_learns():
    with pytest.raises(ConfigError) as refused:
        A2C("CnnPolicy", "Catch-v0", cnn="none")
    names = str(refused.value).partition("must be ")[2].split(", ")
    assert {"nature", "cule", "ga3c_1", "ga3c_2", "ga3c_3", "ga3c_4"} <= set(names)
    for name in names:
        with A2C("CnnPolicy", "Catch-v0", num_envs=1, cnn=name, n_steps=4, seed=1, device="cpu") as model:
            before = model.hashes().weights
            model.learn(8)
            assert model.stats["updates"] == 2 and model.hashes().weights != before, name
