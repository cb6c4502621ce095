"""make_vec: async_reset, send and recv; memory of results; states; environments from shared
libraries.
"""

import gc
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import paceline
from paceline import make_vec
from paceline.errors import BusyError, CallbackError, ConfigError, HandleError, PacelineError
from test_vec import make


def alone(id, num_envs, seed, keywords):
    """Returns a function of (environment, step): the result of an environment stepped alone."""
    singles = [make(id, 1, autoreset_mode="next_step", **keywords) for _ in range(num_envs)]
    rng = [np.random.default_rng(i) for i in range(num_envs)]
    seen = [[(env.reset(seed=seed + i)[0][0], 0.0, False, False)] for i, env in enumerate(singles)]

    def at(i, k):
        while len(seen[i]) <= k:
            action = rng[i].integers(singles[i].single_action_space.n)
            seen[i].append(tuple(part[0] for part in singles[i].step(np.array([action]))[:4]))
        return seen[i][k]

    return at


@pytest.mark.parametrize("id", ["CartPole-v1", "Catch-v0", "Pong"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_give_the_results_of_single_environments(id, batch_size):
    envs = make(id, 5, batch_size=batch_size, num_threads=3)
    want = alone(id, 5, 7, {})
    rng = [np.random.default_rng(i) for i in range(5)]
    steps = [0] * 5
    envs.async_reset(seed=7)
    for _ in range(400 // batch_size):
        obs, reward, terminated, truncated, infos = envs.recv()
        ids = infos["env_id"]
        assert len(set(ids)) == batch_size == len(obs) and infos["_env_id"].all()
        assert batch_size < 5 or (ids == range(5)).all()
        for row, i in enumerate(ids):
            for got, expected in zip((obs, reward, terminated, truncated), want(i, steps[i])):
                np.testing.assert_array_equal(got[row], expected)
            steps[i] += 1
        envs.send(np.array([rng[i].integers(envs.single_action_space.n) for i in ids]), ids)
    assert min(steps) > 20
    envs.close()


def test_step_is_send_and_recv():
    envs = make_vec("CartPole-v1", 4, batch_size=2)
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (4, 4) and envs.is_async
    envs.send(np.zeros(2, int), [0, 1])
    *_, infos = envs.step(np.ones(2, int), [3, 2])
    assert sorted(infos["env_id"].tolist()) in ([0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3])
    # reset discards the steps in progress.
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (4, 4)
    with pytest.raises(ConfigError, match="recv: 0 environments are under way, batch_size is 2"):
        envs.recv()
    envs.close()


@pytest.mark.parametrize("batch_size", [2, 3])
def test_a_step_of_too_few_environments_changes_nothing(batch_size):
    envs = make_vec("CartPole-v1", 3, batch_size=batch_size)
    envs.reset(seed=1)
    state = envs.clone_state()
    for env_id, coming in (([0], 1), ([], 0)):
        text = f"env_id: {coming} environments would be under way, must be at least batch_size, {batch_size}"
        with pytest.raises(ConfigError, match=text):
            envs.step(np.zeros(coming, int), env_id)
        assert envs.clone_state() == state
    # Environments under way count.
    envs.send(np.zeros(batch_size - 1, int), np.arange(batch_size - 1))
    assert len(envs.step([0], [batch_size - 1])[0]) == batch_size
    envs.close()


@pytest.mark.parametrize(
    "send, text",
    [
        (lambda e: e.send([0, 0], [0, 4]), "env_id: 4, must be 0 to 3"),
        (lambda e: e.send([0, 0], [1, 1]), "env_id: 1, is under way already"),
        (lambda e: e.send([0, 7], [0, 1]), "environment 1: action: 7, must be 0 to 1"),
        (lambda e: e.send([0, 0, 0], [0, 1]), r"actions: int64 of shape \(3,\), must be whole numbers of shape \(2,\)"),
        (lambda e: e.send([0], [[0]]), "env_id: "),
        (lambda e: e.send([0], [0.5]), "env_id: "),
        (lambda e: e.send([0] * 5, range(5)), "env_id: "),
        (lambda e: e.send([0], ["a"]), r"env_id: \['a'\], must be up to 4 numbers of environments"),
        (lambda e: e.send([0], [None]), r"env_id: \[None\], must be up to 4 numbers of environments"),
        (lambda e: e.send([0], {1: 2}), "env_id: {1: 2}, must be up to 4 numbers of environments"),
        (lambda e: e.send([0], [2**40]), "env_id: 1099511627776, must be 0 to 3"),
    ],
)
def test_a_refused_send_changes_nothing(send, text):
    envs, other = (make_vec("CartPole-v1", 4, batch_size=2) for _ in range(2))
    for e in (envs, other):
        e.reset(seed=3)
    with pytest.raises(ConfigError, match=text):
        send(envs)
    for e in (envs, other):
        e.send([1, 0], [0, 1])
    a, b = envs.recv(), other.recv()
    order = np.argsort(a[4]["env_id"]), np.argsort(b[4]["env_id"])
    np.testing.assert_array_equal(a[0][order[0]], b[0][order[1]])
    with pytest.raises(ConfigError, match="env_id: 2, is under way already"):
        envs.send([0], [2])
        envs.send([0], [2])


def test_a_refused_async_reset_changes_nothing():
    envs = make_vec("CartPole-v1", 4, batch_size=2)
    envs.async_reset(seed=1)
    received = envs.recv()[4]["env_id"]
    other = np.setdiff1d(np.arange(4), received)[0]
    seeds, mask = [None] * 4, np.ones(4, bool)
    seeds[received[0]] = 99
    # The received environment with a seed is a call of the library of its own.
    with pytest.raises(ConfigError, match=f"env_id: {other}, is under way already, must be received first"):
        envs.async_reset(seed=seeds, options={"reset_mask": mask})
    with pytest.raises(ConfigError, match="is under way already"):
        envs.async_reset(seed=5)
    assert envs.np_random_seed == (1, 2, 3, 4)
    envs.recv()
    envs.send([0, 0], received)
    rows, same = envs.recv(), make_vec("CartPole-v1", 4)
    same.reset(seed=1)
    np.testing.assert_array_equal(rows[0], same.step(np.zeros(4, int))[0][rows[4]["env_id"]])


@pytest.mark.parametrize("seed", [None, [None, 7]])
@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_an_asynchronous_reset_is_a_reset(mode, seed):
    envs, same = (make_vec("CartPole-v1", 2, autoreset_mode=mode) for _ in range(2))
    for e in (envs, same):
        e.reset(seed=3)
    for _ in range(2):
        envs.async_reset(seed=seed)
        np.testing.assert_array_equal(envs.recv()[0], same.reset(seed=seed)[0])


def test_a_reset_of_some_is_asynchronous_with_a_batch_size():
    envs, same = (make_vec("CartPole-v1", 3, batch_size=2) for _ in range(2))
    mask = {"reset_mask": np.array([True, False, False])}
    for e in (envs, same):
        e.reset(seed=1)
        e.step([1, 1], [0, 1])
    text = r"options\['reset_mask'\]: 1 of 3 environments, must be all with batch_size < num_envs; async_reset resets some"
    with pytest.raises(ConfigError, match=text):
        envs.reset(seed=2, options=mask)
    for e in (envs, same):
        e.async_reset(options=mask)
        e.send([1], [2])
    rows = [e.recv() for e in (envs, same)]
    order = [np.argsort(row[4]["env_id"]) for row in rows]
    np.testing.assert_array_equal(rows[0][0][order[0]], rows[1][0][order[1]])
    everyone = {"reset_mask": np.ones(3, bool)}
    np.testing.assert_array_equal(envs.reset(seed=1, options=everyone)[0], same.reset(seed=1)[0])


def test_calls_during_steps_are_refused():
    envs = make_vec("CartPole-v1", 3, batch_size=3)
    envs.reset(seed=1)
    envs.send(np.zeros(3, int))
    with pytest.raises(ConfigError, match="some are under way"):
        envs.step(np.zeros(3, int))
    with pytest.raises(ConfigError, match="some are under way"):
        envs.clone_state()
    envs.recv()
    envs.step(np.zeros(3, int))
    envs.send(np.zeros(3, int))
    envs.close()
    with pytest.raises(HandleError):
        envs.recv()


def test_two_threads_send_and_receive():
    envs = make("Pong", 4, batch_size=1, num_threads=2)
    envs.async_reset(seed=1)
    todo, counts = [], [0] * 4
    ready, under_way = threading.Semaphore(0), threading.Semaphore(4)

    def sender():
        while True:
            ready.acquire()
            i = todo.pop(0)
            if i is None:
                return
            envs.send(np.zeros(1, int), np.array([i]))
            under_way.release()

    thread = threading.Thread(target=sender, daemon=True)
    thread.start()
    # the order of environments depends on thread scheduling
    while sum(counts) < 200 or min(counts) <= 10:
        assert under_way.acquire(timeout=300)
        (i,) = envs.recv()[4]["env_id"].tolist()
        counts[i] += 1
        todo.append(i)
        ready.release()
    todo.append(None)
    ready.release()
    thread.join()
    envs.close()


def test_a_step_during_the_end_of_recv_is_refused(monkeypatch):
    envs, same = make_vec("CartPole-v1", 3), make_vec("CartPole-v1", 3)
    for e in (envs, same):
        e.reset(seed=1)
    envs.send(np.zeros(3, int))
    results, refused = envs._results, []

    def slow(block):  # another thread steps while recv makes its results
        def step():
            with pytest.raises(BusyError, match="another call is in progress"):
                envs.step(np.ones(3, int))
            refused.append(True)

        other = threading.Thread(target=step)
        other.start()
        other.join()
        return results(block)

    monkeypatch.setattr(envs, "_results", slow)
    np.testing.assert_array_equal(envs.recv()[0], same.step(np.zeros(3, int))[0])
    monkeypatch.undo()
    assert refused
    np.testing.assert_array_equal(envs.step(np.ones(3, int))[0], same.step(np.ones(3, int))[0])


# ------------------------------------------------------------------ memory


def test_memory_is_reused_after_the_last_reference():
    envs = make_vec("Catch-v0", 4, autoreset_mode="same_step")
    envs.reset(seed=1)
    kept = [envs.step(np.zeros(4, int)) for _ in range(30)]
    copies = [[part.copy() for part in result[:4]] for result in kept]
    slices = [result[0][2, 1:] for result in kept]  # a view alone keeps the memory
    addresses = {result[0].ctypes.data for result in kept}
    assert len(addresses) == 30
    for result, copy in zip(kept, copies):
        for part, same in zip(result, copy):
            np.testing.assert_array_equal(part, same)
    wanted = [view.copy() for view in slices]
    del kept, result, part
    for _ in range(30):
        envs.step(np.ones(4, int))
    for view, want in zip(slices, wanted):
        np.testing.assert_array_equal(view, want)
    del slices, view
    gc.collect()
    seen = {envs.step(np.zeros(4, int))[0].ctypes.data for _ in range(50)}
    assert len(seen) <= 10, "memory of dropped results is reused"
    envs.close()
    np.testing.assert_array_equal(copies[0][0], copies[0][0])


def test_results_outlive_the_environments():
    envs = make_vec("Catch-v0", 2)
    obs = envs.reset(seed=5)[0]
    same = obs.copy()
    envs.close()
    del envs
    gc.collect()
    make_vec("Catch-v0", 2).reset(seed=6)
    np.testing.assert_array_equal(obs, same)
    obs[:] = 1  # results are writable


def test_copy_false_returns_views():
    envs = make_vec("CartPole-v1", 3, copy=False)
    obs = envs.reset(seed=1)[0]
    first = obs.copy()
    after = envs.step(np.zeros(3, int))[0]
    assert np.shares_memory(obs, after) and (obs != first).any()
    envs = make_vec("CartPole-v1", 4, batch_size=2, copy=False)
    envs.async_reset(seed=1)
    seen = set()
    for _ in range(20):
        obs, *_, infos = envs.recv()
        same = obs.copy()
        envs.send(np.zeros(2, int), infos["env_id"])
        time.sleep(0.002)
        np.testing.assert_array_equal(obs, same)  # valid until the next recv
        seen.add(obs.ctypes.data)
    assert len(seen) <= 4


def test_results_are_shared_by_dlpack():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    envs = make_vec("Catch-v0", 2)
    obs = envs.reset(seed=1)[0]
    tensor = torch.from_dlpack(obs)
    assert tensor.data_ptr() == obs.ctypes.data and tensor.dtype == torch.uint8 and tensor.shape == obs.shape
    same = tensor.clone()
    del obs
    for _ in range(20):
        envs.step(np.ones(2, int))
    assert torch.equal(tensor, same)
    np.testing.assert_array_equal(np.from_dlpack(envs.reset()[0]).shape, (2, 4, 84, 84))


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_a_thousand_environments_take_little_memory():
    envs = make("Pong", 1000, num_threads=2, copy=False)
    envs.reset(seed=1)
    envs.step(np.zeros(1000, int))
    envs.close()
    gc.collect()
    before = resident()
    envs = make("Pong", 1000, num_threads=2, copy=False)
    obs = envs.reset(seed=1)[0]
    envs.step(np.zeros(1000, int))
    each = (resident() - before - obs.nbytes) / 1000
    assert obs.shape == (1000, 4, 84, 84)
    assert each < 256 * 1024, f"{each / 1024:.0f} KB for each environment beyond its row"
    envs.close()


# ------------------------------------------------------------------ states


@pytest.mark.parametrize("id, keywords", [("CartPole-v1", {}), ("Catch-v0", {}), ("Pong", {}), ("Pong", {"recipe": "mnih2015"})])
def test_states_are_cloned_and_restored(id, keywords):
    envs = make(id, 3, **keywords)
    envs.reset(seed=4)
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(40, 3))
    for row in actions[:20]:
        envs.step(row)
    whole, one = envs.clone_state(), envs.clone_state(1)
    assert isinstance(whole, list) and whole[1] == one
    after = [envs.step(row)[:4] for row in actions[20:]]
    other = make(id, 3, **keywords)
    other.reset(seed=99)
    for target in (envs, other):
        target.restore_state(whole)
        for row, want in zip(actions[20:], after):
            for a, b in zip(target.step(row)[:4], want):
                np.testing.assert_array_equal(a, b)
    other.restore_state(one, env_id=2)
    np.testing.assert_array_equal(other.step(actions[20])[0][2][..., :0], after[0][0][1][..., :0])
    for bad, text in [(b"", "state"), (whole[0][:-1], "state"), ("x", "state: str, must be"), (b"\x00" * len(one), "state")]:
        with pytest.raises(PacelineError, match=text):
            other.restore_state(bad, env_id=0)
    before = other.clone_state()
    with pytest.raises(ConfigError, match="state: int, must be bytes"):
        other.restore_state([whole[0], 5, whole[2]])
    assert other.clone_state() == before
    with pytest.raises(ConfigError, match="must be a list of 3 states"):
        other.restore_state(whole[:2])
    with pytest.raises(ConfigError, match="state: int, must be a list of 3 states"):
        other.restore_state(5)
    with pytest.raises(ConfigError, match="env_id: 3, must be 0 to 2"):
        other.clone_state(3)


def test_the_state_of_another_task_is_refused():
    pendulum, cartpole = make_vec("Pendulum-v1", 1), make_vec("CartPole-v1", 1)
    for envs in (pendulum, cartpole):
        envs.reset(seed=1)
    with pytest.raises(PacelineError, match="environment 0: CartPole-v1 state: kind of task 4, must be 1"):
        cartpole.restore_state(pendulum.clone_state(0), 0)


def test_decorrelation_steps_vary_the_start():
    envs = make_vec("CartPole-v1", 16, decorrelation_steps=50)
    plain = make_vec("CartPole-v1", 16)
    first = envs.reset(seed=1)[0]
    np.testing.assert_array_equal(first, envs.reset(seed=1)[0])
    assert (first != plain.reset(seed=1)[0]).any(axis=1).sum() >= 12
    again = envs.reset()[0]  # without a seed there are no decorrelation steps
    assert abs(again).max() <= 0.05 < abs(first).max()


# --------------------------------------------------- environments in other files


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """The example plugin, built by its documented commands."""
    source = Path(__file__).parents[2] / "examples" / "c" / "env_plugin.c"
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not source.exists() or compiler is None:
        pytest.skip("there is no example or no C compiler")
    include = source.parents[2] / "include"
    target = tmp_path_factory.mktemp("plugin") / "libwalk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", f"-I{include}", str(source), "-o", str(target), "-lm"], check=True)
    return paceline.load_env(target), target


def test_load_env_registers_an_environment(walk):
    name, path = walk
    assert paceline.load_env(str(path)) == name
    envs = make_vec(name, 3)
    obs = envs.reset(seed=2)[0]
    np.testing.assert_array_equal(obs, envs.reset(seed=2)[0])
    for _ in range(50):
        result = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(result[0])
    with paceline.DQN("MlpPolicy", name, num_envs=2, learning_starts=100, seed=1) as model:
        model.learn(300)
        assert model.stats["updates"] > 0
    envs.close()


def test_load_env_refuses_other_files(tmp_path):
    with pytest.raises(PacelineError, match="nothing.so"):
        paceline.load_env(tmp_path / "nothing.so")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(PacelineError, match="text.so"):
        paceline.load_env(text)


# ------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "arguments, keywords, text",
    [
        (("Pnog",), {}, "did you mean atari/pong"),
        (("Pong",), {"noop_mx": 3}, "did you mean noop_max"),
        (("Pong",), {"frameskip": 0}, "frameskip: 0, must be a whole number of 1 to 1000"),
        (("Pong",), {"recipe": "nature"}, 'recipe: "nature", must be ale or dopamine or machado2018 or mnih2015 or sb3 or stooke_abbeel'),
        (("Pong",), {"mode": 99}, "mode: 99, pong has"),
        (("Breakout",), {"difficulty": 3}, "difficulty: 3, breakout has"),
        (("Pong",), {"img_width": 161}, "img_width: 161, must be a whole number of 1 to 160"),
        (("Pong",), {"repeat_action_probability": float("nan")}, "env_kwargs: "),
        (("Pong",), {"obs_type": "ram", "grayscale": True}, "grayscale: true, must not contradict"),
        (("Pong", 4), {"batch_size": 5}, "batch_size: 5, must be 0 to 4"),
        (("Pong",), {"render_mode": "human"}, "render_mode: 'human', must be None or 'rgb_array'"),
        (("CartPole-v1",), {"decorrelation_steps": -1}, "decorrelation_steps: -1, must be"),
        (("CartPole-v1",), {"workers": 2}, "workers: 2, must be None for CartPole-v1"),
    ],
)
def test_bad_arguments_are_refused(arguments, keywords, text):
    if arguments[0] in ("Pong", "Breakout"):
        make("Pong")
    with pytest.raises(ConfigError, match=text):
        make_vec(*arguments, **keywords)


def test_a_missing_rom_is_named(tmp_path):
    code = "import paceline; paceline.make_vec('Pong')"
    env = {k: v for k, v in os.environ.items() if not k.endswith("ROMS_DIR")} | {"PACELINE_ROMS_DIR": str(tmp_path)}
    block = "import sys; sys.modules['ale_py'] = None; import importlib.util as u; u.find_spec = lambda name, *a: None; "
    result = subprocess.run([os.sys.executable, "-c", block + code], env=env, capture_output=True, text=True)
    assert "pong.bin" in result.stderr and "60e0ea3cbe0913d39803477945e9e5ec" in result.stderr and "pip install ale-py" in result.stderr


def test_busy_and_callback_errors_are_distinct():
    assert issubclass(BusyError, PacelineError) and issubclass(CallbackError, PacelineError)
    one = make_vec("CartPole-v1", 1)
    with pytest.raises(ConfigError, match="environment 0: step before reset"):
        one.send([0])
