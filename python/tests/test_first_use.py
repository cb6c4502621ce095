"""The cost of an import, and the registration in Gymnasium for either order of imports."""

import pytest

import paceline

HEAVY = {"numpy", "gymnasium", "matplotlib", "PIL", "ctypes", "paceline._lib", "paceline._ffi", "paceline.envs.vec"}


def test_importing_imports_nothing_and_starts_no_thread(process):
    code = f"""
import sys, paceline
assert not {HEAVY} & set(sys.modules), {HEAVY} & set(sys.modules)
assert "Threads:\\t1\\n" in open("/proc/self/status").read()
assert "libpaceline" not in open("/proc/self/maps").read()
dir(paceline), paceline.envs.registration.ATARI, paceline.linear(1, 0), paceline.PacelineError
assert not {HEAVY} & set(sys.modules), {HEAVY} & set(sys.modules)
"""
    process(code, options=())


def test_star_and_dir_list_every_public_name(process):
    process("from paceline import *; import paceline; assert all(globals()[name] is getattr(paceline, name) for name in paceline.__all__)")
    assert set(paceline.__all__) <= set(dir(paceline))


# ---------------------------------------------------------------- Gymnasium

CHECK = """
import inspect, sys, gymnasium.envs.registration as r
ours = {id for id in gymnasium.registry if id.startswith("paceline/")}
assert ours == {f"paceline/{name}" for name in paceline.envs.registration.CLASSIC} | {
    f"paceline/{game}-v0" for game in paceline.envs.registration.ATARI}, ours
# The import hook and its loader are removed.
assert not [finder for finder in sys.meta_path if "paceline" in getattr(finder, "__module__", "")]
assert type(r.__loader__) is type(r.__spec__.loader) is type(gymnasium.__loader__) and inspect.getsource(r)
gymnasium.register_envs(paceline)
envs = gymnasium.make_vec("paceline/CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
assert envs.reset(seed=1)[0].shape == (2, 4)
assert gymnasium.make("paceline/CartPole-v1").reset(seed=1)[0].shape == (4,)
"""


@pytest.mark.parametrize(
    "names", ["paceline, gymnasium", "gymnasium, paceline", "paceline, gymnasium.vector", "paceline, gymnasium.envs.registration"]
)
def test_ids_are_registered_for_either_import_order(process, names):
    process(f"import {names}\n{CHECK}", options=("-W", "error"))


@pytest.mark.parametrize("first", ["paceline", "gymnasium"])
def test_worker_processes_find_the_ids(process, first):
    process("spawned.py", first)


def test_paceline_works_without_gymnasium(process):
    process("""
import sys
sys.modules["gymnasium"] = None
import paceline
assert paceline.linear(1, 0) and "DQN" in dir(paceline)
try:
    import gymnasium
except ModuleNotFoundError:
    pass
""")


@pytest.fixture
def stand_in(tmp_path):
    """Returns a function that makes a module gymnasium whose registration has the given lines."""

    def make(lines):
        (tmp_path / "gymnasium/envs").mkdir(parents=True)
        (tmp_path / "gymnasium/__init__.py").write_text("from gymnasium.envs import registration")
        (tmp_path / "gymnasium/envs/__init__.py").touch()
        (tmp_path / "gymnasium/envs/registration.py").write_text(
            f"{lines}\nregistry = {{}}\ndef register(id, **keywords): registry[id] = keywords\n"
        )
        return f"import sys; sys.path.insert(0, {str(tmp_path)!r})"

    return make


def test_a_failed_import_is_repeated(process, stand_in):
    path = stand_in("import broken")
    process(f"""
{path}
import paceline
for attempt in range(2):
    try:
        import gymnasium
    except ModuleNotFoundError:
        sys.modules["broken"] = sys
import gymnasium
assert "paceline/Pong-v0" in gymnasium.registration.registry
""")


def test_gymnasium_may_be_importing_in_another_thread(process, stand_in):
    path = stand_in(
        "import threading, time; thread = threading.Thread(target=lambda: __import__('paceline')); thread.start(); time.sleep(0.3)"
    )
    process(f"""
{path}
import gymnasium
gymnasium.registration.thread.join()
assert "paceline/Pong-v0" in gymnasium.registration.registry
""")
