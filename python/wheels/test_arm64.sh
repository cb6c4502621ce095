#!/bin/sh
# Tests the arm64 wheel under an emulator: C programs and smoke.py.
#
#     python/wheels/test_arm64.sh python folder wheel
#
# python: this machine's own, with pip; folder: where Debian's arm64 Python and C library are unpacked.
# Left out, as it would take hours or measure the emulator: the other C programs and
# the rest of python/tests. The Go tests of core/ have make test-arm64.
set -eu
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
python=$1 folder=$2 wheel=$3
[ -f "$wheel" ] || { echo "python/wheels/test_arm64.sh: the wheel '$wheel' is not there: make wheel" >&2; exit 1; }
command -v qemu-aarch64 >/dev/null || { echo "paceline: no qemu-aarch64 was found (Debian: apt-get install qemu-user)" >&2; exit 1; }
"$here/debian_arm64.sh" "$folder/arm64"
sysroot=$(cd "$folder/arm64" && pwd)
run() { qemu-aarch64 -L "$sysroot" -E GODEBUG=asyncpreemptoff=1 "$@"; }
version=$(run "$sysroot/usr/bin/python3" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# pip here unpacks what an arm64 machine with this Python would install.
site=$folder/arm64-site
rm -rf "$site"
platforms=$(for glibc in 2_17 2_24 2_26 2_27 2_28; do echo "--platform manylinux_${glibc}_aarch64"; done)
"$python" -m pip --disable-pip-version-check --quiet install --target "$site" --python-version "$version" --implementation cp \
  $platforms --platform manylinux2014_aarch64 --only-binary :all: "$wheel"
library=$(cd "$site/paceline/lib" && pwd)

ln -sf "$(basename "$library"/libpaceline.so.*)" "$library/libpaceline.so" # for -lpaceline
"$root/capi/ctest/arm64.sh" "$library" "$sysroot"
rm -r "$library/ctest" "$library/libpaceline.so"
run -E PYTHONPATH="$site" -E PYTHONDONTWRITEBYTECODE=1 "$sysroot/usr/bin/python3" "$here/smoke.py" "$site"
