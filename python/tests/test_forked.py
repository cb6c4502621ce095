"""Library calls in forked environment workers: the error names the argument that selects spawn."""

import multiprocessing
import os
import types

import gymnasium
import numpy as np
import pytest

import paceline
from paceline.errors import CallbackError, ForkError

START = "paceline was loaded before this process forked and cannot be used in it: start it by spawn, "


class Opponent(gymnasium.Env):
    """Makes a policy at the start of each episode and plays against it."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        paceline.make_vec("CartPole-v1", 1).close()
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


@pytest.fixture(autouse=True)
def loaded():
    paceline.make_vec("CartPole-v1", 1).close()


@pytest.mark.filterwarnings("ignore")  # Gymnasium also reports exceptions of its workers
def test_workers_of_gymnasium_name_the_context_argument():
    for context, error in (("fork", ForkError), ("spawn", None)):
        envs = gymnasium.vector.AsyncVectorEnv([Opponent] * 2, context=context)
        try:
            if error is None:
                envs.reset(seed=1)
                continue
            with pytest.raises(ForkError) as caught:
                envs.reset(seed=1)
            assert START + 'AsyncVectorEnv(..., context="spawn"), or import and train only in the child' in str(caught.value)
        finally:
            envs.close(terminate=True)


def test_workers_of_paceline_name_the_context_argument():
    envs = paceline.make_vec(Opponent, 2, workers=1, context="fork")
    with pytest.raises(CallbackError) as caught:
        envs.reset(seed=1)
    assert "environment 0: paceline.errors.ForkError: " + START + 'make_vec(..., context="spawn"), or' in str(caught.value)
    envs.close()
    envs = paceline.make_vec(Opponent, 2, workers=1, context="spawn")
    envs.reset(seed=1)
    envs.close()


@pytest.mark.parametrize(
    "module, how",
    [
        ("stable_baselines3.common.vec_env.subproc_vec_env", 'SubprocVecEnv(..., start_method="spawn")'),
        ("torch.utils.data._utils.worker", 'DataLoader(..., multiprocessing_context="spawn")'),
        (None, 'multiprocessing.get_context("spawn")'),
    ],
)
def test_workers_of_other_libraries_name_their_argument(module, how):
    """The module whose function the process runs selects the message."""
    there = types.ModuleType(module or __name__)
    exec("def worker(use):\n    use()", vars(there))

    def child(pipe):
        try:
            there.worker(lambda: paceline.make_vec("CartPole-v1", 1))
        except ForkError as err:
            pipe.send(str(err))

    here, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
    process.start()
    assert here.recv() == START + how + ", or import and train only in the child"
    process.join()


def test_an_unknown_starter_gives_a_general_error():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            paceline.make_vec("CartPole-v1", 1)
        except ForkError as err:
            os.write(write, str(err).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    text = os.read(read, 1000).decode()
    assert 'SubprocVecEnv(..., start_method="spawn") or AsyncVectorEnv(..., context="spawn")' in text
    os.close(read)
    os.close(write)
