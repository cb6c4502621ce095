"""Worker processes: exceptions, deaths, interrupts, and close."""

import gc
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import worker_envs as we
from conftest import descriptors, restore_sigint, slow_but
from paceline import make_vec, workers
from paceline.errors import CallbackError, ConfigError, ForkError, HandleError

# ------------------------------------------------------------------ failures


@pytest.mark.parametrize("processes", [2, None])
def test_an_exception_names_the_environment(make, processes):
    env = make(we.Trouble, 4, workers_=processes)
    env.reset(seed=10)
    with pytest.raises(CallbackError, match="(?m)^environment 2: ValueError: the arm is stuck$") as caught:
        env.step([0, 0, 1, 0])
    err = caught.value
    assert err.index == 2 and err.indices == (2,)
    assert "in step\n" in err.traceback and "worker_envs.py" in err.traceback and "the arm is stuck" in err.traceback
    if processes is None:
        assert type(err.__cause__) is ValueError
    elif sys.version_info >= (3, 11):
        assert err.__notes__ == [err.traceback]
    # The results of the other environments are returned.
    obs, rewards, terminated, truncated, infos = err.results
    assert obs[[0, 1, 3], 2].tolist() == [1, 1, 1] and rewards.tolist() == [10.01, 11.01, 0, 13.01]
    assert infos["_odd"].tolist() == [True, True, False, True]
    # Environment 2 is refused until it is reset.
    with pytest.raises(CallbackError, match="(?m)^environment 2: ValueError: the arm is stuck; it must be reset first$"):
        env.step([0] * 4)
    assert env.get_attr("count") == (1, 1, 0, 1)
    env.reset(options={"reset_mask": np.array([0, 0, 1, 0], bool)})
    assert env.step([0] * 4)[0][:, 2].tolist() == [2, 2, 1, 2]


@pytest.mark.parametrize("action, text", [(4, r"ValueError: observation: shape \(3,\), must be \(4,\)")])
@pytest.mark.parametrize("processes", [2, None])
def test_a_wrong_observation_is_refused(make, action, text, processes):
    env = make(we.Trouble, 2, workers_=processes)
    env.reset()
    with pytest.raises(CallbackError, match=f"(?m)^environment 1: {text}$"):
        env.step([0, action])


@pytest.mark.parametrize("processes", [2, None])
def test_several_environments_can_fail_at_once(make, processes):
    env = make(we.Trouble, 4, workers_=processes)
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
def test_a_dead_process_is_restarted_by_reset(make, action, code):
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
    # A reset of one environment restarts the process. The process's other environment still needs a
    # reset.
    before = env._crew.workers[0].process.pid
    env.reset(seed=20, options={"reset_mask": np.array([0, 0, 0, 1], bool)})
    with pytest.raises(CallbackError, match=f"^environment 2: {died}; it must be reset first$"):
        env.step([0] * 4)
    obs, _ = env.reset(seed=20, options={"reset_mask": np.array([0, 0, 1, 0], bool)})
    assert obs[2:].tolist() == [[22, 0, 0, -1], [23, 0, 0, -1]] and env.get_attr("count") == (1, 1, 0, 0)
    assert env.call("pid")[:2] == (before, before)
    assert env.step([0] * 4)[0][:, 2].tolist() == [2, 2, 1, 1]


def test_a_death_is_reported_by_recv(make):
    env = make(we.Trouble, 4, batch_size=1)
    env.reset(seed=10)
    env.send([0, 2], [2, 3])
    assert env.recv()[4]["env_id"] == [2]  # its step was done before
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


def test_a_failed_restart_is_reported(make, tmp_path):
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


def test_a_death_between_steps_is_reported(make):
    env = make(we.Counting, 4)
    env.reset(seed=1)
    pid = env.call("pid")[3]
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(CallbackError, match="(?m)^environment 2: its worker process died with exit code -9$") as caught:
        env.step([0] * 4)
    assert caught.value.indices == (2, 3) and caught.value.results[1].tolist() == [1.01, 2.01, 0, 0]
    mask = np.zeros(4, bool)
    mask[list(caught.value.indices)] = True
    env.reset(options={"reset_mask": mask})
    env.step([0] * 4)


def test_a_death_is_seen_while_a_grandchild_holds_the_pipe(make):
    env = make(we.Parent, 1, workers_=1)
    env.reset()
    [child] = env.get_attr("child")
    with pytest.raises(CallbackError, match="(?m)^environment 0: its worker process died with exit code 5$"):
        env.step([0])
    os.kill(child, signal.SIGKILL)  # the grandchild still runs


@pytest.mark.parametrize(
    "how, text",
    [("raise", "FileNotFoundError: no such level$"), ("die", "its worker process died with exit code 9 before it had made")],
)
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_failing_constructor_leaves_no_process(how, text, context):
    before = descriptors()
    # spawn keeps a pipe to multiprocessing's tracker
    with pytest.raises(CallbackError, match=f"(?m)^environment 2: {text}") as caught:
        workers.make([we.Counting] * 2 + [lambda: we.Unmade(how)] * 2, 4, workers=2, context=context)
    assert caught.value.index == 2 and ("in __init__\n" in caught.value.traceback) is (how == "raise")
    del caught
    gc.collect()
    assert descriptors() <= before + (context == "spawn")
    assert not children()


def children():
    """Returns the command lines of this process's workers that are alive."""
    out = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if "spawn_main" in line]


@pytest.mark.parametrize("processes", [1, None])
def test_a_function_that_returns_no_environment_is_refused(make, processes):
    with pytest.raises(CallbackError, match="(?m)^environment 0: TypeError: the function returned dict, must be a gymnasium.Env$"):
        make(dict, 1, workers_=processes)


def test_a_failing_constructor_closes_the_other_environments():
    closed = []

    class Closing(we.Counting):
        def close(self):
            closed.append(self)

    with pytest.raises(CallbackError, match="^environment 1: FileNotFoundError: no such level$") as caught:
        make_vec([Closing, we.Unmade], 2)
    assert type(caught.value.__cause__) is FileNotFoundError and len(closed) == 1
    one = Closing()
    with pytest.raises(ConfigError, match="^env: environments 0 and 1 are the same object, must be a new one from each call$"):
        make_vec(lambda: one, 3)
    assert closed[1:] == [one]


def test_a_failing_close_leaves_no_environment_open():
    closed = []

    class Stuck(we.Counting):
        def close(self):
            closed.append(self)
            if len(closed) < 3:
                raise RuntimeError(f"close {len(closed)} fails")

    envs = make_vec(Stuck, 3)
    made = envs.envs
    with pytest.raises(RuntimeError, match="^close 1 fails$"):
        envs.close()
    envs.close()
    assert envs.closed and closed == made
    closed.clear()
    with pytest.raises(CallbackError, match="^environment 2: FileNotFoundError: no such level$"):
        make_vec([Stuck, Stuck, we.Unmade], 3)
    assert len(closed) == 2


def test_ctrl_c_stops_environments_in_this_process():
    class Pressed(we.Counting):
        def step(self, action):
            if action == 4:
                raise KeyboardInterrupt
            return super().step(action)

    envs = make_vec(Pressed, 3)
    envs.reset(seed=1)
    with pytest.raises(KeyboardInterrupt):
        envs.step([0, 4, 0])
    with pytest.raises(CallbackError, match="^environment 1: was stopped by KeyboardInterrupt; it must be reset first$") as caught:
        envs.step([0, 0, 0])
    assert caught.value.indices == (1, 2)
    envs.reset(seed=5)
    assert envs.step([0, 0, 0])[1].tolist() == [5.01, 6.01, 7.01]
    envs.close()


# ------------------------------------------------------------------ ending


def test_close_works_from_any_state(make):
    env = make(we.Counting, 4, batch_size=2)
    env.close()
    env.close()
    assert env.closed
    for call in (env.reset, env.recv, env.render, lambda: env.step([0]), lambda: env.envs):
        with pytest.raises(HandleError, match="^environments: closed$"):
            call()
    env = make(we.Counting, 4, batch_size=2)
    env.reset()
    env.send([2] * 4)
    env.close()
    for how in ({"timeout": 0}, {"terminate": True}):
        env = make(lambda: we.Gated("/nowhere"), 1, workers_=1)
        env.reset()
        [pid] = env.call("pid")
        env.send([4])
        env.close(**how)  # close does not wait for the step, which never ends
        assert not os.path.exists(f"/proc/{pid}")
    for processes in (2, None):
        env = make(we.Counting, 4, workers_=processes)
        env.reset()
        env.close(timeout=None)
        assert env.closed
    env = make(lambda: we.Counting(size=10**6), 4, workers_=1)
    env.reset()
    env.send([0] * 4)  # their infos are never read
    env.close()


def test_garbage_collection_ends_the_workers(make):
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
    assert os.read(read, 200).startswith(b"environments: made by the parent process")
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


@pytest.mark.parametrize("end", slow_but(("under way", "dead", "exit"), QUIET))
def test_processes_end_without_output(process, end):
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


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_ctrl_c_interrupts_only_the_parent(tmp_path, context):
    """As in a terminal, the process group gets SIGINT in the middle of a step."""
    code = f"""
import pathlib
import worker_envs as we
from paceline import workers
env = workers.make(lambda: we.CtrlC("{tmp_path}"), 1, workers=1, context="{context}")
env.reset(seed=1)
env.send([1])
try:
    pathlib.Path("{tmp_path}/go").touch()
    env.recv()
except KeyboardInterrupt:
    print("interrupted")
try:
    env.step([0])
except ValueError as err:
    print(err)
pathlib.Path("{tmp_path}/1").touch()
print(env.recv()[1])
env.send([0])
print(env.reset(seed=3)[0][:, 0], env.step([0])[1])
env.close()
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    options = {"cwd": tmp_path, "env": env, "start_new_session": True, "preexec_fn": restore_sigint}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, **options)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "interrupted",
        "environment 0: it is under way, must be received first",
        "[1.01]",
        "[3.] [3.01]",
    ]


class Interrupt(BaseException):
    pass


@pytest.fixture
def interrupt():
    """interrupt(seconds) raises an exception in this thread after that time."""

    def raise_it(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, raise_it)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_interrupts_at_any_moment_leave_a_usable_vector(make, interrupt):
    rng = np.random.default_rng(1)
    env, interrupts, count, number, k = make(we.Words, 4, autoreset_mode="disabled"), 0, 0, 1, 0
    most = 1.5e-3
    env.reset(seed=1)
    while interrupts < 40:
        k += 1
        try:
            interrupt(max(rng.random() * most, 1e-6))
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
            most *= 0.99  # calls take less time than that
        except Interrupt:
            interrupts, count = interrupts + 1, 3
        if count == 3:
            count, number = 0, k
            obs, _ = env.reset(seed=k)
            assert obs["word"] == tuple(f"n{k + i}e0a-1" for i in range(4)) and obs["count"].tolist() == [0] * 4


def test_an_interrupted_call_leaves_no_message(make, interrupt, tmp_path):
    env = make(lambda: we.Gated(tmp_path), 2, workers_=1, batch_size=1)
    env.reset(seed=1)
    receive = env._crew.receive

    def waits():
        (tmp_path / "go").mkdir(exist_ok=True)  # an interrupted touch would leave a descriptor
        receive()

    env._crew.receive = waits
    with pytest.raises(Interrupt):
        env.call("interrupt", signal.SIGALRM)
    (tmp_path / "1").touch()
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
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ------------------------------------------------------------------ programs other than an interpreter


@pytest.mark.parametrize("how", ["frozen", "another program"])
def test_a_program_that_is_no_interpreter_is_named(how, monkeypatch, tmp_path):
    """A frozen program without freeze_support starts from its beginning and exits with code 0."""
    program = tmp_path / "game"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    if how == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(sys, "executable", str(program))
    else:
        monkeypatch.setattr(multiprocessing.spawn, "_python_exe", str(program))
    with pytest.raises(CallbackError) as caught:
        make_vec(we.Counting, 1, workers=1)
    assert str(caught.value).splitlines()[0] == (
        f"environment 0: its worker process died with exit code 0 before it had made its environments: {program}, which starts worker "
        "processes, must be a Python interpreter; a frozen program must call multiprocessing.freeze_support() before anything else"
    )
    monkeypatch.setattr(sys, "argv", [str(program), "--multiprocessing-fork", "tracker_fd=1", "pipe_handle=2"])
    with pytest.raises(ConfigError, match=r"^workers: this is the process of a worker, and .* must call multiprocessing\.freeze_"):
        make_vec(we.Counting, 1, workers=1)


def test_a_host_without_an_interpreter_is_refused(monkeypatch):
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", None)
    with pytest.raises(
        ConfigError, match="^workers: sys.executable is empty, must be set: multiprocessing.set_executable names an interpreter"
    ):
        make_vec(we.Counting, 1, workers=1)
