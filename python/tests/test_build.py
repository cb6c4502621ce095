"""Builds of the source distribution: the messages about missing requirements."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]
NEEDED = ("sh", "sed", "mkdir", "chmod", "dirname")  # programs that capi/install.sh needs


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The source distribution, built and unpacked in a temporary folder."""
    pytest.importorskip("setuptools", "77")
    if not (CHECKOUT / "setup.py").is_file() or not (CHECKOUT / ".git").exists():
        pytest.skip("no checkout around the tests")
    made = tmp_path_factory.mktemp("made")
    # Build from a copy, because setuptools leaves files next to setup.py.
    tree = made / "tree"
    wanted = ("capi", "core", "examples", "include", "python")
    for name in wanted:
        shutil.copytree(CHECKOUT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so*", "*.egg-info", "testdata"))
    for file in CHECKOUT.iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy2(file, tree)
    subprocess.run([sys.executable, "setup.py", "-q", "sdist", "-d", made], cwd=tree, check=True, capture_output=True)
    with tarfile.open(next(made.glob("*.tar.gz"))) as archive:
        archive.extractall(made / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next((made / "unpacked").iterdir())


def build(unpacked, tmp_path, tools, **env):
    """Returns the error of a build that finds only NEEDED and tools on PATH."""
    path = tmp_path / "bin"
    path.mkdir(parents=True)
    for tool in (*NEEDED, *tools):
        (path / tool).symlink_to(shutil.which(tool) or pytest.skip(f"no {tool}"))
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "GOCACHE", "GOFLAGS", "GOTOOLCHAIN")}
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", tmp_path / "build", "build_ext"]
    done = subprocess.run(command, cwd=unpacked, env={**kept, "PATH": str(path), **env}, capture_output=True, text=True)
    assert done.returncode and "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_a_build_without_go_says_so(unpacked, tmp_path):
    said = build(unpacked, tmp_path, [])
    assert said.startswith("paceline: no go command found: install Go 1.") and said.endswith("or newer, or set PACELINE_LIBRARY")


def test_a_build_without_a_c_compiler_says_so(unpacked, tmp_path):
    said = build(unpacked, tmp_path, ["go"], CC="paceline-cc")
    assert said == "paceline: the C compiler 'paceline-cc' was not found: install one, or set CC"
    said = build(unpacked, tmp_path / "build", ["go"])
    assert said.startswith(("paceline: the C compiler 'gcc' was not found", "paceline: the C compiler 'cc' was not found"))


def test_settings_that_prevent_a_library_are_refused(unpacked, tmp_path):
    assert build(unpacked, tmp_path, ["go"], GOOS="windows") == "paceline: GOOS: 'windows', must be 'linux' or not set"
    said = build(unpacked, tmp_path / "build", ["go"], CGO_ENABLED="0")
    assert said == "paceline: CGO_ENABLED is 0, but the library needs cgo: unset it"


def test_a_missing_library_is_refused(unpacked, tmp_path):
    said = build(unpacked, tmp_path, [], PACELINE_LIBRARY="/nowhere/libpaceline.so")
    assert said == "paceline: PACELINE_LIBRARY: '/nowhere/libpaceline.so', must be the file of a library"


def test_wheels_are_not_built_without_every_compiler(tmp_path):
    script = CHECKOUT / "python" / "wheels" / "build.sh"
    if not script.is_file():
        pytest.skip("no checkout around the tests")
    path = tmp_path / "bin"
    path.mkdir()
    for tool in ("sh", "dirname", "uname", "gcc", "go"):
        (path / tool).symlink_to(shutil.which(tool) or pytest.skip(f"no {tool}"))
    other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"

    def build(*architectures):
        command = ["sh", script, sys.executable, tmp_path / "dist", *architectures]
        return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, timeout=60)

    done = build(os.uname().machine, other)
    assert done.returncode == 1 and not done.stdout
    assert f"{other}-linux-gnu-gcc, which compiles for {other}, is missing" in done.stderr and "apt-get install" in done.stderr
    assert "'riscv64', must be x86_64 or aarch64" in build("riscv64").stderr
    assert not (tmp_path / "dist").exists()
