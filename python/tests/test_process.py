"""The library in a host process: fork, exit, warnings, floating-point mode."""

import platform

import pytest

from conftest import slow_but


def test_fork_after_loading_is_refused(process):
    assert process("fork_after.py").stdout.endswith("done\n")


def test_fork_before_loading_works(process):
    assert process("fork_before.py").stdout.endswith("done\n")


def test_exit_during_a_run_is_clean(process):
    for _ in range(5):
        done = process("exit_in_run.py")
        assert done.stdout == "leaving\n" and done.stderr == ""


def test_a_child_forked_in_a_callback_exits_as_it_says(process):
    done = process(
        """
import os, sys
from envs import SMALL
from paceline import DQN

def fork(locals_, _):
    if locals_["self"].num_timesteps == 20:
        pid = os.fork()
        if pid == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
    model.learn(40, callback=fork)
""",
        options=(),
    )
    assert done.stdout == "3\n" and done.stderr == ""


@pytest.mark.parametrize("by", ["learn", "step"])
def test_exit_while_a_thread_uses_worker_processes_is_clean(process, by):
    for _ in range(3):
        done = process("exit_with_workers.py", by, options=())
        assert done.stdout == "leaving\n" and done.stderr == ""


CASE = """
from envs import SMALL
from paceline import DQN
model = DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL)
model.learn(200)
"""


def test_closed_models_leave_no_warning(process):
    assert process(CASE + "model.close()").stderr == ""


@pytest.mark.parametrize("end", ["", "del model"])
def test_unclosed_models_warn_in_development_mode(process, end):
    done = process(CASE + end)
    assert "ResourceWarning: <paceline.DQN on CartPole-v1> was not closed" in done.stderr
    assert process(CASE + end, options=()).stderr == ""


AT_EXIT = """
import atexit, warnings

@atexit.register  # registered first, so it runs after the handlers of weakref.finalize and of the package
def ask():
    for describe, number in describing:
        try:
            print(_lib.take_text(describe, number))
        except HandleError as error:
            print(error)

from envs import SMALL
from paceline import DQN, _lib, make_vec
from paceline.errors import HandleError
warnings.simplefilter("ignore", ResourceWarning)
envs, model = make_vec("CartPole-v1", num_envs=8, batch_size=2), DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL)
envs.async_reset(seed=1)  # steps in progress at exit write to arrays that the interpreter frees
describing = [(_lib.lib().paceline_vec_describe, envs._handle.value), (_lib.lib().paceline_trainer_describe, model._native.handle.value)]
"""


def test_unclosed_objects_are_freed_at_exit(process):
    done = process(AT_EXIT, options=())
    assert done.stderr == "" and done.stdout == "environments: closed\nmodel: closed\n"


SET_FLUSH_TO_ZERO = """
#include <xmmintrin.h>
void set(void) { _mm_setcsr(_mm_getcsr() | 0x8040 | 0x2000); } /* flush to zero, denormals are zero, round down */
unsigned mode(void) { return _mm_getcsr(); }
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="MXCSR is x86-64's")
@pytest.mark.parametrize("env", slow_but(("CartPole-v1",), ["CartPole-v1", "Catch-v0"]))
def test_the_floating_point_mode_of_the_host_changes_no_result(process, compile_c, env):
    host = compile_c(SET_FLUSH_TO_ZERO, "libhost.so", "-shared", "-fPIC")
    plain = process("hashes.py", env).stdout
    assert len(plain.split()) == 3
    assert process("hashes.py", env, host).stdout == plain


def test_the_environment_may_be_empty(process):
    """The library needs no environment variable."""
    process(CASE + "model.close()", env={"HOME": "", "PATH": "", "GOMAXPROCS": ""})


def test_the_library_loads_after_other_libraries(process):
    process("import gymnasium, numpy; from paceline import _lib; _lib.lib()", options=())


@pytest.mark.slow
def test_small_files_take_little_memory(process, tmp_path):
    """Opening any file of 4 MB takes at most 100 MB of memory. The test prints the maximum."""
    print(process("small_files.py", tmp_path, options=()).stdout)


def test_other_threads_run_during_learn(process):
    process("beside.py", options=())
