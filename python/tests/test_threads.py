"""Several Python threads at the same time, with and without the interpreter's lock."""

import sys
import threading

import gymnasium
import numpy as np
import pytest

import paceline
import worker_envs
from conftest import slow_but
from paceline.errors import HandleError

SMALL = {"learning_starts": 200, "buffer_size": 1000, "num_threads": 1}


def together(*calls):
    """Returns the results of calls that run at the same time, each in its own thread."""
    results, begin = [None] * len(calls), threading.Barrier(len(calls))

    def run(i, call):
        begin.wait()
        results[i] = call()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_the_lock_stays_off(process):
    """A module that does not declare support for free threading would enable the lock, with a
    warning.
    """
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("this interpreter has a lock; needs a free-threaded one, python3.13t or newer")
    process(
        """
import sys
import numpy as np, paceline
from paceline import callbacks, config, envpool, plots, schedules, single, videos, workers
envs = paceline.make_vec("CartPole-v1", 2)
envs.reset(seed=1)
envs.step(np.zeros(2, int))
envs.close()
with paceline.DQN("MlpPolicy", "CartPole-v1", learning_starts=100, buffer_size=1000) as model:
    model.learn(200, callback=lambda *_: True)
assert not sys._is_gil_enabled()
""",
        options=("-W", "error"),
    )


def test_the_library_is_loaded_once(process):
    """The first of several threads loads the library, and the others wait for it."""
    process(
        """
import threading
import paceline
begin, sums = threading.Barrier(8), []
def use():
    begin.wait()
    envs = paceline.make_vec("CartPole-v1", 2)
    sums.append(float(envs.reset(seed=1)[0].sum()))
    envs.close()
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(sums) == 8 and len(set(sums)) == 1
"""
    )


@pytest.mark.parametrize("env", ["native", "python"])
def test_models_in_threads_learn_as_alone(env):
    def learn(seed):
        steps = []
        made = "CartPole-v1" if env == "native" else gymnasium.make("CartPole-v1")
        with paceline.DQN("MlpPolicy", made, seed=seed, **SMALL) as model:
            model.learn(400, callback=lambda local, _: steps.append(model.num_timesteps) or True, log_interval=None)
            return model.hashes(), steps

    alone = [learn(1), learn(2)]
    assert alone[0] != alone[1] and len(alone[0][1]) == 400
    assert together(*[lambda seed=seed: learn(seed) for seed in (1, 2, 1, 2)]) == alone * 2


def test_vectors_in_threads_step_as_alone():
    def play(seed):
        envs, actions = paceline.make_vec("CartPole-v1", 8, num_threads=2), np.random.default_rng(seed)
        kept = [envs.reset(seed=seed)[0]]
        copies = [kept[0].copy()]
        for _ in range(300):
            kept.append(envs.step(actions.integers(0, 2, 8))[0])
            copies.append(kept[-1].copy())
        envs.close()
        assert all(np.array_equal(*pair) for pair in zip(kept, copies)), "an array was overwritten"
        return np.array(copies).tobytes()

    alone = [play(seed) for seed in range(3)]
    assert together(*[lambda seed=seed: play(seed) for seed in range(3)]) == alone


def test_threads_share_a_policy():
    with paceline.DQN("MlpPolicy", "CartPole-v1", seed=1, **SMALL) as model:
        policy = model.learn(300).policy_snapshot()
    obs = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)
    actions, values, data = policy.act(obs), policy.q_values(obs), policy.to_bytes()
    played = policy.evaluate("CartPole-v1", 3)

    def use():
        for i in range(200):
            assert np.array_equal(policy.act(obs), actions) and policy.act(obs[i % 32]) == actions[i % 32]
            assert np.array_equal(policy.q_values(obs), values)
        return policy.to_bytes() == data and policy.evaluate("CartPole-v1", 3) == played

    assert together(use, use, use, use) == [True] * 4
    policy.close()


@pytest.mark.parametrize("workers", [2, None])
def test_close_ends_a_step_of_another_thread(workers):
    """The step raises HandleError, whatever the close interrupts."""
    for _ in range(10):
        envs = paceline.make_vec(worker_envs.Counting, 2, workers=workers)
        envs.reset(seed=1)
        begun = threading.Event()

        def step():
            with pytest.raises(HandleError, match="^environments: closed$"):
                while True:
                    envs.step([0, 0])  # noqa: B023
                    begun.set()  # noqa: B023
            return True

        def close():
            begun.wait()  # noqa: B023
            envs.close()  # noqa: B023

        assert together(step, close) == [True, None]


@pytest.mark.parametrize("what", slow_but(("model", "step", "closing"), ["model", "environment", "step", "send", "processes", "closing"]))
def test_two_threads_on_one_object(process, what):
    process("threads.py", what, options=())
