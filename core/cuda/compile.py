"""Compiles the CUDA kernels for every chip into one archive, without a GPU or the CUDA toolkit.

    python core/cuda/compile.py [--output core/cuda/kernels.zip] [--wheels folder] [--force]

The compiler is NVRTC 12.9 from NVIDIA's wheel. It is taken from the installed packages, from
build/cuda, or from the folder of --wheels; without any of them pip fetches the wheel to build/cuda.
The archive has machine code for the chips in ARCHS, PTX for newer chips, and digests of the source
text. A text with the same digest is not compiled again. The same text gives the same bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib.util
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "cuda"
WHEEL = "nvidia-cuda-nvrtc-cu12==12.9.86"
LIBRARY = "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_80")

# As in core/kernel: every operation is rounded separately, and denormals are flushed to zero.
# Divisions and square roots are correctly rounded, which is NVRTC's default.
OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=true")


def sources() -> dict[str, bytes]:
    """The kernels' source text by file name."""
    return {path.name: path.read_bytes() for path in sorted((HERE / "kernels").glob("*.cu*"))}


def digest_of(texts: dict[str, bytes]) -> str:
    """A digest of the source text, which the test of the archive also computes."""
    h = hashlib.sha256()
    for name, text in texts.items():
        h.update(f"\n{name} {len(text)}\n".encode())
        h.update(text)
    return h.hexdigest()


def digest(texts: dict[str, bytes]) -> str:
    """A digest of everything that the archive depends on."""
    return hashlib.sha256(repr((WHEEL, ARCHS, OPTIONS, digest_of(texts))).encode()).hexdigest()


def find_library(wheels: Path | None) -> Path:
    """Path of NVRTC's library; fetches the wheel if it is not found."""
    spec = importlib.util.find_spec("nvidia")
    installed = [Path(p).parent for p in spec.submodule_search_locations or ()] if spec else []
    for folder in [*installed, BUILD / "nvrtc"]:
        if (folder / LIBRARY).is_file():
            return folder / LIBRARY
    if wheels is None:
        wheels = BUILD / "wheels"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "download", "--no-deps", "--only-binary=:all:", "--dest", str(wheels), WHEEL], check=True)
    found = sorted(wheels.glob("nvidia_cuda_nvrtc_cu12-*.whl"))
    if not found:
        raise SystemExit(f"compile.py: {wheels} has no wheel of {WHEEL}")
    with zipfile.ZipFile(found[-1]) as wheel:
        for name in wheel.namelist():
            if name.startswith("nvidia/cuda_nvrtc/lib/"):
                wheel.extract(name, BUILD / "nvrtc")
    return BUILD / "nvrtc" / LIBRARY


class Compiler:
    """NVRTC. Several threads may use a Compiler at the same time."""

    def __init__(self, library: Path) -> None:
        self.lib = ctypes.CDLL(str(library))
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    def must(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(self.lib.nvrtcGetErrorString(code).decode())

    def text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self.must(getattr(self.lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self.must(getattr(self.lib, f"nvrtcGet{what}")(program, text))
        return text.raw[: size.value]

    def compile(self, arch: str, texts: dict[str, bytes]) -> bytes:
        """Machine code for sm_..., PTX for compute_..."""
        main = b"".join(b'#include "%s"\n' % name.encode() for name in texts if name.endswith(".cu"))
        program = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(texts))(*[name.encode() for name in texts])
        headers = (ctypes.c_char_p * len(texts))(*texts.values())
        self.must(self.lib.nvrtcCreateProgram(ctypes.byref(program), main, b"kernels.cu", len(texts), headers, names))
        try:
            options = [f"--gpu-architecture={arch}".encode(), *(o.encode() for o in OPTIONS)]
            code = self.lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
            log = self.text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            if code != 0 or log:
                raise SystemExit(f"compile.py: {arch}:\n{log}")
            return self.text(program, "CUBIN" if arch.startswith("sm_") else "PTX")
        finally:
            self.lib.nvrtcDestroyProgram(ctypes.byref(program))


def up_to_date(archive: Path, wanted: str) -> bool:
    try:
        with zipfile.ZipFile(archive) as z:
            return z.read("digest").decode() == wanted
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def write(archive: Path, entries: dict[str, bytes]) -> None:
    """Writes the archive. The same entries give the same bytes: dates and modes are fixed."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    new = archive.with_suffix(".new")
    with zipfile.ZipFile(new, "w") as z:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            z.writestr(entry, content, compresslevel=9)
    new.replace(archive)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the CUDA kernels for every chip.")
    parser.add_argument("--output", type=Path, default=HERE / "kernels.zip")
    parser.add_argument("--wheels", type=Path, help="a folder with NVIDIA's wheel; default: pip fetches it")
    parser.add_argument("--force", action="store_true", help="compile even if the archive is up to date")
    args = parser.parse_args()
    texts = sources()
    wanted = digest(texts)
    if not args.force and up_to_date(args.output, wanted):
        return
    began = time.monotonic()
    compiler = Compiler(find_library(args.wheels))
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda arch: compiler.compile(arch, texts), ARCHS))
    entries = {arch + (".cubin" if arch.startswith("sm_") else ".ptx"): code for arch, code in zip(ARCHS, made, strict=True)}
    write(args.output, {"digest": wanted.encode(), "sources": digest_of(texts).encode(), **entries})
    sizes = ", ".join(f"{name} {len(code) >> 10}" for name, code in entries.items())
    took = time.monotonic() - began
    print(f"{args.output}: {args.output.stat().st_size >> 10} KB in {took:.0f} s ({sizes} KB)")


if __name__ == "__main__":
    main()
