"""The installed package: its files, and the library's symbols and dependencies."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from paceline import _ffi, _lib

LIBRARY = f"paceline/lib/libpaceline.so.{_ffi.ABI_VERSION}"
FOR_LINKERS = {
    "paceline/lib/pkgconfig/paceline.pc",
    "paceline/lib/cmake/paceline/paceline-config.cmake",
    "paceline/lib/cmake/paceline/paceline-config-version.cmake",
}
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def library():
    return _lib.find()


def installed():
    try:
        files = metadata.files("paceline") or []
    except metadata.PackageNotFoundError:
        pytest.skip("the package is used from its sources")
    if not any(str(f).endswith(LIBRARY) for f in files):
        pytest.skip("the package is installed in editable mode")
    return {str(f) for f in files}


def test_the_wheel_has_the_files_of_the_checkout():
    """The wheel has the files of the checkout, the library and its headers, and nothing else."""
    files = {f for f in installed() if "__pycache__" not in f and not f.startswith(("paceline-", ".."))}
    package = CHECKOUT / "python" / "paceline"
    if not package.is_dir():
        pytest.skip("no checkout around the tests")
    made = {"lib", "include", "__pycache__"}  # build results of an editable installation
    want = {f.relative_to(package.parent): f for f in package.rglob("*") if f.is_file() and made.isdisjoint(f.relative_to(package).parts)}
    want |= {Path("paceline/include", f.name): f for f in (CHECKOUT / "include").glob("*.h*")}
    assert files == {str(f) for f in want} | {LIBRARY} | FOR_LINKERS
    for name, source in want.items():
        assert (_lib.PACKAGE.parent / name).read_bytes() == source.read_bytes(), f"{name}: the installed file differs"


def test_wheel_tag_names_the_platform():
    installed()
    wheel = metadata.distribution("paceline").read_text("WHEEL")
    assert "Root-Is-Purelib: false" in wheel and re.search(r"^Tag: py3-none-(linux|manylinux_2_17)_\w+$", wheel, re.M)


def printed(*options):
    return subprocess.run([sys.executable, "-m", "paceline", *options], capture_output=True, text=True, check=True).stdout.strip()


def test_options_print_the_directories_for_c_programs(process):
    installed()
    for option, name in (("--include-dir", "paceline.h"), ("--lib-dir", Path(LIBRARY).name), ("--cmake-dir", "paceline-config.cmake")):
        assert Path(printed(option), name).is_file()


def test_a_c_program_links_with_the_wheel(tmp_path):
    installed()
    if not shutil.which("cc") or not (CHECKOUT / "examples").is_dir():
        pytest.skip("no C compiler, or no checkout around the tests")
    flags = shlex.split(printed("--cflags", "--libs"))
    subprocess.run(["cc", "-std=c11", CHECKOUT / "examples/c/hello.c", *flags, "-o", tmp_path / "hello"], check=True)
    (tmp_path / "elsewhere").mkdir()
    out = subprocess.run([tmp_path / "hello"], cwd=tmp_path / "elsewhere", env={}, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr


def test_a_cmake_project_finds_the_wheel(tmp_path):
    installed()
    examples = CHECKOUT / "examples" / "cpp"
    if not shutil.which("cmake") or not shutil.which("c++") or not examples.is_dir():
        pytest.skip("no cmake or C++ compiler, or no checkout around the tests")
    for name in ("CMakeLists.txt", "custom_env.cpp"):
        shutil.copy(examples / name, tmp_path)
    build = tmp_path / "build"
    for arguments in (["-S", tmp_path, "-B", build, f"-Dpaceline_DIR={printed('--cmake-dir')}"], ["--build", build]):
        subprocess.run(["cmake", *arguments], check=True, capture_output=True)
    out = subprocess.run([build / "custom_env"], cwd="/", env={}, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr


def test_licences_of_linked_modules_are_included():
    installed()
    text = metadata.distribution("paceline").read_text("licenses/THIRD_PARTY_LICENSES")
    assert text and all(module in text for module in ("gorgonia.org/gorgonia", "google.golang.org/protobuf", "Go: LICENSE"))


def test_only_interface_symbols_are_exported(library):
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


def test_the_library_is_smaller_than_30_mb(library):
    assert library.stat().st_size < 30e6
