"""Python environments in worker processes and in this process equal Gymnasium's SyncVectorEnv."""

import os
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import worker_envs as we
from conftest import slow_but
from paceline import workers
from paceline.errors import CallbackError, ConfigError

MODES = list(AutoresetMode)


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
@pytest.mark.parametrize("name", slow_but(("CartPole", "Parts"), ENVS))
@pytest.mark.parametrize("processes", [2, None])
def test_every_step_equals_sync_vector_env(make, name, mode, processes):
    ours = make(ENVS[name], 5, workers_=processes, autoreset_mode=mode)
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


def test_spawned_workers_accept_lambdas_and_local_classes(make):
    bonus = 2

    class Local(we.Counting):
        def step(self, action):
            obs, reward, *rest, info = super().step(action)
            return obs, reward + bonus, *rest, {"mine": Thing()}

    class Thing:
        pass

    env = make([Local, lambda: Local(), we.Counting], 3, context="spawn")
    env.reset(seed=[1, 2, 3])
    obs, rewards, *_, infos = env.step([0, 1, 2])
    assert rewards.tolist() == [3.01, 4.01, 3.01]
    assert type(infos["mine"][0]).__name__ == "Thing" and infos["_mine"].tolist() == [True, True, False]
    assert len(set(env.call("pid"))) == 2 and os.getpid() not in env.call("pid")


def test_ids_of_gymnasium_are_made(make):
    env = make("Pendulum-v1", 2, g=5.0, max_episode_steps=3)
    assert env.spec.id == "Pendulum-v1" and env.spec.kwargs["g"] == 5.0
    assert env.get_attr("g") == (5.0, 5.0)
    env.reset(seed=0)
    for _ in range(3):
        *_, truncated, _ = env.step(env.action_space.sample())
    assert truncated.all()
    with pytest.raises(ConfigError, match="^id: 'NoSuch-v0', must be registered with Gymnasium: "):
        make("NoSuch-v0")


def test_ids_registered_in_this_process_work_in_workers(make):
    gymnasium.register("OnlyHere-v0", lambda: we.Counting())
    try:
        assert make("OnlyHere-v0", 1, context="spawn").reset(seed=4)[0].tolist() == [[4, 0, 0, -1]]
    finally:
        del gymnasium.registry["OnlyHere-v0"]


def test_ids_of_ale_py_are_made(make):
    pytest.importorskip("ale_py")
    assert make("ALE/Pong-v5", 2, frameskip=4).reset(seed=1)[0].shape == (2, 210, 160, 3)


def test_environments_are_spread_evenly_over_workers(make):
    pids = make(we.Counting, 7, workers_=3).call("pid")
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 3]
    assert len(set(make(we.Counting, 2, workers_=9).call("pid"))) == 2
    cores = len(os.sched_getaffinity(0))
    assert len(set(make(we.Counting, cores + 1, workers_=0).call("pid"))) == cores


@pytest.mark.parametrize("processes", [2, None])
def test_calls_and_attributes_reach_each_environment(make, processes):
    env = make(we.Counting, 3, workers_=processes, render_mode="rgb_array")
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
    wrong = [lambda: env.set_attr("number", [1, 2]), lambda: env.call("step", 1)]
    if processes:
        wrong.append(lambda: env.call("f", (_ for _ in ())))
    for call in wrong:
        with pytest.raises(ConfigError, match="^[a-z]+: .*, must |^arguments: cannot be sent"):
            call()


def test_metadata_belongs_to_each_vector(make):
    shared = dict(gymnasium.vector.VectorEnv.metadata)  # other packages may have changed it
    first, second = make(we.Counting, 1, autoreset_mode="next_step"), make(we.Counting, 1, autoreset_mode="SameStep")
    assert first.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert second.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert "autoreset_mode" not in we.Counting.metadata and gymnasium.vector.VectorEnv.metadata == shared


@pytest.mark.parametrize("processes", [2, None])
def test_results_are_never_overwritten(make, processes):
    env, views = make(we.Parts, workers_=processes), make(we.Parts, workers_=processes, copy=False)
    for e, stays in ((env, True), (views, False)):
        actions = {"push": np.zeros((4, 2), np.float32), "turn": [1, 1, 1, 1]}
        results = [e.reset(seed=1)[0], e.step(actions), e.step(actions)]
        as_bytes = pickle.dumps(results)
        image = results[0]["image"]
        e.step(actions)
        e.reset()
        assert (pickle.dumps(results) == as_bytes) is stays
        e.close()
        assert image.sum() > 0  # the memory outlives the processes


@pytest.mark.parametrize("processes", [2, None])
def test_an_environment_may_reuse_its_arrays(make, processes):
    env = make(we.Reusing, 2, workers_=processes, autoreset_mode="same_step")
    env.reset(seed=5)
    for k in range(3):
        obs, *_, infos = env.step(np.full((2, 1), k, np.float32))
    assert [last.tolist() for last in infos["final_obs"]] == [[5, 0, 3, 2], [6, 0, 3, 2]]
    assert obs.tolist() == [[5, 1, 0, -1], [6, 1, 0, -1]]
    for of_step, count in ((infos["final_info"], 3), (infos, 0)):
        assert of_step["steps"].tolist() == [count] * 2 and of_step["at"]["count"].tolist() == [[count]] * 2
    assert [[a.tolist() for a in actions] for actions in env.get_attr("actions")] == [[[0], [1], [2]]] * 2


@pytest.mark.parametrize(
    "space, wrong, says",
    [
        (spaces.Box(0, 255, (2,), np.uint8), np.array([7, 300], np.uint16), "300, must be a number of uint8"),
        (spaces.MultiBinary(2), np.array([256, 257]), "256, must be a number of int8"),
        (spaces.Box(0, 100, (), np.int32), np.int64(2**32 + 7), "4294967303, must be a number of int32"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("processes", [1, None])
def test_an_observation_that_its_dtype_cannot_hold_is_refused(make, space, wrong, says, processes, mode):
    class Wide(we.Counting):
        observation_space = space

        def observe(self):
            return wrong if self.count == 3 else wrong * 0 + 1  # the last observation of an episode

    env = make(Wide, 1, workers_=processes, autoreset_mode=mode)
    env.reset(seed=1)
    for _ in range(2):
        assert (env.step([0])[0] == 1).all()
    with pytest.raises(CallbackError, match=f"(?m)^environment 0: ValueError: observation: {says}$"):
        env.step([0])


@pytest.mark.parametrize("space, given", [(spaces.Box(0, 255, (4,), np.uint8), [7, 8, 9, 255]), (spaces.Discrete(9), 3)])
@pytest.mark.parametrize("processes", [1, None])
def test_integer_observations_may_be_tensors(make, space, given, processes):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Tensors(we.Counting):
        observation_space = space

        def observe(self):
            return torch.tensor(given, dtype=getattr(torch, space.dtype.name))

    env = make(Tensors, 1, workers_=processes)
    assert env.reset()[0].tolist() == [given] and env.step([0])[0].tolist() == [given]


def test_gymnasium_wrappers_count_episodes(make):
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(make(we.Counting, 2))
    env.reset(seed=1)
    for _ in range(3):
        *_, infos = env.step([0, 0])
    np.testing.assert_allclose(infos["episode"]["r"], [3.06, 6.06])


@pytest.mark.parametrize("processes", [2, None])
def test_disabled_refuses_a_step_after_an_end(make, processes):
    env = make(we.Counting, 3, workers_=processes, autoreset_mode="disabled")
    env.reset(seed=[1, 2, 3])
    env.reset(options={"reset_mask": np.array([0, 1, 0], bool)})  # episode 1, which is longer
    for _ in range(3):
        env.step([0, 0, 0])
    with pytest.raises(ConfigError, match="^environment 0: its episode has ended, must be reset first$"):
        env.step([0, 0, 0])
    assert env.get_attr("count") == (3, 3, 3)
    obs, _ = env.reset(options={"reset_mask": np.array([1, 0, 1], bool)})
    assert obs[:, 2].tolist() == [0, 3, 0]
    assert env.step([0, 0, 0])[3].tolist() == [False, True, False]


# ------------------------------------------------------------------ batches


def test_a_batch_does_not_wait_for_slow_environments(make, tmp_path):
    env = make(lambda: we.Gated(tmp_path), 4, workers_=4, batch_size=2)
    env.async_reset(seed=10)
    first, second = env.recv(), env.recv()
    ids = np.concatenate([first[4]["env_id"], second[4]["env_id"]])
    assert sorted(ids) == [0, 1, 2, 3] and ids.dtype == np.int32 and first[4]["_env_id"].tolist() == [True, True]
    assert first[0][:, 0].tolist() == (first[4]["env_id"] + 10).tolist() and not first[1].any()
    env.send([4, 0, 4, 0], env_id=[3, 2, 1, 0])
    obs, rewards, terminated, truncated, infos = env.recv()  # 3 and 1 wait for the file
    assert sorted(infos["env_id"]) == [0, 2] and rewards.tolist() == [10.01 + i for i in infos["env_id"]]
    # send without env_id continues the environments of the last recv, in its order.
    env.send([0, 0])
    assert sorted(env.recv()[4]["env_id"]) == [0, 2]
    (tmp_path / "4").touch()
    obs, *_, infos = env.recv()
    assert sorted(infos["env_id"]) == [1, 3] and infos["odd"].shape == (2, 2) and infos["_odd"].tolist() == [True, True]
    obs, *_, infos = env.step([0, 4], env_id=infos["env_id"][::-1])
    assert sorted(obs[:, 3]) == [0, 4] and obs[:, 2].tolist() == [2, 2]


@pytest.mark.parametrize("processes", [3, None])
@pytest.mark.parametrize("env_class", [we.Counting, we.Parts, we.Words])
def test_batches_give_the_results_of_single_environments(make, env_class, processes):
    """Environment i gives the results of an environment that is stepped alone, for any order of
    calls.
    """
    rng = np.random.default_rng(1)
    n, batch = 6, 2
    env = make(env_class, n, workers_=processes, batch_size=batch, autoreset_mode="next_step")
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


def test_a_full_batch_is_in_order(make):
    env = make(we.Counting, 4, workers_=4)
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
    "none": (lambda e: e.send([], []), r"env_id: float64 of shape \(0,\), must be a row of at least one whole number"),
    "length": (lambda e: e.send([0], [0, 1]), r"actions: int64 of shape \(1,\), must be int64 of shape \(2,\)"),
    "kind": (lambda e: e.send([0.0, 1.0], [0, 1]), r"actions: float64 of shape \(2,\), must be int64 of shape \(2,\)"),
    "call": (lambda e: e.get_attr("count"), "environment 3: it is under way, must be received first"),
    "seeds": (lambda e: e.reset(seed=[1, 2]), "seed: 2 numbers, must be 4, one for each environment"),
    "seed": (lambda e: e.reset(seed=-1), "seed: -1, must be 0 to "),
    "seed too large": (lambda e: e.reset(seed=2**64 - 3), "seed: 18446744073709551613, must be 0 to 18446744073709551612"),
    "mask type": (lambda e: e.reset(options={"reset_mask": [True] * 4}), r"options\['reset_mask'\]: list, must be a NumPy array"),
    "mask dtype": (lambda e: e.reset(options={"reset_mask": np.ones(4, int)}), r"options\['reset_mask'\]: int64 of shape \(4,\)"),
    "mask shape": (lambda e: e.reset(options={"reset_mask": np.ones(3, bool)}), r"options\['reset_mask'\]: bool of shape \(3,\)"),
    "mask": (lambda e: e.reset(options={"reset_mask": np.zeros(4, bool)}), r"options\['reset_mask'\]: no entry is true"),
    "options": (lambda e: e.reset(options=[1]), "options: list, must be a dict"),
}


@pytest.mark.parametrize("processes", [2, None])
def test_misuse_changes_nothing(make, processes):
    env = make(we.Counting, 4, workers_=processes, batch_size=2)
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
        ({"context": "thread"}, "context: 'thread', must be 'spawn' or 'fork'$"),
        ({"fn_or_id": 3}, "env: 3, must be a function, a list"),
        ({"fn_or_id": [we.Counting]}, "env: 1 functions, must be 4"),
        ({"fn_or_id": [we.Counting] * 3 + [we.Other]}, r"environment 3: action space Discrete\(6\), must be that of environment 0"),
        ({"fn_or_id": [we.Counting, we.Other] * 2}, r"environment 1: action space Discrete\(6\), must be that of environment 0"),
    ],
)
def test_bad_arguments_are_refused(keywords, text):
    with pytest.raises(ConfigError, match="^" + text):
        workers.make(**{"fn_or_id": we.Counting, "num_envs": 4, "workers": 2, "context": "fork", **keywords})


def test_reset_discards_steps_in_progress(make, tmp_path):
    env = make(lambda: we.Gated(tmp_path), 4, workers_=4, batch_size=2)
    env.reset(seed=1)
    env.send([2, 0, 0, 2])
    env.recv()
    (tmp_path / "2").touch()
    obs, _ = env.reset(seed=5)
    assert obs.tolist() == [[5 + i, 0, 0, -1] for i in range(4)]
    with pytest.raises(ConfigError, match="^recv: 0 environments"):
        env.recv()
    # With a mask, the other steps stay in progress.
    env.send([0, 0, 2, 2])
    env.reset(seed=9, options={"reset_mask": np.array([0, 0, 1, 1], bool)})
    obs, *_, infos = env.recv()
    assert sorted(infos["env_id"]) == [0, 1] and obs[:, 2].tolist() == [1, 1]
    env.step([0, 0], [2, 3])


def test_large_messages_cause_no_deadlock(make):
    """No call waits for a worker that is blocked until its message is read."""
    env = make(lambda: we.Counting(size=300_000), 16, workers_=1, batch_size=4)
    env.async_reset(seed=1)
    for _ in range(20):
        *_, infos = env.recv()
        env.send([0] * 4, infos["env_id"])
    env = make(lambda: we.Words(size=300_000), 16, workers_=1, batch_size=4)
    env.reset(seed=1)
    for k in range(0, 16, 4):  # actions of 100 kB are sent through the pipe
        env.send([[0] * 50_000] * 4, [k, k + 1, k + 2, k + 3])
    assert sorted(i for _ in range(4) for i in env.recv()[4]["env_id"]) == list(range(16))
