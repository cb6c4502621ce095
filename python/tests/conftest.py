"""Shared by all tests: environments that count, and processes with a time limit."""

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
    """Parameters of a test, all of which are slow but the quick ones."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def hear_ctrl_c():
    """A child's preexec_fn: SIGINT has its default action, although a shell ignores it for background jobs (`make test &`)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def process(tmp_path):
    """Runs a file of procs/ (or Python code) in a process of its own, which must end in time.

    Returns the CompletedProcess; its status must be 0 unless check is False.
    """

    def run(what, *arguments, timeout=300, check=True, env=None, options=("-X", "dev")):
        source = [str(PROCS / what)] if what.endswith(".py") else ["-c", what]
        done = subprocess.run(
            [sys.executable, *options, "-X", "faulthandler", *source, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            preexec_fn=hear_ctrl_c,
        )
        if check:
            assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def compile_c(tmp_path):
    """Compiles C text with the machine's compiler; skips the test where there is none."""

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
    """workers.make by fork, which starts fastest, or with workers_=None in this process; closes everything, and no process
    or descriptor may be left."""
    from paceline import workers

    resource_tracker.ensure_running()  # multiprocessing's own, which stays
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
