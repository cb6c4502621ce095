"""Builds libpaceline with Go and puts the library and its C headers into the package.

PACELINE_LIBRARY=/path/to/libpaceline.so uses an existing library. GPU=1 builds with CUDA;
core/cuda/go.sh fetches NVIDIA's headers and compiler from PyPI. GPU=0 builds without CUDA. If GPU
is not set, the build has CUDA if these were fetched before.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
ABI = re.search(r"^#define PACELINE_ABI_VERSION (\d+)$", (ROOT / "include" / "paceline.h").read_text(), re.M)[1]


def run(*args: str) -> str:
    environment = {"GPU": "auto", "PYTHON": sys.executable} | os.environ
    done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"paceline: {' '.join(args[:2])} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def check_tools() -> None:
    need = re.search(r"^go (\d+)\.(\d+)", (ROOT / "go.mod").read_text(), re.M)
    version = ".".join(need.groups())
    if not shutil.which("go"):
        raise SystemExit(f"paceline: no go command found: install Go {version} or newer, or set PACELINE_LIBRARY")
    have = re.search(r"go(\d+)\.(\d+)", run("go", "version"))
    if have and tuple(map(int, have.groups())) < tuple(map(int, need.groups())):
        raise SystemExit(f"paceline: Go {'.'.join(have.groups())} is too old: version {version} or newer is needed")
    if (system := os.environ.get("GOOS", "linux")) != "linux":
        raise SystemExit(f"paceline: GOOS: {system!r}, must be 'linux' or not set")
    if os.environ.get("CGO_ENABLED") == "0":
        raise SystemExit("paceline: CGO_ENABLED is 0, but the library needs cgo: unset it")
    compiler = (run("go", "env", "CC").split() or ["cc"])[0]
    if not shutil.which(compiler):
        raise SystemExit(f"paceline: the C compiler {compiler!r} was not found: install one, or set CC")


def copy_for_c(package: Path) -> None:
    """Copies the other files that C and C++ programs need, as `make install` does."""
    (package / "include").mkdir(exist_ok=True)
    for header in (ROOT / "include").glob("*.h*"):
        shutil.copy2(header, package / "include")
    run("sh", "capi/install.sh", "describe", str(package))


class BuildGo(build_ext):
    def get_ext_filename(self, fullname):
        # The file has the SONAME, because linked programs load that name and a wheel cannot contain
        # links.
        return fullname.replace(".", os.sep) + ".so." + ABI

    def build_extension(self, ext):
        out = Path(self.get_ext_fullpath(ext.name)).resolve()
        out.parent.mkdir(parents=True, exist_ok=True)
        copy_for_c(out.parents[1])
        if prebuilt := os.environ.get("PACELINE_LIBRARY"):
            if not Path(prebuilt).is_file():
                raise SystemExit(f"paceline: PACELINE_LIBRARY: {prebuilt!r}, must be the file of a library")
            shutil.copy2(prebuilt, out)
            return
        check_tools()
        with tempfile.TemporaryDirectory() as folder:
            run("sh", "capi/build.sh", folder)
            shutil.copy2(Path(folder, out.name), out)

    def copy_extensions_to_source(self):  # pip install -e, build_ext --inplace
        package = ROOT / "python" / "paceline"
        (package / "lib").mkdir(exist_ok=True)
        super().copy_extensions_to_source()
        copy_for_c(package)


class AnyPython(bdist_wheel):
    """Makes one wheel for every Python 3 on this platform, because ctypes loads the library."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(
    ext_modules=[Extension("paceline.lib.libpaceline", sources=[])],
    cmdclass={"build_ext": BuildGo, "bdist_wheel": AnyPython},
)
