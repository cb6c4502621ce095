"""Fixtures and helpers of all tests."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

PROCS = Path(__file__).parent / "procs"
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))


def slow_but(quick, values):
    """Returns parameters of a test; all are slow except the quick ones."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def restore_sigint():
    """A preexec_fn: SIGINT gets its default action, which a shell disables in background jobs
    (`make test &`).
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def ctrl_c_after(name):
    """Raises KeyboardInterrupt once, after a call of this function of the library has taken effect.

    A pending Ctrl-C is raised there: Python enters ctypes' errcheck.
    """
    from paceline import _lib

    function = getattr(_lib.lib(), name)
    check = function.errcheck

    def interrupt(status, *rest):
        if status:
            return check(status, *rest)
        function.errcheck = check
        raise KeyboardInterrupt

    function.errcheck = interrupt
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        function.errcheck = check


@pytest.fixture
def process(tmp_path):
    """Runs a file of procs/, or Python code, in a separate process with a time limit.

    Returns the CompletedProcess. Its status must be 0 unless check is False.
    """

    def run(what, *arguments, timeout=1200, check=True, env=None, options=("-X", "dev")):
        source = [str(PROCS / what)] if what.endswith(".py") else ["-c", what]
        done = subprocess.run(
            [sys.executable, *options, "-X", "faulthandler", *source, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            preexec_fn=restore_sigint,
        )
        if check:
            assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two nodes on this machine, to which this process is connected."""
    from ray_cluster import local_cluster

    with local_cluster() as made:
        yield made


@pytest.fixture
def compile_c(tmp_path):
    """Compiles C source code with the machine's compiler. Skips the test if there is none."""

    def build(source, name, *flags):
        file, out = tmp_path / f"{name}.c", tmp_path / name
        file.write_text(source)
        try:
            subprocess.run(["cc", *flags, "-o", out, file], check=True, capture_output=True, text=True, timeout=300)
        except FileNotFoundError:
            pytest.skip("no C compiler")
        return out

    return build


@pytest.fixture
def make():
    """Calls workers.make and closes the environments after the test.

    Workers start by fork, the fastest method; workers_=None steps in this process. The fixture
    fails if a process or a descriptor is left.
    """
    from paceline import workers

    resource_tracker.ensure_running()  # multiprocessing's tracker stays open
    made, before = [], descriptors()

    def make(env, num_envs=4, *, workers_=2, **keywords):
        made.append(workers.make(env, num_envs, workers=workers_, **{"context": None if workers_ is None else "fork", **keywords}))
        return made[-1]

    yield make
    pids = [w.process.pid for env in made if not env.closed for w in env._crew.workers if w.process and w.dead is None]
    while made:
        made.pop().close()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    gc.collect()
    assert descriptors() <= before


def descriptors():
    return len(os.listdir("/proc/self/fd"))
