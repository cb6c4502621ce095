"""Public modules and names, import cycles, and the first load of the library."""

import importlib
import os

import pytest

# Public modules and the names in them that scripts import.
PUBLIC = {
    "a2c": "A2C Hashes settings",
    "a3c": "A3C Hashes settings",
    "appo": "APPO Hashes settings",
    "ga3c": "GA3C Hashes settings",
    "gorila": "Gorila",
    "atari": "ALEInterface ALEState Action LoggerMode SDL_SUPPORT roms",
    "bench": "add_commands run",
    "bench.envs": "Contender main measure ratios",
    "bench.ffi": "main measure text",
    "bench.gorila": "main text write_csv",
    "bench.laboratory": "asynchronous ga3c latency tuner",
    "bench.update": "Torch main measure text",
    "callbacks": "BaseCallback CallbackList CheckpointCallback EvalCallback StopTrainingOnRewardThreshold",
    "cli": "main",
    "compat": "",
    "compat.atari": "ALEInterface roms",
    "compat.envpool": "EnvPool EnvSpec list_all_envs make make_dm make_gym make_gymnasium make_spec",
    "compat.sb3": "VecEnv",
    "config": "Config Setting describe encode_options methods",
    "curve": "LearningCurve",
    "distributed": "Distributed attach load start stop",
    "dqn": "DQN Hashes settings",
    "envpool": "EnvPool EnvSpec list_all_envs make make_dm make_gym make_gymnasium make_spec",
    "envs": "",
    "envs.registration": "ATARI CLASSIC register spec",
    "envs.single": "Env make",
    "envs.vec": "VecEnv library_name load_env make_vec names",
    "envs.vec_env": "VecEnv",
    "envs.workers": "WorkerVecEnv make",
    "errors": "ConfigError PacelineError PacelineWarning TimeOutError",
    "learning": "Loop",
    "logger": "Logger make_logger",
    "parameters": "Parameters",
    "plots": "save_cluster save_curves save_trace",
    "policy": "Evaluation Policy",
    "ppo": "Hashes PPO settings",
    "pqn": "Hashes PQN settings",
    "qrdqn": "QRDQN",
    "progress": "ProgressLine",
    "sb3": "VecEnv",
    "schedules": "Linear Schedule linear points",
    "scores": "Published normalised published",
    "spaces": "ActionLayout ObsLayout",
    "store": "Answer Gradient Key Ledger Store shard_ranges",
    "starts": "Player Recording Start StartStates read read_actions record write write_actions",
    "videos": "Recording record save_gif",
}


def test_the_library_is_loaded_by_the_first_call(process):
    process(
        """
import paceline
paceline.DQN, paceline.Policy, paceline.linear
assert "libpaceline" not in open("/proc/self/maps").read()
assert "Threads:\\t1\\n" in open("/proc/self/status").read()
from paceline.config import Config
Config().close()
assert "libpaceline" in open("/proc/self/maps").read()
""",
        # NumPy starts threads, too
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_public_modules_have_their_names(name):
    if name.endswith("sb3"):
        pytest.importorskip("stable_baselines3")
    module = importlib.import_module(f"paceline.{name}")
    for public in PUBLIC[name].split():
        assert hasattr(module, public), public
    assert module.__doc__


def test_every_public_module_is_listed():
    import pkgutil

    import paceline

    found = {m.name.removeprefix("paceline.") for m in pkgutil.walk_packages(paceline.__path__, "paceline.", onerror=lambda name: None)}
    assert {name for name in found if not any(part.startswith("_") for part in name.split("."))} - {"lib", "include"} == set(PUBLIC)


def test_imports_have_no_cycle():
    """Only imports at import time count, not imports inside functions."""
    import ast
    from pathlib import Path

    import paceline

    root = Path(paceline.__file__).parent
    files = {".".join(f.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): f for f in root.rglob("*.py")}
    imports = {}
    for name, file in files.items():
        package = name.split(".") if file.name == "__init__.py" and name != "__init__" else name.split(".")[:-1]
        found = imports[name] = set()
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = package[: len(package) + 1 - node.level] + (node.module or "").split(".")
                module = ".".join(part for part in base if part)
                found |= {m for m in (module, *(f"{module}.{a.name}".lstrip(".") for a in node.names)) if m in files} - {name}
    # some imports were found
    assert imports["dqn"] >= {"_trainer", "config", "errors"} and imports["envs.vec"] >= {"_lib", "envs.registration"}
    done = set()
    while free := {name for name in imports if name not in done and imports[name] <= done}:
        done |= free
    assert done == set(imports), {name: imports[name] - done for name in set(imports) - done}


def test_public_names_are_listed():
    import paceline

    names = """A2C A3C APPO DQN Evaluation GA3C Gorila PPO PQN QRDQN PacelineError PacelineWarning
        Policy Store __version__ linear load_env make make_vec shard_ranges"""
    assert set(names.split()) == set(paceline.__all__)
    for name in paceline.__all__:
        assert getattr(paceline, name)
    for name in ("bench", "callbacks", "envpool", "errors", "plots", "schedules", "videos"):
        assert getattr(paceline, name).__name__ == f"paceline.{name}"
    assert paceline.make_vec is importlib.import_module("paceline.envs.vec").make_vec
    for name in ("single", "workers"):
        assert getattr(paceline, name) is importlib.import_module(f"paceline.envs.{name}")


def test_unknown_names_raise_attribute_error():
    import paceline

    try:
        _ = paceline.nothing
    except AttributeError as err:
        assert "nothing" in str(err)
    else:
        raise AssertionError
    assert "DQN" in dir(paceline)


def test_a_missing_library_gives_its_path(process):
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": "/nowhere/libpaceline.so"})
    assert "PacelineError: libpaceline was not found: tried /nowhere/libpaceline.so" in done.stderr


def test_another_library_is_refused(process, compile_c):
    other = compile_c("int other(void) { return 1; }", "libother.so", "-shared", "-fPIC")
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": str(other)})
    assert "is not libpaceline" in done.stderr


def test_an_older_library_is_refused(process, compile_c):
    """It has the same interface version, and lacks a function that was added later."""
    text = "int paceline_abi_version(void) { return 2; }"
    other = compile_c(text, "libolder.so", "-shared", "-fPIC")
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": str(other)})
    assert "VersionError" in done.stderr and "is older than this package: it has no paceline_" in done.stderr


def test_another_interface_version_is_refused(process, compile_c):
    other = compile_c("int paceline_abi_version(void) { return 99; }", "libold.so", "-shared", "-fPIC")
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": str(other)})
    assert "VersionError" in done.stderr and "interface version 99" in done.stderr


def test_an_empty_ale_py_module_is_ignored(process):
    process("import sys, types; sys.modules['ale_py'] = types.ModuleType('ale_py'); from paceline.config import Config; Config()")


def test_an_ale_py_under_a_path_that_is_not_utf8_is_ignored(process, tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.makedirs(folder + b"/ale_py/roms")
    with open(folder + b"/ale_py/__init__.py", "wb"):
        pass
    process(f"import sys; sys.path.insert(0, {os.fsdecode(folder)!r}); from paceline.config import Config; Config()")
