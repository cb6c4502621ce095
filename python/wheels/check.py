"""Checks the wheels of a release and prints their properties.

    python python/wheels/check.py wheel ...

The name must be valid for any Python 3. auditwheel must find the platform in the name. The library
may need only the C library, and no newer glibc than the platform's. The licences must be included.
The size must be below PyPI's usual limit.
"""

import hashlib
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

LIMIT = 20_000_000  # bytes
C_LIBRARY = {"libc", "libm", "libpthread", "libdl", "libresolv", "ld-linux-x86-64", "ld-linux-aarch64"}


def problems(wheel: Path) -> list[str]:
    found = []
    name = re.fullmatch(r"paceline-[\w.]+-py3-none-(manylinux_(\d+)_(\d+)_(x86_64|aarch64))\.whl", wheel.name)
    if not name:
        return ["its name is not paceline-<version>-py3-none-manylinux_<glibc>_<architecture>.whl"]
    tag, floor = name[1], (int(name[2]), int(name[3]))

    with zipfile.ZipFile(wheel) as files:
        contents = {i.filename: files.read(i) for i in files.infolist()}
    metadata = {Path(n).name: text.decode() for n, text in contents.items() if ".dist-info/" in n}
    for line in ("Root-Is-Purelib: false", f"Tag: py3-none-{tag}"):
        if line not in metadata["WHEEL"].splitlines():
            found.append(f"its WHEEL has no line {line!r}")
    for licence in ("LICENSE", "THIRD_PARTY_LICENSES"):
        if not metadata.get(licence):
            found.append(f"it has no {licence}")
    if wheel.stat().st_size > LIMIT:
        found.append(f"it has {wheel.stat().st_size} bytes, and may have {LIMIT}")

    library = next(text for n, text in contents.items() if "/lib/libpaceline.so." in n)
    elf = ELFFile(io.BytesIO(library))
    needed = {t.needed for t in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
    if beyond := sorted(n for n in needed if n.split(".")[0] not in C_LIBRARY):
        found.append(f"a library beyond the C library is needed: {beyond}")
    versions = [v.name for _, names in elf.get_section_by_name(".gnu.version_r").iter_versions() for v in names]
    highest = max(tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions if re.fullmatch(r"GLIBC_[\d.]+", v))
    if highest > floor:
        found.append(f"it needs GLIBC_{'.'.join(map(str, highest))}, newer than its name says")

    audit = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    says = re.search(r"following\s+platform\s+tag:\s+\"(\w+)\"", audit.stdout)
    if not says or says[1] != tag:
        found.append(f"auditwheel does not say that it is {tag}: {audit.stdout.strip() or audit.stderr.strip()}")

    print(wheel.name)
    print(f"  sha256 {hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    print(f"  {wheel.stat().st_size:,} bytes, {len(contents)} files, the library {len(library):,} bytes")
    print(f"  highest symbol version: GLIBC_{'.'.join(map(str, highest))}; auditwheel: {says[1] if says else 'none'}")
    return found


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("python/wheels/check.py: no wheel named")
    sys.exit("\n".join(f"{Path(w).name}: {p}" for w in sys.argv[1:] for p in problems(Path(w))) or 0)
