"""The driver's model of a run on a cluster, without Ray."""

import contextlib
import gc
import threading
import time
import warnings

import pytest

from paceline.distributed import _model
from paceline.distributed._factory import keywords_of_worker, local_worker
from paceline.distributed._model import Distributed
from paceline.distributed._spec import Spec
from paceline.distributed._watch import Watch
from paceline.errors import ConfigError, PacelineError

SETTINGS = {"policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000}
WORKER = keywords_of_worker("dqn", SETTINGS, 1)


class Run:
    """A run whose supervisor is in this process, and whose bundles take 100 steps between two looks."""

    def __init__(self, lease=600.0):
        self.spec = Spec(
            run="r", id="i", method="dqn", policy="MlpPolicy", env="CartPole-v1", worker=WORKER, optimizer={}, seed=7, size=8, lease=lease
        )
        self.calls, self.renewed, self.trouble = [], 0, ""
        self.silent = {}  # the pid and the seconds without an answer of processes
        self.number, self.halted, self.steps, self.goal, self.pid = 0, 0, 0, 0, 1

    def call(self, method, *arguments):
        if method != "status":
            self.calls.append((method, *arguments))
        return getattr(self, method)(*arguments)

    def begin(self, goal, number=0):
        self.number, self.goal = max(self.number + 1, number), goal
        return self.number

    def halt(self):
        self.halted = self.number

    def status(self):
        running = self.number > self.halted and self.steps < self.goal
        self.steps += 100 * running
        return {
            "number": self.number, "halted": self.number <= self.halted, "running": running, "recoveries": [], "reported": 0,
            "errors": [], "trouble": self.trouble, "pid": self.pid,
            "pids": {place: pid for place, (pid, _) in self.silent.items()}, "silent": {place: s for place, (_, s) in self.silent.items()},
            "totals": Watch().totals() | {"num_timesteps": self.steps},
        }  # fmt: skip

    def renew(self):
        self.renewed += 1


@pytest.fixture(autouse=True)
def stopped(monkeypatch):
    """The names of runs that were stopped."""
    names = []
    monkeypatch.setattr(_model, "stop", names.append)
    return names


@contextlib.contextmanager
def driven(**keywords):
    run = Run(**keywords)
    with Distributed(run, local_worker(run.spec)) as model:
        yield run, model


def test_learn_begins_again_at_a_supervisor_that_has_lost_it():
    with driven() as (run, model):
        begin, left = run.begin, [3]

        def forgotten(goal, number=0):
            begin(goal, number)
            told = run.number
            if left[0]:  # the supervisor ends before a bundle has heard
                left[0] -= 1
                run.number = run.goal = 0
            return told

        run.begin = forgotten
        thread = threading.Thread(target=model.learn, args=(500,), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive() and model.num_timesteps == 500
        assert run.calls == [("begin", 500), *[("begin", 500, 1)] * 3]


def test_stop_is_said_until_it_is_heard():
    with driven() as (run, model):
        lost = []

        def halt():
            if len(lost) == 2:
                run.halted = run.number
            lost.append(1)

        run.halt = halt
        threading.Timer(0.3, model.stop).start()
        model.learn(10**9)
        assert run.calls.count(("halt",)) == 3


def test_processes_that_do_not_answer_are_named_once(monkeypatch):
    def said():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert model.stats
        return [str(warning.message) for warning in caught]

    monkeypatch.setattr(Distributed, "_cores", lambda _: "needs more")

    with driven() as (run, model):
        run.silent = {"bundle/0": (1, 0.0), "bundle/1": (None, 29.0), "keeper/1": (7, 31.0)}
        assert said() == ["r: keeper/1: not back after 30 s; needs more"]
        run.silent["bundle/1"] = None, 31.0
        assert said() == ["r: bundle/1: not started after 30 s; needs more"] and said() == []
        run.silent["keeper/1"] = 8, 0.0
        assert said() == []
        run.silent["keeper/1"] = 8, 40.0
        assert said() == ["r: keeper/1: not back after 30 s; needs more"]
        run.silent = {f"actor/{k}": (None, 31.0) for k in range(7)}
        assert said() == [f"r: {', '.join(run.silent)}: not started after 30 s; needs more"]


def test_trouble_of_the_supervisor_is_said_once():
    with driven() as (run, model):
        run.trouble = "ValueError: a count"
        with pytest.warns(UserWarning, match="^r: a round of the supervisor failed, and its counts are old: ValueError: a count$"):
            assert model.stats
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model.stats


def test_an_error_of_a_callback_halts_the_bundles():
    def callback(variables, _):
        raise ZeroDivisionError

    with driven() as (run, model):
        with pytest.raises(ZeroDivisionError):
            model.learn(10**9, callback=callback)
        assert run.calls[-1] == ("halt",)


def test_a_second_learn_counts_on():
    with driven() as (run, model):
        model.learn(200)
        with pytest.raises(ConfigError, match="^reset_num_timesteps: True, must be False after the first learn of a run"):
            model.learn(200)
        assert model.learn(200, reset_num_timesteps=False).num_timesteps == 400


def test_learn_of_a_closed_model_says_so():
    with driven() as (_, model):
        model.learn(200)
    for keywords in ({}, {"reset_num_timesteps": False}):
        with pytest.raises(PacelineError, match="^r: closed$"):
            model.learn(200, **keywords)


def test_what_one_process_has_is_refused():
    with driven() as (_, model):
        for name in ("set_parameters", "load_replay_buffer", "save_replay_buffer", "set_env", "set_random_seed", "replay_buffer"):
            with pytest.raises(AttributeError, match=f"^{name}: not on a cluster, must be "):
                getattr(model, name)
        for name in ("act", "adopt", "begin", "observe", "gradient", "load", "hashes", "q_net", "save_order", "ep_success_buffer"):
            assert not hasattr(model, name), name
        assert model.double_q is False and model.gamma == 0.99 and model.lr_schedule(1.0) == 0.01
        assert model.observation_space.shape == (4,) and model.get_env() is not None and model.train_freq.frequency == 1
        assert (model.buffer_size, model.learning_starts) == (4000, 64)
        with pytest.raises(AttributeError, match="'no_such_name'"):
            model.no_such_name  # noqa: B018


def lease_threads():
    return sum(thread.name == "paceline-lease" for thread in threading.enumerate())


@pytest.mark.parametrize("end", ["close", "detach", "garbage"])
def test_a_driver_renews_the_lease_until_it_ends(end):
    run = Run(lease=1.0)
    model = Distributed(run, local_worker(run.spec))
    assert lease_threads() == 1
    until = time.monotonic() + 30
    while run.renewed < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    if end == "garbage":
        model._local.close()
        del model
        gc.collect()
    else:
        getattr(model, end)()
    while lease_threads():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_process_ends_while_it_renews(process):
    done = process(
        """
from test_distributed_driver import Run, Distributed, local_worker
run = Run(lease=1.0)
model = Distributed(run, local_worker(run.spec))
print("ends")
""",
        options=(),
    )
    assert done.stdout == "ends\n" and done.stderr == ""
