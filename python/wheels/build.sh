#!/bin/sh
# Builds the wheels that are shipped, one for each architecture, and checks them.
#
#     python/wheels/build.sh python folder [x86_64 | aarch64 ...]
#     python/wheels/build.sh --check [x86_64 | aarch64 ...]
#
# Without an architecture it is this machine's. What is needed is looked for before anything
# is built; --check does that alone. python: one that has what requirements.txt lists. gcc compiles, the cross compiler
# for the other architecture, so that the code is that of `pip install .`, and links
# against the functions that glibc $GLIBC had (stubs.sh): the wheels run wherever that
# version or a newer one is. zig's own compiler, clang, gives the same results, but an
# Atari machine that takes 1.4 to 2 times as long. The libraries stay in
# build/wheels/<architecture>.
#
# What is in a wheel does not depend on where and when it was built: two clones give
# the same bytes. Files have the date of SOURCE_DATE_EPOCH, or 1980-01-01.
set -eu
GLIBC=2.17
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "python/wheels/build.sh: $*" >&2; exit 1; }
only_check=
if [ "${1:-}" = --check ]; then
  only_check=1 && shift
else
  [ $# -ge 2 ] || fail "a python and a folder are needed"
  case $1 in /*) python=$1 ;; *) python=$PWD/$1 ;; esac
  folder=$2
  shift 2
fi
[ $# -gt 0 ] || set -- "$(uname -m)"
compiler_of() { [ "$1" = "$(uname -m)" ] && echo gcc || echo "$1-linux-gnu-gcc"; }
command -v "${GO:-go}" >/dev/null || fail "no go command found: install Go"
for arch; do
  case $arch in
  x86_64) cross='gcc-x86-64-linux-gnu libc6-dev-amd64-cross' ;;
  aarch64) cross='gcc-aarch64-linux-gnu libc6-dev-arm64-cross' ;;
  *) fail "the architecture is '$arch', must be x86_64 or aarch64" ;;
  esac
  compiler=$(compiler_of "$arch")
  [ "$compiler" != gcc ] || cross=gcc
  echo '#include <stdlib.h>' | "$compiler" -fsyntax-only -x c - 2>/dev/null ||
    fail "$compiler, which compiles for $arch, is missing or has no C library (Debian: apt-get install $cross)"
done
[ -z "$only_check" ] || exit 0
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

umask 022
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-315532800}"
# Whatever go would take from its environment and what changes the library.
unset GOFLAGS GOEXPERIMENT CGO_CFLAGS CGO_CPPFLAGS CGO_LDFLAGS
export CGO_ENABLED=1 GOOS=linux GOAMD64=v1 GOARM64=v8.0

cd "$root"
# A wheel records the files' modes, which were the umask's of whoever cloned.
find python/paceline include examples/python LICENSE THIRD_PARTY_LICENSES -type f -exec chmod 644 {} +
for arch; do
  [ "$arch" = x86_64 ] && GOARCH=amd64 || GOARCH=arm64
  export GOARCH
  compiler=$(compiler_of "$arch")
  built=$root/build/wheels/$arch
  rm -rf "$built" "$root"/build/lib* "$root"/build/bdist.* "$folder"/paceline-*_"$arch.whl"
  python/wheels/stubs.sh "$python" "$arch-linux-gnu.$GLIBC" "$built/stubs"
  # A function that the old library lacks ends the build, instead of a host's.
  CC="$compiler '-L$built/stubs' -Wl,-z,defs" capi/build.sh "$built"
  PACELINE_LIBRARY=$(echo "$built"/libpaceline.so.*) "$python" -m build --no-isolation --wheel --outdir "$folder" \
    "-C--build-option=--plat-name=manylinux_$(echo $GLIBC | tr . _)_$arch" . >"$built/log" 2>&1 || { cat "$built/log" >&2; exit 1; }
done
rm -rf "$root"/build/lib* "$root"/build/bdist.*
for arch; do
  "$python" python/wheels/check.py "$folder"/paceline-*-py3-none-manylinux_*_"$arch.whl"
done
