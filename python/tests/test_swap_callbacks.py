"""Callbacks and loggers as Stable-Baselines3's scripts use them, without Stable-Baselines3."""

import csv
import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from envs import MODES, SMALL, Walk, vector
from paceline import A2C, DQN, PacelineWarning
from paceline.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from paceline.errors import ConfigError
from paceline.logger import configure

KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}}
both = pytest.mark.parametrize("cls", [DQN, A2C])


# ------------------------------------------------------------------ callbacks


class Record(BaseCallback):
    def __init__(self):
        super().__init__()
        self.episodes, self.rewards, self.lasts = [], 0.0, []

    def _on_step(self):
        model, rows = self.model, self.locals
        assert rows["new_obs"].shape == (model.n_envs, *model.obs_layout.shape) and len(rows["infos"]) == model.n_envs
        assert rows["actions"].shape == rows["rewards"].shape == rows["dones"].shape == (model.n_envs,)
        assert rows["dones"].dtype == bool and rows["rewards"].dtype == np.float32
        self.rewards += rows["rewards"].sum()
        for done, info in zip(rows["dones"], rows["infos"]):
            assert done == ("terminal_observation" in info) == ("episode" in info) and (done or not info["TimeLimit.truncated"])
            if done:
                self.episodes.append(info["episode"])
                self.lasts.append((info["terminal_observation"], info["TimeLimit.truncated"]))
        return True


@both
@pytest.mark.parametrize("keywords", [{"num_envs": 1}, {"num_envs": 3}])
def test_locals_have_the_results_of_built_in_environments(cls, keywords):
    record = Record()
    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls], **keywords) as model:
        model.learn(600, callback=record)
        assert record.rewards == 600  # a step of CartPole has reward 1
        assert len(record.episodes) == model.stats["episodes"] > 5
        assert np.mean([e["r"] for e in record.episodes[-100:]]) == pytest.approx(model.stats["mean_return"])
        assert all(e["r"] == e["l"] and e["t"] > 0 for e in record.episodes)
    # A terminal observation of CartPole is out of bounds.
    assert all(abs(obs[0]) > 2.4 or abs(obs[2]) > 0.2094 for obs, cut in record.lasts if not cut)


def test_a_callback_does_not_change_the_result():
    hashes = []
    for callback in (None, Record()):
        with DQN("MlpPolicy", "CartPole-v1", **SMALL, num_envs=3) as model:
            hashes.append(model.learn(600, callback=callback).hashes())
    assert hashes[0] == hashes[1]


@both
def test_locals_have_the_results_of_python_environments(cls):
    record = Record()
    infos = []
    env = Walk(spaces.Box(-1, 1, (3,)))

    def look(locals_, globals_):
        infos.append(locals_["infos"][0])

    with cls("MlpPolicy", env, **KEYWORDS[cls]) as model:
        model.learn(150, callback=[record, look])
    assert [e["r"] for e in record.episodes[:4]] == [9, 6, 9, 6] and [e["l"] for e in record.episodes[:2]] == [9, 6]
    assert [cut for _, cut in record.lasts[:4]] == [True, False, True, False]
    # the environment's own infos
    assert [info["steps"] for info in infos[:16]] == [*range(1, 10), *range(1, 7), 1]
    with cls("MlpPolicy", gymnasium.wrappers.RecordEpisodeStatistics(env), **KEYWORDS[cls]) as model:
        model.learn(50, callback=lambda locals_, _: infos.append(locals_["infos"][0]))
    ends = [info["episode"] for info in infos[-50:] if "episode" in info]
    assert [end["l"] for end in ends][:2] in ([9, 6], [6, 9]) and set(ends[0]) == {"r", "l", "t"}


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_locals_have_the_results_of_vectors(mode):
    record = Record()
    envs = gymnasium.vector.SyncVectorEnv([lambda: Walk(spaces.Box(-1, 1, (3,)))] * 2, autoreset_mode=mode)
    with DQN("MlpPolicy", envs, **SMALL) as model:
        model.learn(200, callback=record)
        assert len(record.episodes) == model.stats["episodes"] > 10
    assert {e["r"] for e in record.episodes} == {6.0, 9.0}


class Flag(gymnasium.Wrapper):
    """Walk with game_over of its own meaning in infos: whether it is environment 1, which also has twice the rewards."""

    def __init__(self, number):
        super().__init__(Walk(spaces.Box(-1, 1, (3,))))
        self.number = number

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward * (1 + self.number), terminated, truncated, info | {"game_over": bool(self.number)}


def test_only_built_in_environments_say_where_games_end():
    record = Record()
    with A2C("MlpPolicy", vector(gymnasium.vector.AutoresetMode.SAME_STEP, 2, Flag), **KEYWORDS[A2C]) as model:
        model.learn(60, callback=record)
    assert [e["r"] for e in record.episodes[:4]] == [9, 18, 6, 12]


def test_callbacks_take_the_keywords_of_sb3(tmp_path):
    seen = []
    stop = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1, min_evals=1)
    evaluation = EvalCallback(
        gymnasium.make("CartPole-v1"),
        callback_on_new_best=StopTrainingOnRewardThreshold(reward_threshold=1e9),
        callback_after_eval=stop,
        n_eval_episodes=3,
        eval_freq=100,
        log_path=tmp_path / "logs",
        best_model_save_path=tmp_path / "best",
        deterministic=True,
        render=False,
        verbose=0,
        warn=False,
    )
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "learning_rate": 0.0}, num_envs=2) as model:
        every = EveryNTimesteps(n_steps=50, callback=Record())
        model.learn(2000, callback=CallbackList([evaluation, every, ProgressBarCallback(), lambda *_: seen.append(1)]))
        file = np.load(tmp_path / "logs" / "evaluations.npz")
        n = len(file["timesteps"])
        assert file["timesteps"].tolist() == [100 * (k + 1) for k in range(n)] and model.num_timesteps == 100 * n < 2000
        assert file["results"].shape == file["ep_lengths"].shape == (n, 3) and (file["results"] == file["ep_lengths"]).all()
        assert file["results"].mean(1).max() == evaluation.best_mean_reward
        assert every.callback.n_calls == 2 * n
    with DQN.load(tmp_path / "best" / "best_model") as best:  # training can continue
        best.learn(100, reset_num_timesteps=False)
    with DQN("MlpPolicy", "CartPole-v1", **SMALL, num_envs=2) as model:
        record = Record()
        model.learn(5000, callback=[record, StopTrainingOnMaxEpisodes(4)])
        assert len(record.episodes) == 8
    with pytest.raises(ConfigError, match="render: True, must be False; .*RecordVideo"):
        EvalCallback("CartPole-v1", render=True)


@both
@pytest.mark.parametrize("env", ["CartPole-v1", "a vector"])
def test_locals_have_the_arguments_of_learn(cls, env):
    """locals has the names of Stable-Baselines3's learn and collect_rollouts that cost nothing."""
    envs = vector(MODES[1], 2, lambda i: gymnasium.make("CartPole-v1")) if env == "a vector" else env
    seen = []

    def look(locals_, globals_):
        names = ("total_timesteps", "log_interval", "tb_log_name", "reset_num_timesteps", "progress_bar")
        seen.append([locals_[name] for name in names])
        assert locals_["self"] is model and callable(locals_["callback"].on_step) and locals_["env"] is model.get_env()
        assert "env" in locals_ and locals_.get("env").num_envs == 2 and locals_.get("nothing", 3) == 3
        with pytest.raises(KeyError, match="nothing"):
            locals_["nothing"]
        assert ("replay_buffer" in locals_) == (cls is DQN)
        if cls is DQN:
            assert locals_["replay_buffer"].buffer_size == 500

    with cls("MlpPolicy", envs, num_envs=2, **KEYWORDS[cls]) as model:
        model.learn(40, callback=[look], log_interval=7, tb_log_name="mine")
        model.learn(40, callback=[look], reset_num_timesteps=False)
    assert seen[0] == [40, 7, "mine", True, False] and seen[-1] == [80, model.LOG_INTERVAL, cls.__name__, False, False]


def test_log_every_n_timesteps_records_every_n_steps(tmp_path):
    logger = configure(tmp_path, ["json"])
    with DQN("MlpPolicy", "CartPole-v1", **SMALL, num_envs=2) as model:
        model.set_logger(logger)
        model.learn(400, callback=LogEveryNTimesteps(n_steps=100), log_interval=None)
    logger.close()
    lines = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert [line["time/total_timesteps"] for line in lines] == [100, 200, 300, 400]


def test_checkpoint_callback_saves_the_replay_buffer(tmp_path):
    """The replay buffer has SB3's file name. It is a link to the checkpoint."""
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        for _ in range(2):  # the second run overwrites the files of the first
            model.learn(400, callback=CheckpointCallback(200, tmp_path, save_replay_buffer=True, save_vecnormalize=True))
        expected, size = model.hashes().replay, model.replay_buffer.size()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        name for n in (200, 400) for name in (f"rl_model_{n}_steps.zip", f"rl_model_replay_buffer_{n}_steps.pkl")
    )
    assert (tmp_path / "rl_model_400_steps.zip").samefile(tmp_path / "rl_model_replay_buffer_400_steps.pkl")
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.load_replay_buffer(tmp_path / "rl_model_replay_buffer_400_steps")
        assert model.replay_buffer.size() == size and model.hashes().replay == expected


# -------------------------------------------------------------------- loggers


def test_loggers_write_every_format(tmp_path, capsys):
    pytest.importorskip("tensorboard")
    logger = configure(tmp_path / "logs", ["stdout", "csv", "json", "tensorboard"])
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.set_logger(logger)

        def record(locals_, globals_):
            model.logger.record_mean("mine/mean", float(model.num_timesteps))
            model.logger.record("mine/last", model.num_timesteps, exclude="csv")

        model.learn(200, callback=record, log_interval=2, eval_freq=100, n_eval_episodes=2)
        model.learn(50, reset_num_timesteps=False)  # the logger stays open and is used again
        assert model.logger is logger and logger.get_dir() == str(tmp_path / "logs")
    logger.close()
    rows = list(csv.DictReader((tmp_path / "logs" / "progress.csv").read_text().splitlines()))
    lines = [json.loads(line) for line in (tmp_path / "logs" / "progress.json").read_text().splitlines()]
    assert len(rows) == len(lines) > 3 and "mine/last" not in rows[0] and lines[0]["mine/last"] > 0
    # evaluations are recorded at once
    assert sum("eval/mean_reward" in line for line in lines) == 2
    assert float(rows[0]["mine/mean"]) == np.mean(range(1, lines[0]["mine/last"] + 1))
    assert "ep_rew_mean" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="format_strings: 'xml', must be stdout, log, json, csv, tensorboard"):
        configure(tmp_path, ["xml"])


@both
@pytest.mark.parametrize("log_interval", [1, None])
def test_the_logger_has_the_metrics_of_the_latest_update(cls, log_interval):
    """Callbacks read the loss in name_to_value, and callers of learn do."""

    class Read(BaseCallback):
        found: dict = {}

        def _read(self, where):
            values = self.logger.name_to_value
            assert ("train/n_updates" in values) == ("train/loss" in values)
            self.found[where] = values.get("train/n_updates", 0)

        def _on_rollout_start(self):
            self._read("start")

        def _on_step(self):
            self._read("step")
            return True

        def _on_training_end(self):
            self._read("end")

    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        read = Read()
        model.learn(200, callback=read, log_interval=log_interval)
        assert 0 < read.found["start"] <= read.found["step"] <= read.found["end"] == model._n_updates
        values = model.logger.name_to_value
        assert values["train/loss"] == model.stats["loss"] and values["not/recorded"] == 0


def test_loggers_have_levels_and_output_formats(tmp_path, capsys):
    logger = configure(tmp_path, ["stdout", "csv"])
    assert [type(output).__name__ for output in logger.output_formats] == ["_Table", "_CSV"] and logger.level == 20
    logger.debug("quiet")
    logger.set_level(10)
    logger.debug("loud")
    logger.set_level(40)
    logger.warn("less")
    assert capsys.readouterr().out == "loud\n"
    logger.close()


def test_only_the_sb3_logger_has_a_tensorboard_writer(process, tmp_path):
    pytest.importorskip("tensorboard")
    made = f"from paceline.logger import configure; configure({str(tmp_path)!r}, ['tensorboard']).output_formats[0].writer"
    done = process(made, check=False)
    assert "AttributeError: writer: none, " in done.stderr and "set_logger(stable_baselines3.common.logger.configure(" in done.stderr


def test_unwritable_values_give_one_warning(tmp_path):
    logger = configure(tmp_path, ["json"])
    with pytest.warns(PacelineWarning, match="a/figure: a Figure.*stable-baselines3's Logger") as caught:
        for _ in range(2):
            logger.record("a/figure", type("Figure", (), {})())
            logger.record("a/n", np.float32(3))
            logger.dump(1)
    logger.close()
    assert len(caught) == 1
    assert (tmp_path / "progress.json").read_text() == '{"a/n": 3.0}\n' * 2
