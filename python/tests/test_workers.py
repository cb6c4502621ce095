"""Environments in worker processes: Gymnasium's SyncVectorEnv, in this process, is the measure."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver, resource_tracker

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import worker_envs as we
from conftest import hear_ctrl_c
from paceline import workers
from paceline.errors import CallbackError, ConfigError, ForkError, HandleError

MODES = list(AutoresetMode)


@pytest.fixture
def make():
    """workers.make by fork, which starts fastest; closes everything, and no process or descriptor may be left."""
    resource_tracker.ensure_running()  # multiprocessing's own, which stay
    forkserver.ensure_running()
    made, before = [], descriptors()

    def make(env, num_envs=4, *, workers_=2, **keywords):
        made.append(workers.make(env, num_envs, workers=workers_, **{"context": "fork", **keywords}))
        return made[-1]

    yield make
    pids = [w.process.pid for env in made if not env.closed for w in env._crew.workers if w.dead is None]
    while made:
        made.pop().close()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    gc.collect()
    assert descriptors() <= before


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def same(ours, theirs):
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, (tuple, list)) or (isinstance(ours, np.ndarray) and ours.dtype == object):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b)
    elif isinstance(ours, np.ndarray):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    else:
        assert ours == theirs


def cartpole():
    return gymnasium.make("CartPole-v1")


def pendulum():
    return gymnasium.make("Pendulum-v1", max_episode_steps=9)


ENVS = {"CartPole": cartpole, "Pendulum": pendulum, "Counting": we.Counting, "Parts": we.Parts, "Words": we.Words}


# ------------------------------------------------------------------ the contract


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ENVS)
def test_it_is_gymnasiums_vector(make, name, mode):
    ours = make(ENVS[name], 5, autoreset_mode=mode)
    theirs = SyncVectorEnv([ENVS[name]] * 5, autoreset_mode=mode)
    assert isinstance(ours, gymnasium.vector.VectorEnv) and not ours.closed and ours.spec is None
    for attribute in "num_envs observation_space action_space single_observation_space single_action_space render_mode metadata".split():
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    same(ours.reset(seed=5), theirs.reset(seed=5))
    assert ours.np_random_seed == theirs.np_random_seed
    theirs.action_space.seed(2)
    ends = 0
    for k in range(60):
        actions = theirs.action_space.sample()
        results = ours.step(actions)
        same(results, theirs.step(actions))
        ended = results[2] | results[3]
        ends += ended.sum()
        if mode is AutoresetMode.DISABLED and ended.any():
            same(ours.reset(options={"reset_mask": ended}), theirs.reset(options={"reset_mask": ended}))
        if k == 30:
            seeds = [7, None, 9, 10, 11]
            same(ours.reset(seed=seeds, options={"a": 1}), theirs.reset(seed=seeds, options={"a": 1}))
        if k == 40:
            masked = {"reset_mask": np.array([1, 0, 1, 0, 0], bool)}
            same(ours.reset(seed=3, options=dict(masked)), theirs.reset(seed=3, options=masked))
    assert ends >= 5
    theirs.close()


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_new_processes_get_lambdas_and_locals(make, context):
    bonus = 2

    class Local(we.Counting):
        def step(self, action):
            obs, reward, *rest, info = super().step(action)
            return obs, reward + bonus, *rest, {"mine": Thing()}

    class Thing:
        pass

    env = make([Local, lambda: Local(), we.Counting], 3, context=context)
    env.reset(seed=[1, 2, 3])
    obs, rewards, *_, infos = env.step([0, 1, 2])
    assert rewards.tolist() == [3.01, 4.01, 3.01]
    assert type(infos["mine"][0]).__name__ == "Thing" and infos["_mine"].tolist() == [True, True, False]
    assert len(set(env.call("pid"))) == 2 and os.getpid() not in env.call("pid")


def test_ids_of_gymnasium(make):
    env = make("Pendulum-v1", 2, g=5.0, max_episode_steps=3)
    assert env.spec.id == "Pendulum-v1" and env.spec.kwargs["g"] == 5.0
    assert env.get_attr("g") == (5.0, 5.0)
    env.reset(seed=0)
    for _ in range(3):
        *_, truncated, _ = env.step(env.action_space.sample())
    assert truncated.all()
    with pytest.raises(ConfigError, match="^id: 'NoSuch-v0', must be registered with Gymnasium: "):
        make("NoSuch-v0")


def test_an_id_that_only_this_process_knows(make):
    gymnasium.register("OnlyHere-v0", lambda: we.Counting())
    try:
        assert make("OnlyHere-v0", 1, context="spawn").reset(seed=4)[0].tolist() == [[4, 0, 0, -1]]
    finally:
        del gymnasium.registry["OnlyHere-v0"]


def test_atari_of_ale(make):
    pytest.importorskip("ale_py")
    assert make("ALE/Pong-v5", 2, frameskip=4).reset(seed=1)[0].shape == (2, 210, 160, 3)


def test_environments_are_dealt_evenly(make):
    pids = make(we.Counting, 7, workers_=3).call("pid")
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 3]
    assert len(set(make(we.Counting, 2, workers_=9).call("pid"))) == 2
    cores = len(os.sched_getaffinity(0))
    assert len(set(make(we.Counting, cores + 1, workers_=0).call("pid"))) == cores


def test_what_is_asked_of_each(make):
    env = make(we.Counting, 3, render_mode="rgb_array")
    assert env.render_mode == "rgb_array" and env.metadata["render_fps"] == 7
    env.reset(seed=1)
    env.step([0, 1, 2])
    frames = env.render()
    assert isinstance(frames, tuple) and [frame.tolist() for frame in frames] == [np.full((2, 2, 3), 1).tolist()] * 3
    env.set_attr("number", [5, 6, 7])
    assert env.get_attr("number") == (5, 6, 7)
    env.set_attr("number", 8)
    assert env.call("number") == (8, 8, 8)
    assert env.get_attr("options") == (None,) * 3
    env.reset(options={"a": 1, "reset_mask": np.array([0, 1, 1], bool)})
    assert env.get_attr("options") == (None, {"a": 1}, {"a": 1})
    with pytest.raises(CallbackError, match="(?m)^environment 0: AttributeError: ") as caught:
        env.get_attr("nothing")
    assert caught.value.indices == (0, 1, 2)
    env.step([0, 1, 2])
    for wrong in (lambda: env.set_attr("number", [1, 2]), lambda: env.call("step", 1), lambda: env.call("f", (_ for _ in ()))):
        with pytest.raises(ConfigError, match="^[a-z]+: .*, must |^arguments: cannot be sent"):
            wrong()


def test_modes_are_each_vectors_own(make):
    shared = dict(gymnasium.vector.VectorEnv.metadata)  # other packages may have written there
    first, second = make(we.Counting, 1, autoreset_mode="next_step"), make(we.Counting, 1, autoreset_mode="SameStep")
    assert first.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert second.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert "autoreset_mode" not in we.Counting.metadata and gymnasium.vector.VectorEnv.metadata == shared


def test_results_stay_as_they_were(make):
    env, views = make(we.Parts), make(we.Parts, copy=False)
    for e, stays in ((env, True), (views, False)):
        actions = {"push": np.zeros((4, 2), np.float32), "turn": [1, 1, 1, 1]}
        results = [e.reset(seed=1)[0], e.step(actions), e.step(actions)]
        as_bytes = pickle.dumps(results)
        image = results[0]["image"]
        e.step(actions)
        e.reset()
        assert (pickle.dumps(results) == as_bytes) is stays
        e.close()
        assert image.sum() > 0  # the memory outlives its processes


def test_an_environment_may_use_its_arrays_again(make):
    env = make(we.Reusing, 2, autoreset_mode="same_step")
    env.reset(seed=5)
    for k in range(3):
        obs, *_, infos = env.step(np.full((2, 1), k, np.float32))
    assert [last.tolist() for last in infos["final_obs"]] == [[5, 0, 3, 2], [6, 0, 3, 2]]
    assert obs.tolist() == [[5, 1, 0, -1], [6, 1, 0, -1]]
    assert [[a.tolist() for a in actions] for actions in env.get_attr("actions")] == [[[0], [1], [2]]] * 2


def test_gymnasiums_wrapper_counts_episodes(make):
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(make(we.Counting, 2))
    env.reset(seed=1)
    for _ in range(3):
        *_, infos = env.step([0, 0])
    np.testing.assert_allclose(infos["episode"]["r"], [3.06, 6.06])


def test_stepping_what_has_ended_is_refused_before_anything_moves(make):
    env = make(we.Counting, 3, autoreset_mode="disabled")
    env.reset(seed=[1, 2, 3])
    env.reset(options={"reset_mask": np.array([0, 1, 0], bool)})  # a longer episode
    for _ in range(3):
        env.step([0, 0, 0])
    with pytest.raises(ConfigError, match="^environment 0: its episode has ended, must be reset first$"):
        env.step([0, 0, 0])
    assert env.get_attr("count") == (3, 3, 3)
    obs, _ = env.reset(options={"reset_mask": np.array([1, 0, 1], bool)})
    assert obs[:, 2].tolist() == [0, 3, 0]
    assert env.step([0, 0, 0])[3].tolist() == [False, True, False]


# ------------------------------------------------------------------ batches


def test_nobody_waits_for_the_slowest(make):
    env = make(we.Slow, 4, workers_=4, batch_size=2)
    env.async_reset(seed=10)
    first, second = env.recv(), env.recv()
    ids = np.concatenate([first[4]["env_id"], second[4]["env_id"]])
    assert sorted(ids) == [0, 1, 2, 3] and ids.dtype == np.int32 and first[4]["_env_id"].tolist() == [True, True]
    assert first[0][:, 0].tolist() == (first[4]["env_id"] + 10).tolist() and not first[1].any()
    env.send([4, 0, 4, 0], env_id=[3, 2, 1, 0])
    start = time.monotonic()
    obs, rewards, terminated, truncated, infos = env.recv()
    assert time.monotonic() - start < 0.35
    assert sorted(infos["env_id"]) == [0, 2] and rewards.tolist() == [10.01 + i for i in infos["env_id"]]
    # The environments of the last recv go on, in its order.
    env.send([1, 2])
    assert sorted(env.recv()[4]["env_id"]) == [0, 2]
    obs, *_, infos = env.recv()
    assert sorted(infos["env_id"]) == [1, 3] and infos["odd"].shape == (2, 2) and infos["_odd"].tolist() == [True, True]
    obs, *_, infos = env.step([0, 3], env_id=infos["env_id"][::-1])
    assert obs[:, 3].tolist() == [0, 3] and obs[:, 2].tolist() == [2, 2]


@pytest.mark.parametrize("env_class", [we.Counting, we.Parts, we.Words])
def test_any_order_of_batches_is_each_environments_own_order(make, env_class):
    """Whatever is sent when, environment i does what one alone would do."""
    rng = np.random.default_rng(1)
    n, batch = 6, 2
    env = make(env_class, n, workers_=3, batch_size=batch, autoreset_mode="next_step")
    alone = [SyncVectorEnv([env_class]) for _ in range(n)]
    first = [single.reset(seed=20 + i) for i, single in enumerate(alone)]
    waiting = {i: (obs, np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), infos) for i, (obs, infos) in enumerate(first)}
    env.async_reset(seed=20)
    idle = []
    for _ in range(150):
        if len(waiting) >= batch and (not idle or rng.random() < 0.5):
            *columns, infos = env.recv()
            ids = infos.pop("env_id")
            infos.pop("_env_id")
            for k, i in enumerate(ids):
                *wanted, wanted_infos = waiting.pop(int(i))
                for ours, theirs in zip(columns, wanted):
                    same(rows(ours, k), rows(theirs, 0))
                own = {key: value for key, value in infos.items() if not key.startswith("_") and infos["_" + key][k]}
                assert own.keys() == {key for key in wanted_infos if not key.startswith("_")}
                idle.append(int(i))
        else:
            rng.shuffle(idle)
            count = int(rng.integers(1, len(idle) + 1)) if idle else 0
            ids, idle = idle[:count], idle[count:]
            if not ids:
                continue
            single = [alone[i].action_space.sample() for i in ids]
            env.send(joined(single), env_id=ids)
            waiting.update((i, alone[i].step(action)) for i, action in zip(ids, single))


def rows(batch, k):
    if isinstance(batch, dict):
        return {key: rows(part, k) for key, part in batch.items()}
    if isinstance(batch, tuple) and not isinstance(batch[0], str):
        return tuple(rows(part, k) for part in batch)
    return batch[k]


def joined(single):
    if isinstance(single[0], dict):
        return {key: joined([part[key] for part in single]) for key in single[0]}
    return sum(single, ()) if isinstance(single[0], tuple) else np.concatenate(single)


def test_all_at_once_comes_back_in_order(make):
    env = make(we.Slow, 4, workers_=4)
    env.async_reset(seed=1)
    assert env.recv()[4]["env_id"].tolist() == [0, 1, 2, 3]
    env.send([2, 0], env_id=[2, 0])
    env.send([0, 1], env_id=[1, 3])
    obs, *_, infos = env.recv()
    assert infos["env_id"].tolist() == [0, 1, 2, 3] and obs[:, 3].tolist() == [0, 0, 2, 1]
    assert "env_id" not in env.step([0] * 4)[4]


MISUSE = {
    "recv of too few": (lambda e: e.recv(), "recv: 1 environments are under way, must be at least batch_size, 2"),
    "under way": (lambda e: e.send([0, 0], [0, 3]), "environment 3: it is under way, must be received first"),
    "last, under way": (lambda e: e.send([0] * 4), "environment 3: it is under way, must be received first"),
    "unknown": (lambda e: e.send([0, 0], [0, 4]), "env_id: 4, must be 0 to 3"),
    "negative": (lambda e: e.send([0], [-1]), "env_id: -1, must be 0 to 3"),
    "twice": (lambda e: e.send([0, 0], [1, 1]), r"env_id: \[1, 1\], must be different numbers"),
    "none": (lambda e: e.send([], []), r"env_id: float64 of shape \(0,\), must be a row of whole numbers, at least one"),
    "length": (lambda e: e.send([0], [0, 1]), r"actions: int64 of shape \(1,\), must be int64 of shape \(2,\)"),
    "kind": (lambda e: e.send([0.0, 1.0], [0, 1]), r"actions: float64 of shape \(2,\), must be int64 of shape \(2,\)"),
    "call": (lambda e: e.get_attr("count"), "environment 3: it is under way, must be received first"),
    "seeds": (lambda e: e.reset(seed=[1, 2]), "seed: 2 numbers, must be 4, one for each environment"),
    "seed": (lambda e: e.reset(seed=-1), "seed: -1, must be 0 to "),
    "mask type": (lambda e: e.reset(options={"reset_mask": [True] * 4}), r"options\['reset_mask'\]: list, must be a NumPy array"),
    "mask dtype": (lambda e: e.reset(options={"reset_mask": np.ones(4, int)}), r"options\['reset_mask'\]: int64 of shape \(4,\)"),
    "mask shape": (lambda e: e.reset(options={"reset_mask": np.ones(3, bool)}), r"options\['reset_mask'\]: bool of shape \(3,\)"),
    "mask": (lambda e: e.reset(options={"reset_mask": np.zeros(4, bool)}), r"options\['reset_mask'\]: no entry is true"),
    "options": (lambda e: e.reset(options=[1]), "options: list, must be a dict"),
}


def test_misuse_moves_nothing(make):
    env = make(we.Counting, 4, batch_size=2)
    with pytest.raises(ConfigError, match="^environment 0: it has no episode yet, must be reset first$"):
        env.send([0] * 4)
    env.reset(seed=1)
    env.send([1], [3])
    for call, text in MISUSE.values():
        with pytest.raises(ConfigError, match="^" + text):
            call(env)
    with pytest.raises(ConfigError, match="^env_id: 1 environments would"):
        make(we.Counting, 4, batch_size=2).step([0], [1])
    obs, *_, infos = env.step([2], [0])
    assert sorted(infos["env_id"]) == [0, 3] and sorted(obs[:, 2]) == [1, 1]
    env.send([0, 0], [1, 2])
    assert env.recv()[0][:, 2].tolist() == [1, 1]


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"num_envs": 0}, "num_envs: 0, must be 1 to"),
        ({"batch_size": 5}, "batch_size: 5, must be 0 to 4"),
        ({"workers": -1}, "workers: -1, must be 0 to"),
        ({"autoreset_mode": "never"}, "autoreset_mode: 'never', must be 'next_step', "),
        ({"context": "thread"}, "context: 'thread', must be 'spawn', "),
        ({"fn_or_id": 3}, "env: 3, must be a function, a list"),
        ({"fn_or_id": [we.Counting]}, "env: 1 functions, must be 4"),
        ({"fn_or_id": [we.Counting] * 3 + [we.Other]}, r"environment 3: action space Discrete\(6\), must be that of environment 0"),
        ({"fn_or_id": [we.Counting, we.Other] * 2}, r"environment 1: action space Discrete\(6\), must be that of environment 0"),
    ],
)
def test_settings_are_checked(keywords, text):
    with pytest.raises(ConfigError, match="^" + text):
        workers.make(**{"fn_or_id": we.Counting, "num_envs": 4, "workers": 2, "context": "fork", **keywords})


def test_reset_forgets_what_is_under_way(make):
    env = make(we.Slow, 4, workers_=4, batch_size=2)
    env.reset(seed=1)
    env.send([2, 0, 1, 3])
    env.recv()
    obs, _ = env.reset(seed=5)
    assert obs.tolist() == [[5 + i, 0, 0, -1] for i in range(4)]
    with pytest.raises(ConfigError, match="^recv: 0 environments"):
        env.recv()
    # With a mask the others stay under way.
    env.send([0, 0, 1, 3])
    env.reset(seed=9, options={"reset_mask": np.array([0, 0, 1, 1], bool)})
    obs, *_, infos = env.recv()
    assert sorted(infos["env_id"]) == [0, 1] and obs[:, 2].tolist() == [1, 1]
    env.step([0, 0], [2, 3])


def test_large_infos_block_nobody(make):
    """A worker that waits until its message is read must not be waited for."""
    env = make(lambda: we.Counting(size=300_000), 16, workers_=1, batch_size=4)
    env.async_reset(seed=1)
    for _ in range(20):
        *_, infos = env.recv()
        env.send([0] * 4, infos["env_id"])
    env = make(lambda: we.Words(size=300_000), 16, workers_=1, batch_size=4)
    env.reset(seed=1)
    for k in range(0, 16, 4):  # actions of 100 kB, by the pipe
        env.send([[0] * 50_000] * 4, [k, k + 1, k + 2, k + 3])
    assert sorted(i for _ in range(4) for i in env.recv()[4]["env_id"]) == list(range(16))


# ------------------------------------------------------------------ failures


def test_an_exception_says_where_it_came_from(make):
    env = make(we.Trouble, 4)
    env.reset(seed=10)
    with pytest.raises(CallbackError, match="(?m)^environment 2: ValueError: the arm is stuck$") as caught:
        env.step([0, 0, 1, 0])
    err = caught.value
    assert err.index == 2 and err.indices == (2,)
    assert "in step\n" in err.traceback and "worker_envs.py" in err.traceback and "the arm is stuck" in err.traceback
    if sys.version_info >= (3, 11):
        assert err.__notes__ == [err.traceback]
    # The others' step is not lost.
    obs, rewards, terminated, truncated, infos = err.results
    assert obs[[0, 1, 3], 2].tolist() == [1, 1, 1] and rewards.tolist() == [10.01, 11.01, 0, 13.01]
    assert infos["_odd"].tolist() == [True, True, False, True]
    # It is refused until it is reset.
    with pytest.raises(CallbackError, match="(?m)^environment 2: ValueError: the arm is stuck; it must be reset first$"):
        env.step([0] * 4)
    assert env.get_attr("count") == (1, 1, 0, 1)
    env.reset(options={"reset_mask": np.array([0, 0, 1, 0], bool)})
    assert env.step([0] * 4)[0][:, 2].tolist() == [2, 2, 1, 2]


@pytest.mark.parametrize("action, text", [(4, r"ValueError: observation: shape \(3,\), must be \(4,\)")])
def test_what_does_not_fit_is_refused(make, action, text):
    env = make(we.Trouble, 2)
    env.reset()
    with pytest.raises(CallbackError, match=f"(?m)^environment 1: {text}$"):
        env.step([0, action])


def test_several_fail_at_once(make):
    env = make(we.Trouble, 4)
    env.reset(seed=0)
    with pytest.raises(CallbackError, match="(?m)^environment 1: ValueError: the arm") as caught:
        env.step([0, 1, 0, 1])
    assert caught.value.indices == (1, 3)
    with pytest.raises(CallbackError, match="(?m)^environment 3: LookupError: no level of that name$") as caught:
        env.reset(options={"fail": 3})
    assert caught.value.results[0][:3, 1].tolist() == [1, 1, 1]
    env.reset()
    env.step([0] * 4)


def test_a_value_that_cannot_be_sent_is_an_error(make):
    env = make(we.Trouble, 2)
    with pytest.raises(CallbackError, match="(?m)^environment 0: TypeError: cannot pickle"):
        env.call("lock")
    env.reset()
    env.step([0, 0])


@pytest.mark.parametrize("action, code", [(2, 3), (3, -9)])
def test_a_process_that_dies(make, action, code):
    env = make(we.Trouble, 4)
    env.reset(seed=10)
    died = f"its worker process died with exit code {code}"
    with pytest.raises(CallbackError, match=f"^environment 2: {died}$") as caught:
        env.step([0, 0, 0, action])
    assert caught.value.indices == (2, 3) and caught.value.traceback == ""
    assert caught.value.results[0][:2, 2].tolist() == [1, 1]
    for call in (lambda: env.step([0] * 4), lambda: env.get_attr("count")):
        with pytest.raises(CallbackError, match=f"^environment 2: {died}; it must be reset first$"):
            call()
    # A reset of one starts the process again; its other environment is still to be reset.
    before = env._crew.workers[0].process.pid
    env.reset(seed=20, options={"reset_mask": np.array([0, 0, 0, 1], bool)})
    with pytest.raises(CallbackError, match=f"^environment 2: {died}; it must be reset first$"):
        env.step([0] * 4)
    obs, _ = env.reset(seed=20, options={"reset_mask": np.array([0, 0, 1, 0], bool)})
    assert obs[2:].tolist() == [[22, 0, 0, -1], [23, 0, 0, -1]] and env.get_attr("count") == (1, 1, 0, 0)
    assert env.call("pid")[:2] == (before, before)
    assert env.step([0] * 4)[0][:, 2].tolist() == [2, 2, 1, 1]


def test_a_process_that_dies_among_batches(make):
    env = make(we.Trouble, 4, batch_size=1)
    env.reset(seed=10)
    env.send([0, 2], [2, 3])
    assert env.recv()[4]["env_id"] == [2]  # was back before
    with pytest.raises(CallbackError, match="^environment 3: its worker process died with exit code 3$"):
        env.recv()
    with pytest.raises(ConfigError, match="^recv: 0 environments"):
        env.recv()
    for i in (2, 3):
        with pytest.raises(CallbackError, match=f"^environment {i}: its worker process died with exit code 3; it must be"):
            env.send([0], [i])
    assert env.step([0], [1])[4]["env_id"] == [1]
    mask = np.array([0, 0, 1, 1], bool)
    env.async_reset(seed=20, options={"reset_mask": mask})
    assert sorted(env.recv()[0][0, 0] for _ in range(2)) == [22, 23]


def test_a_process_that_cannot_be_started_again(make, tmp_path):
    class Once(we.Trouble):
        def __init__(self):
            super().__init__()
            (tmp_path / "made").touch(exist_ok=False)

    env = make([we.Trouble, Once], 2)
    env.reset()
    with pytest.raises(CallbackError, match="^environment 1: its worker"):
        env.step([0, 2])
    for _ in range(2):
        with pytest.raises(CallbackError, match="(?m)^environment 1: FileExistsError: "):
            env.reset()
    assert env.reset(options={"reset_mask": np.array([1, 0], bool)})[0][0, 2] == 0
    (tmp_path / "made").unlink()
    env.reset()
    env.step([0, 0])


def test_a_process_that_dies_between_steps(make):
    env = make(we.Counting, 4)
    env.reset(seed=1)
    os.kill(env.call("pid")[3], signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(CallbackError, match="(?m)^environment 2: its worker process died with exit code -9$") as caught:
        env.step([0] * 4)
    assert caught.value.indices == (2, 3) and caught.value.results[1].tolist() == [1.01, 2.01, 0, 0]
    mask = np.zeros(4, bool)
    mask[list(caught.value.indices)] = True
    env.reset(options={"reset_mask": mask})
    env.step([0] * 4)


def test_death_is_seen_though_a_grandchild_keeps_the_pipe(make):
    env = make(we.Parent, 1, workers_=1)
    env.reset()
    start = time.monotonic()
    with pytest.raises(CallbackError, match="(?m)^environment 0: its worker process died with exit code 5$"):
        env.step([0])
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    "how, text",
    [("raise", "FileNotFoundError: no such level$"), ("die", "its worker process died with exit code 9 before it had made")],
)
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_environments_that_cannot_be_made(how, text, context):
    before = descriptors()
    # spawn keeps one pipe to multiprocessing's own tracker.
    with pytest.raises(CallbackError, match=f"(?m)^environment 2: {text}") as caught:
        workers.make([we.Counting] * 2 + [lambda: we.Unmade(how)] * 2, 4, workers=2, context=context)
    assert caught.value.index == 2 and ("in __init__\n" in caught.value.traceback) is (how == "raise")
    del caught
    gc.collect()
    assert descriptors() <= before + (context == "spawn")
    assert not children()


def children():
    """Worker processes of this one that are alive."""
    out = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if "spawn_main" in line]


def test_a_function_that_makes_no_environment():
    with pytest.raises(CallbackError, match="(?m)^environment 0: TypeError: the function returned dict, must be a gymnasium.Env$"):
        workers.make(dict, 1, context="fork")


# ------------------------------------------------------------------ ending


def test_close_works_from_any_state(make):
    env = make(we.Slow, 4, batch_size=2)
    env.close()
    env.close()
    assert env.closed
    for call in (env.reset, env.recv, env.render, lambda: env.step([0])):
        with pytest.raises(HandleError, match="^environments: closed$"):
            call()
    env = make(we.Slow, 4, batch_size=2)
    env.reset()
    env.send([2] * 4)
    env.close()
    env = make(we.Slow, 1, workers_=1)
    env.reset()
    env.set_attr("count", -(10**9))
    env.send([4])
    start = time.monotonic()
    env.close(timeout=0)
    assert time.monotonic() - start < 0.3
    env = make(lambda: we.Counting(size=10**6), 4, workers_=1)
    env.reset()
    env.send([0] * 4)  # nobody reads their infos
    env.close()


def test_garbage_is_closed(make):
    env = workers.make(we.Counting, 2, workers=2, context="fork")
    pids = env.call("pid")
    del env
    gc.collect()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_a_forked_child_is_refused(make):
    env = make(we.Counting, 1, workers_=1)
    env.reset(seed=1)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            env.step([0])
        except ForkError as err:
            os.write(write, str(err).encode())
        env.close()
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    assert os.read(read, 200).startswith(b"environments: made by the process that forked this one")
    os.close(read)
    assert env.step([0])[0][0, 2] == 1


QUIET = {
    "left open": "env.step([0, 0])",
    "under way": "env.send([0, 0])",
    "closed": "env.step([0, 0]); env.close()",
    "dead": "import os, signal; os.kill(env.call('pid')[0], signal.SIGKILL)",
    "garbage": "env.step([0, 0]); del env",
    "exit": "import sys; sys.exit(0)",
}


@pytest.mark.parametrize("end", QUIET)
def test_processes_end_in_silence(process, end):
    done = process(
        f"""
import worker_envs as we
from paceline import workers
if __name__ == "__main__":
    env = workers.make(we.Counting, 2, workers=2, context={"spawn" if end in ("left open", "closed") else "fork"!r})
    env.reset(seed=1)
    {QUIET[end]}
    print("done")
""",
        options=(),
    )
    assert done.stderr == "" and done.stdout in ("done\n", "")


def test_ctrl_c_is_the_parents(tmp_path):
    """SIGINT to the whole group, as a terminal sends it, in the middle of a step."""
    code = """
import os, signal, sys, threading
import worker_envs as we
from paceline import workers
if __name__ == "__main__":
    env = workers.make(we.Slow, 2, workers=2, context="fork")
    env.reset(seed=1)
    threading.Timer(0.2, lambda: os.killpg(0, signal.SIGINT)).start()
    try:
        env.step([4, 4])
    except KeyboardInterrupt:
        print("interrupted")
    try:
        env.step([0, 0])
    except ValueError as err:
        print(err)
    print(env.recv()[1])
    env.send([1, 1])
    print(env.reset(seed=3)[0][:, 0], env.step([0, 0])[1])
    env.close()
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    options = {"cwd": tmp_path, "env": env, "start_new_session": True, "preexec_fn": hear_ctrl_c}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "interrupted",
        "environment 0: it is under way, must be received first",
        "[1.01 2.01]",
        "[3. 4.] [3.01 4.01]",
    ]


class Interrupt(BaseException):
    pass


@pytest.fixture
def interrupt():
    """interrupt(seconds): an exception in this thread after that time, wherever it then is."""

    def raise_it(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, raise_it)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_interrupts_at_any_moment_are_survived(make, interrupt):
    rng = np.random.default_rng(1)
    env, interrupts, count, number = make(we.Words, 4, autoreset_mode="disabled"), 0, 0, 1
    env.reset(seed=1)
    for k in range(400):
        try:
            interrupt(rng.random() * 1.5e-3)
            try:
                if k % 5 == 4:
                    assert env.get_attr("count") == (count,) * 4
                else:
                    obs, *_ = env.step([[k % 5]] * 4)
                    count += 1
                    assert obs["count"].tolist() == [count] * 4
                    assert obs["word"] == tuple(f"n{number + i}e0a{k % 5}" for i in range(4))
            finally:
                interrupt(0)
        except Interrupt:
            interrupts, count = interrupts + 1, 3
        if count == 3:
            count, number = 0, k
            obs, _ = env.reset(seed=k)
            assert obs["word"] == tuple(f"n{k + i}e0a-1" for i in range(4)) and obs["count"].tolist() == [0] * 4
    assert interrupts > 40


def test_an_interrupted_call_leaves_nothing(make, interrupt):
    env = make(we.Slow, 2, workers_=2, batch_size=1)
    env.reset(seed=1)
    interrupt(0.1)
    with pytest.raises(Interrupt):
        env.call("step_slowly")
    with pytest.raises(ConfigError, match="^recv: 0 environments"):
        env.recv()
    assert env.step([0], [1])[1].tolist() == [2.01]


def test_workers_end_with_a_killed_parent(process):
    done = process(
        """
import os, signal
import worker_envs as we
from paceline import workers
env = workers.make(we.Counting, 2, workers=2, context="fork")
print(*env.call("pid"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        check=False,
    )
    pids = done.stdout.split()
    assert len(pids) == 2 and done.stderr == ""
    deadline = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_script_without_the_guard_is_reported_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import worker_envs as we\nfrom paceline import workers\nworkers.make(we.Counting, 1)\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    done = subprocess.run([sys.executable, str(script)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "its worker process died with exit code 1 before it had made its environments" in done.stderr
    assert "needs: if __name__ == '__main__')" in done.stderr
