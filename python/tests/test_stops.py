"""stop and close, of a model and of a policy, end a learn and evaluations, whenever they come."""

import threading
import time

import pytest
from gymnasium.vector import AutoresetMode

from envs import SMALL, Counter, vector
from paceline import DQN, _lib
from paceline.callbacks import EvalCallback
from paceline.envs import _ids
from paceline.errors import HandleError, StoppedError


@pytest.mark.parametrize("how", ["close", "stop after close"])
def test_close_ends_an_evaluation(how):
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        ended = []

        def evaluate():
            with pytest.raises(StoppedError):
                model.evaluate(episodes=1_000_000)
            ended.append(True)

        thread = threading.Thread(target=evaluate, daemon=True)
        thread.start()
        while all(other.name != "paceline-evaluate" for other in threading.enumerate()):
            time.sleep(0.01)
        policy = model._evaluating
        if how == "stop after close":
            model._evaluating = None  # close comes before evaluate has set it
            model.close()
            model._evaluating = policy
            with pytest.raises(HandleError):
                model.stop()
        else:
            model.close()
        thread.join()
        assert ended == [True]


@pytest.mark.parametrize("by", ["learn", "callback"])
def test_stop_ends_an_evaluation(by):
    """A stopped evaluation is not recorded and ends learning. The next one is complete."""
    callback = EvalCallback("CartPole-v1", n_eval_episodes=1_000_000, eval_freq=50)
    how = {"callback": callback} if by == "callback" else {"eval_freq": 50, "n_eval_episodes": 1_000_000}
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        ended = threading.Event()

        def stop():
            while model._evaluating is None:
                time.sleep(0.01)
            while not ended.wait(0.1):  # again, if the evaluation had not begun to play yet
                model.stop()

        thread = threading.Thread(target=stop)
        thread.start()
        model.learn(1000, **how)
        ended.set()
        thread.join()
        assert model.num_timesteps < 100 and model.evaluations == callback.evaluations == []
        model.learn(100, reset_num_timesteps=False, eval_freq=50, n_eval_episodes=2)
        assert [result.episodes for _, result in model.evaluations] == [2] * len(model.evaluations) != []


class Stopping(Counter):
    """Calls `what` in its fifth step. Later steps are refused."""

    what = None

    def step(self, action):
        assert self.steps_taken < 5
        result = super().step(action)
        if self.steps_taken == 5:
            self.what()
        return result


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("what", ["stop", "close"])
def test_stop_and_close_end_an_evaluation_in_environments_that_python_steps(what, n):
    env = Stopping() if n == 1 else vector(AutoresetMode.NEXT_STEP, n, Stopping)
    model = DQN("MlpPolicy", Counter(), **SMALL)
    for one in [env] if n == 1 else env.envs:
        one.what = getattr(model, what)
    with model, pytest.raises(StoppedError, match="^evaluate: stop was called$"):
        model.evaluate(env, 100)


def test_stop_ends_an_evaluation_during_learn_in_environments_that_python_steps():
    env = Stopping()
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        env.what = model.stop
        model.learn(1000, eval_freq=50, eval_env=env)
        assert model.num_timesteps == 50 and model.evaluations == []


class StopsItself(DQN):
    """Calls stop as soon as stop can find the policy of an evaluation."""

    _policy = None

    @property
    def _evaluating(self):
        return self._policy

    @_evaluating.setter
    def _evaluating(self, policy):
        self._policy = policy
        if policy is not None:
            self.stop()


@pytest.mark.parametrize("env", ["CartPole-v1", Counter()])
def test_a_stop_at_the_beginning_of_an_evaluation_ends_it(env, monkeypatch):
    with StopsItself("MlpPolicy", env, **SMALL) as model, pytest.raises(StoppedError):
        model.evaluate(env, 3)
    with DQN("MlpPolicy", env, **SMALL) as model:
        snapshot = model.policy_snapshot

        def stopped_before():
            model.stop()
            return snapshot()

        model.policy_snapshot = stopped_before
        with pytest.raises(StoppedError):
            model.evaluate(env, 3)
        model.policy_snapshot = snapshot
        assert model.evaluate(env, 3).episodes == 3
    with DQN("MlpPolicy", env, **SMALL) as model, model.policy_snapshot() as policy:
        resolved = _ids.resolved

        def stopped(*arguments):
            policy.stop()
            return resolved(*arguments)

        monkeypatch.setattr(_ids, "resolved", stopped)
        with pytest.raises(StoppedError):
            policy.evaluate(env, 3)
        monkeypatch.undo()
        assert policy.evaluate(env, 3).episodes == 3


@pytest.mark.parametrize("env", ["CartPole-v1", Counter()])
def test_a_stop_at_the_beginning_of_learn_ends_it(env, monkeypatch):
    """stop comes between the library's begin and the first round."""
    with DQN("MlpPolicy", env, **SMALL) as model:
        library = _lib.lib()
        begin = library.paceline_trainer_begin

        def stopped(*arguments):
            begin(*arguments)
            model.stop()

        monkeypatch.setattr(library, "paceline_trainer_begin", stopped)
        model.learn(1000)
        assert model.num_timesteps == 0
        monkeypatch.undo()
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps == 100
