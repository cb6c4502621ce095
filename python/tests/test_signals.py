"""Ctrl-C ends a call within a second and leaves a usable model; the library changes no signal
handler of the host.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ctrl_c_after, restore_sigint, slow_but
from paceline import DQN, _lib, make_vec
from paceline.errors import HandleError

HERE = Path(__file__).parent


HOWS = (
    "native callback evaluation pixels push push-pixels own-loop a2c a2c-push a3c a3c-push appo ga3c ga3c-push ppo ppo-push "
    "ppo-own-loop pqn"
).split()


@pytest.mark.parametrize("how", slow_but(["native", "callback", "push", "ppo-own-loop"], HOWS))
def test_ctrl_c_ends_a_call_and_leaves_a_usable_model(how, tmp_path):
    command = [sys.executable, "-X", "dev", "-X", "faulthandler", str(HERE / "procs" / "interrupt.py"), how]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=env, preexec_fn=restore_sigint, **pipes) as child:
        try:
            assert child.stdout.readline() == "ready\n", child.stderr.read()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n", child.stderr.read()
            assert child.stdout.readline() == "saved\n", child.stderr.read()
            assert child.stdout.readline() == "usable\n", child.stderr.read()
            assert child.wait(timeout=300) == 0, child.stderr.read()
        finally:
            child.kill()


def test_an_interrupt_at_the_start_ends_an_evaluation(process):
    """The evaluation's thread ends, because it must not write to arrays that have been freed."""
    process(
        """
import threading
from envs import SMALL
from paceline import DQN
begin = threading.Thread.start

def interrupted(thread):
    begin(thread)
    raise KeyboardInterrupt

with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model, model.policy_snapshot() as policy:
    threading.Thread.start = interrupted
    try:
        policy.evaluate("CartPole-v1", 1_000_000)
    except KeyboardInterrupt:
        print("interrupted")
    threading.Thread.start = begin
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            assert thread.name == "paceline-evaluate", thread
            thread.join()
            print("ended by itself" if not policy._stops else "stopped")
    assert policy.evaluate("CartPole-v1", 2).episodes == 2
"""
    )


@pytest.mark.parametrize("kind, make", {
    "trainer": lambda: DQN("MlpPolicy", "CartPole-v1", buffer_size=1000), "vec": lambda: make_vec("CartPole-v1", 2),
}.items())  # fmt: skip
def test_an_interrupt_while_an_object_is_made_frees_it(kind, make, monkeypatch):
    lib, made = _lib.lib(), []
    new = getattr(lib, f"paceline_{kind}_new")

    def interrupted(out, *arguments):
        new(out, *arguments)
        made.append(out._obj.value)
        raise KeyboardInterrupt

    monkeypatch.setattr(lib, f"paceline_{kind}_new", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        make()
    with pytest.raises(HandleError):
        _lib.take_text(getattr(lib, f"paceline_{kind}_describe"), made[0])
    assert caught.tb  # what made the object is referred to until here


def test_an_interrupt_frees_a_text(monkeypatch):
    lib, freed = _lib.lib(), []
    free = lib.paceline_string_free
    monkeypatch.setattr(lib, "paceline_string_free", lambda text: freed.append(free(text)))
    with ctrl_c_after("paceline_env_names"):
        _lib.take_text(lib.paceline_env_names)
    assert freed == [None]


def test_only_signal_handlers_of_go_are_installed(process):
    """SIGINT keeps Python's handler. The Go runtime installs only the handlers that it needs."""
    process(
        """
import signal
def caught():
    line = next(l for l in open("/proc/self/status") if l.startswith("SigCgt"))
    return int(line.split()[1], 16)
before = caught()
from paceline.config import Config
Config().close()
new = caught() & ~before
allowed = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGPIPE, signal.SIGURG}
allowed = sum(1 << (s - 1) for s in allowed)
# Real-time signals 32-34 belong to the C library's threads.
assert new & ~(allowed | 0b111 << 31) == 0, hex(new)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    )


def test_a_closed_pipe_raises_broken_pipe_error(process):
    process(
        """
import os
from paceline.config import Config
Config().close()
r, w = os.pipe()
os.close(r)
try:
    os.write(w, b"x")
except BrokenPipeError:
    pass
else:
    raise AssertionError
"""
    )


def test_frequent_signals_disturb_no_call(process):
    process("storm.py")
    process("storm.py", options=())


def test_a_small_signal_stack_disables_amx_tiles(process):
    """AMX tiles need a signal stack of more than 8 KB. If a thread has less, the library multiplies
    without tiles.
    """
    with_tiles = process("small_stack.py", env={"PACELINE_ISA": "amx"}, check=False)
    if with_tiles.returncode:
        assert 'PACELINE_ISA: "amx", must be one of' in with_tiles.stderr
        pytest.skip("this machine has no AMX")
    weights, small = with_tiles.stdout.split()
    assert small == "False"
    assert process("small_stack.py", "small").stdout == process("small_stack.py", env={"PACELINE_ISA": "avx512bf16"}).stdout
    assert weights not in process("small_stack.py", "small").stdout
