"""The installed package: what is in it, and what the library shows and needs."""

import re
import shutil
import subprocess
import sys
from importlib import metadata

import pytest

from paceline import _ffi, _lib


@pytest.fixture(scope="module")
def library():
    return _lib.find()


def installed():
    try:
        files = metadata.files("paceline") or []
    except metadata.PackageNotFoundError:
        pytest.skip("the package is used from its sources")
    if not any(str(f).endswith("libpaceline.so") for f in files):
        pytest.skip("the package is installed in editable mode")
    return {str(f) for f in files}


def test_files():
    files = installed()
    for name in ("lib/libpaceline.so", "include/paceline.h", "py.typed", "dqn.py"):
        assert f"paceline/{name}" in files, name
    assert not [f for f in files if f.endswith((".go", ".c", "libpaceline.h"))]


def test_wheel_tag():
    installed()
    wheel = metadata.distribution("paceline").read_text("WHEEL")
    assert "Root-Is-Purelib: false" in wheel and re.search(r"^Tag: py3-none-linux_\w+$", wheel, re.M)


def test_directories_for_c_programs(process):
    installed()
    for option, name in (("--include-dir", "paceline.h"), ("--lib-dir", "libpaceline.so")):
        printed = subprocess.run([sys.executable, "-m", "paceline", option], capture_output=True, text=True, check=True).stdout
        assert (_lib.PACKAGE / printed.strip() / name).is_file()


def test_only_the_interface_is_visible(library):
    if not shutil.which("nm"):
        pytest.skip("no nm")
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in out.splitlines() if line.split()[-2] != "A"}
    assert set(_ffi.PROTOTYPES) <= names
    assert all(name.startswith("paceline_") for name in names), names


def test_only_the_c_library_is_needed(library):
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    out = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.+?)\]", out))
    assert {n.split(".")[0] for n in needed} <= {"libc", "libm", "libpthread", "libdl", "ld-linux-x86-64", "libresolv"}, needed
    assert "NODELETE" in out


def test_size(library):
    assert library.stat().st_size < 30e6
