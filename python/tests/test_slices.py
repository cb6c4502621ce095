"""Several calls of learn with reset_num_timesteps=False, as in Stable-Baselines3."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import vector
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN
from paceline.callbacks import BaseCallback
from paceline.errors import PacelineWarning

SMALL = {"policy_kwargs": {"net_arch": [8]}, "seed": 1}
KEYWORDS = {
    DQN: {**SMALL, "buffer_size": 500, "learning_starts": 32, "train_freq": 8, "batch_size": 8},
    A2C: {**SMALL, "n_steps": 8},
    A3C: {**SMALL, "n_steps": 8},
    GA3C: {**SMALL, "n_steps": 8},
    APPO: {**SMALL, "n_steps": 32, "batch_size": 16, "n_epochs": 1},
    PPO: {**SMALL, "n_steps": 32, "batch_size": 16, "n_epochs": 1},
    PQN: {**SMALL, "num_envs": 2, "n_steps": 16, "batch_size": 16},
}
methods = pytest.mark.parametrize("cls", KEYWORDS)

# (total_timesteps, reset_num_timesteps) of each call; whole rollouts of every method
SLICES = [(96, True), (96, False), (160, False), (320, True), (64, False)]


class Record(BaseCallback):
    """Records the rates of an update after each rollout, or after each step of DQN."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def _look(self):
        model = self.model
        stats = model.stats
        rates = [stats[name] for name in ("learning_rate", "clip_range", "epsilon") if name in stats]
        self.rows.append((model.num_timesteps, model._current_progress_remaining, *rates))

    def _on_rollout_end(self):
        if not isinstance(self.model, DQN):
            self._look()

    def _on_step(self):
        if isinstance(self.model, DQN):
            self._look()
        return True


def expected(steps, end, cls):
    """Returns the rates of an update at a step.

    The remaining progress is 1 - num_timesteps / end, as in Stable-Baselines3. end is
    total_timesteps plus num_timesteps at the start of the call.
    """
    left = 1 - steps / end
    if cls in (APPO, PPO):
        return steps, left, 1e-3 * left, 0.2 * left
    if cls is PQN:
        return steps, left, 1e-3 * left, 1 - 0.9 * min(1, steps / (0.5 * end))
    if cls is DQN:  # epsilon falls only after the warm-up
        epsilon = 1 - 0.9 * min(1, (steps - 32) / (0.5 * end)) if steps > 32 else 1
        return steps, left, 1e-3 * left, epsilon
    return steps, left, 1e-3 * left


@methods
def test_rates_follow_the_remaining_progress_over_slices(cls):
    exploring = {"exploration_fraction": 0.5, "exploration_initial_eps": 1.0, "exploration_final_eps": 0.1}
    clipped: dict = {"clip_range": lambda left: 0.2 * left}
    more = {APPO: clipped, PPO: clipped, A2C: {}, A3C: {}, GA3C: {}}.get(cls, exploring)
    with cls("MlpPolicy", "CartPole-v1", learning_rate="lin_0.001", **KEYWORDS[cls], **more) as model:
        steps, every = 0, 1 if cls is DQN else model._periods().rollout
        for total, reset in SLICES:
            record = Record()
            model.learn(total, callback=record, reset_num_timesteps=reset, log_interval=None)
            steps = 0 if reset else steps
            end = steps + total
            assert model._total_timesteps == end and model.num_timesteps == end
            want = [expected(at, end, cls) for at in range(steps + every, end + 1, every)]
            assert len(record.rows) == len(want)
            for row, wanted in zip(record.rows, want):
                assert row == pytest.approx(wanted, abs=1e-9)
            steps = end


def falling(cls, **more):
    return cls("MlpPolicy", "CartPole-v1", learning_rate=lambda left: 1e-2 * left, **{**KEYWORDS[cls], **more})


@methods
def test_every_slice_learns(cls, tmp_path):
    """Weights change in every call, also after a load, and at another rate after a load."""
    with falling(cls) as model:
        for k in range(3):
            before = model.hashes()
            model.learn(320, reset_num_timesteps=False)
            assert model.hashes() != before, f"slice {k} moved no weight"
        model.save(tmp_path / "model", replay=True)
        with cls.load(tmp_path / "model") as loaded, cls.load(tmp_path / "model", learning_rate=1e-5) as other:
            for each in model, loaded, other:
                each.learn(320, reset_num_timesteps=False)
            assert loaded.hashes() == model.hashes() != other.hashes()
            assert other.stats["learning_rate"] == pytest.approx(1e-5)


def test_a_preset_learns_in_slices():
    """DQN's preset tuned, with falling learning rate and epsilon, learns in every call."""
    with DQN.from_preset("tuned", "CartPole-v1", seed=1) as model:
        assert model.setting("learning_rate_final")
        for k in range(1, 4):
            before = model.get_parameters()["policy"]
            model.learn(1200, reset_num_timesteps=False, log_interval=None)
            after = model.get_parameters()["policy"]
            assert any(abs(after[name] - before[name]).max() > 1e-3 for name in after), f"slice {k}"


@methods
@pytest.mark.parametrize("make", [lambda: "CartPole-v1", lambda: gymnasium.make("CartPole-v1")], ids=["built-in", "gymnasium"])
def test_an_interrupted_run_and_its_rest_equal_one_run(cls, make):
    """An interrupted run and its rest equal an uninterrupted run, wherever it was interrupted."""
    keywords = {**KEYWORDS[cls], **({"num_envs": 1} if cls is PQN else {}), "learning_rate": lambda left: 1e-2 * left**2}
    with cls("MlpPolicy", make(), **keywords) as whole:
        whole.learn(320)
        for first in (40, 177):
            with cls("MlpPolicy", make(), **keywords) as model:
                model.learn(320, callback=lambda here, _, first=first: here["self"].num_timesteps < first)
                assert first <= model.num_timesteps < 320
                model.learn(320 - model.num_timesteps, reset_num_timesteps=False)
                assert model.hashes() == whole.hashes() and model._current_progress_remaining == 0


@pytest.mark.parametrize(
    "more",
    [{}, {"wait_for_update": True, "trainers": 1}, {"min_training_batch": 24, "predictors": 1}],
    ids=["default", "waiting", "joined"],
)
def test_an_interrupted_run_of_several_agents_and_its_rest_equal_one_run(more):
    """Predictions, segments and gradients of GA3C that are in progress at the interrupt continue.

    A run ends after the batch of a predictor, so it may have more steps than were asked for.
    """
    keywords = {**KEYWORDS[GA3C], "num_envs": 6, "latency_update": "0.004:0.5", "learning_rate": lambda left: 1e-2 * left**2, **more}

    def learn(first):
        with GA3C("MlpPolicy", "CartPole-v1", **keywords) as model:
            model.learn(600, callback=lambda *_: model.num_timesteps < first)
            assert first <= model.num_timesteps < first + 6
            if first < 600:
                model.learn(600 - model.num_timesteps, reset_num_timesteps=False)
            return model.hashes(), model.num_timesteps, model.stats["updates"], model._current_progress_remaining

    whole = learn(600)
    assert -0.01 < whole[-1] <= 0 and whole[2] > 10
    for first in (50, 251, 590):
        assert learn(first) == whole


def test_begin_continues_the_schedules():
    """begin follows the rule of learn."""
    spaces = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
    obs, zeros, no = np.ones((2, 3), np.float32), np.ones(2), np.zeros(2, bool)
    with A2C("MlpPolicy", spaces, num_envs=2, learning_rate=lambda left: 1e-2 * left, **KEYWORDS[A2C]) as model:
        for end in 64, 128, 192:
            before = model.hashes()
            model.begin(64, obs, reset_num_timesteps=False)
            while model.num_timesteps < end:
                assert model.stats["learning_rate"] == pytest.approx(1e-2 * model._current_progress_remaining)
                assert model._current_progress_remaining == 1 - model.num_timesteps / end
                model.act()
                model.observe(obs, zeros, no, no)
            assert model.hashes() != before


def of_zero(list_of_warnings):
    return [str(w.message) for w in list_of_warnings if "0 from the first update of this run" in str(w.message)]


@pytest.mark.parametrize("cls, total", [(PPO, 32), (PPO, 20), (A2C, 8), (DQN, 40)])
def test_a_rate_that_is_always_0_gives_one_warning(cls, total, capfd):
    """A run of one update uses the rate of its end, as in Stable-Baselines3, so a loop of such runs
    learns nothing.
    """
    with falling(cls) as model, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(total)
        if cls is DQN:  # the first update is at step 40
            assert model.stats["updates"] == 1
        after = model.hashes()
        assert len(said := of_zero(caught)) == 1 and said[0].startswith("learning_rate: 0 from the first update")
        assert all(w.category is PacelineWarning for w in caught)
        if cls is not DQN:
            for _ in range(3):
                model.learn(model._periods().rollout, reset_num_timesteps=False)
            assert model.hashes().weights == after.weights and len(of_zero(caught)) == 1
    assert capfd.readouterr().err == ""


@methods
def test_a_rate_that_falls_to_0_gives_no_warning(cls):
    with falling(cls) as model, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            model.learn(96, reset_num_timesteps=False)
        assert not of_zero(caught)


class Dumps:
    """A logger that counts its records."""

    def __init__(self):
        self.at = []

    def record(self, *_, **__):
        pass

    def dump(self, step=0):
        self.at.append(step)


def test_log_interval_counts_episodes_over_slices():
    """log_interval counts DQN's episodes over all calls, as in Stable-Baselines3.

    There is a record after every fourth episode, although no call has four.
    """
    with DQN("MlpPolicy", gymnasium.make("CartPole-v1"), **KEYWORDS[DQN]) as model:
        model.set_logger(logger := Dumps())
        for first in (100, 70):
            already = len(logger.at)
            for k in range(30):
                model.learn(15 if k else first, callback=lambda *_: True, reset_num_timesteps=k == 0)
                assert len(logger.at) - already == model.stats["episodes"] // 4
            assert len(logger.at) - already > 2


@pytest.mark.parametrize("make", [str, gymnasium.make], ids=["built in", "Gymnasium"])
def test_a_new_run_forgets_the_episodes_of_the_one_before(make):
    with PPO("MlpPolicy", make("CartPole-v1"), **KEYWORDS[PPO]) as model:
        model.learn(2048)
        model.learn(32, reset_num_timesteps=False)
        assert len(model.ep_info_buffer) > 50 and model._episode_num == model.stats["episodes"] > 50
        model.learn(96)
        assert 0 < sum(episode["l"] for episode in model.ep_info_buffer) <= 96
        assert 0 < len(model.ep_info_buffer) == model._episode_num == model.stats["episodes"]
        assert model.stats["mean_length"] == np.mean([episode["l"] for episode in model.ep_info_buffer])
        assert np.isnan(model.learning_curve.returns[0]) and model.learning_curve.returns[-1] == model.stats["mean_return"]


# ---------------------------------------------------------------- rollouts that end at any step


class Ends(BaseCallback):
    """Records the steps at which rollouts end."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.ends.append(self.num_timesteps)


def with_resets(cls, how, envs):
    """A model whose rounds may have fewer steps than environments."""
    if how == "next step":
        return cls("MlpPolicy", vector(AutoresetMode.NEXT_STEP, envs), **{**KEYWORDS[cls], "num_envs": None})
    return cls("MlpPolicy", "CartPole-v1", **{**KEYWORDS[cls], "num_envs": envs}, mid_batch_reset=False)


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("how", ["next step", "after the update"])
@pytest.mark.parametrize("cls", [A2C, PPO, PQN])
def test_learn_ends_with_the_first_rollout_that_ends_at_or_after_the_total(cls, how, envs):
    with with_resets(cls, how, envs) as plain, with_resets(cls, how, envs) as watched:
        size = plain._periods().rollout
        for total, reset in ((2 * size, True), (size + 1, False), (3 * size, False), (size, True)):
            first = 0 if reset else watched.num_timesteps
            rollouts = watched.stats["rollouts"]
            watched.learn(total, seen := Ends(), reset_num_timesteps=reset)
            plain.learn(total, reset_num_timesteps=reset)
            assert len(seen.ends) == watched.stats["rollouts"] - rollouts
            assert seen.ends[-1] == watched.num_timesteps == plain.num_timesteps
            assert [end for end in seen.ends if end >= first + total] == [watched.num_timesteps]
            assert plain.hashes() == watched.hashes() and plain.stats["updates"] == plain.stats["updates_due"]


@pytest.mark.parametrize("cls", [A2C, PPO, PQN])
def test_on_rollout_end_comes_before_the_update_of_the_rollout(cls):
    class Due(Ends):
        def _on_rollout_end(self):
            self.ends.append(self.model.stats["updates_due"] - self.model.stats["updates"])

    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        model.learn(3 * model._periods().rollout, due := Due())
        assert len(due.ends) == 3 and set(due.ends) == {model.stats["updates"] / 3}
        assert model.stats["updates"] == model.stats["updates_due"]


class Records:
    """A logger that keeps the step and the number of rollouts of its records."""

    def __init__(self):
        self.rows, self.row = [], {}

    def record(self, name, value, exclude=None):
        self.row[name] = value

    def dump(self, step=0):
        self.rows.append((step, self.row.get("time/iterations")))


@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("envs", [1, 16])
@pytest.mark.parametrize("cls", [A2C, PPO, PQN])
def test_every_rollout_that_is_due_has_a_record(cls, envs, interval):
    with with_resets(cls, "after the update", envs) as model:
        size = model._periods().rollout
        for learn in range(2):  # rollouts count from 0 in every learn
            model.set_logger(logger := Records())
            before = model.stats["rollouts"]
            model.learn(20 * size, log_interval=interval, reset_num_timesteps=not learn)
            rollouts = int(model.stats["rollouts"] - before)
            assert rollouts > 20
            assert [iterations for _, iterations in logger.rows] == list(range(interval, rollouts + 1, interval))
            if interval == 1:
                assert logger.rows[-1][0] == model.num_timesteps


@pytest.mark.parametrize("make", [str, gymnasium.make])
def test_a_new_run_discards_the_rollout_of_the_stopped_one(make):
    with PPO("MlpPolicy", make("CartPole-v1"), **KEYWORDS[PPO]) as model:
        model.learn(320, callback=lambda local, _: local["self"].num_timesteps < 20)
        model.learn(64, seen := Ends())
        assert seen.ends == [32, 64] and model.stats["updates"] == 4


def test_learn_after_a_stop_or_with_other_rollouts_ends_with_a_rollout(tmp_path):
    with PPO("MlpPolicy", "CartPole-v1", **KEYWORDS[PPO]) as model:
        model.learn(320, callback=lambda local, _: local["self"].num_timesteps < 20)
        model.save(tmp_path / "begun")
        model.learn(64)
        model.save(tmp_path / "whole")
    with PPO.load(tmp_path / "begun") as model:  # without the rollout in progress
        model.learn(32, reset_num_timesteps=False)
        assert model.num_timesteps == 20 + 32 and model.stats["rollouts"] == 1
    with PPO.load(tmp_path / "whole", n_steps=48) as model:
        model.learn(48, reset_num_timesteps=False)
        assert model.num_timesteps == 64 + 48 and model.stats["updates"] == 4 + 3
