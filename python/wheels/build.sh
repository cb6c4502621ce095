#!/bin/sh
# Builds the wheels that are shipped, one for each architecture, and checks them.
#
#     python/wheels/build.sh python folder [x86_64 | aarch64 ...]
#
# python: one that has what requirements.txt lists. The C compiler is zig's, which
# links against the functions that glibc $GLIBC had, for either architecture: the
# wheels run wherever that glibc or a newer one is. The library stays in
# build/wheels/<architecture>.
#
# What is in a wheel does not depend on where and when it was built: two clones give
# the same bytes. Files have the date of SOURCE_DATE_EPOCH, or 1980-01-01.
set -eu
GLIBC=2.17
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 2 ] || { echo "python/wheels/build.sh: a python and a folder are needed" >&2; exit 2; }
case $1 in /*) python=$1 ;; *) python=$PWD/$1 ;; esac
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- x86_64 aarch64
command -v "${GO:-go}" >/dev/null || { echo "paceline: no go command found: install Go" >&2; exit 1; }

umask 022
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-315532800}"
# What go would read from its environment and what changes the library.
unset GOFLAGS GOEXPERIMENT CGO_CFLAGS CGO_CPPFLAGS CGO_LDFLAGS
export CGO_ENABLED=1 GOOS=linux GOAMD64=v1 GOARM64=v8.0

cd "$root"
for arch; do
  case $arch in
    x86_64) export GOARCH=amd64 ;;
    aarch64) export GOARCH=arm64 ;;
    *) echo "python/wheels/build.sh: x86_64 or aarch64, not '$arch'" >&2; exit 2 ;;
  esac
  built=$root/build/wheels/$arch
  rm -rf "$root/build/lib" "$root"/build/bdist.* "$built"
  CC="'$python' -m ziglang cc -target $arch-linux-gnu.$GLIBC" capi/build.sh "$built"
  wheel=$(echo "$folder"/paceline-*-py3-none-manylinux_*_"$arch.whl")
  [ ! -e "$wheel" ] || rm "$wheel"
  PACELINE_LIBRARY=$(echo "$built"/libpaceline.so.*) "$python" -m build --no-isolation --wheel --outdir "$folder" \
    "-C--build-option=--plat-name=manylinux_$(echo $GLIBC | tr . _)_$arch" . >"$built/log" 2>&1 || { cat "$built/log" >&2; exit 1; }
done
rm -rf "$root/build/lib" "$root"/build/bdist.*
"$python" python/wheels/check.py "$folder"/paceline-*-py3-none-manylinux_*.whl
