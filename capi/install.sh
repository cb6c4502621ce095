#!/bin/sh
# Installs a built library below a prefix, or removes it.
#
#     capi/install.sh install folder prefix [libdir]     folder: from capi/build.sh
#     capi/install.sh remove prefix [libdir]
#     capi/install.sh describe prefix                    only the files of pkg-config and CMake
#
# Installed are include/paceline.h and paceline.hpp, the licences in share/doc/paceline/, and in
# libdir (default: lib) libpaceline.so.N, the link to it, pkgconfig/paceline.pc and
# cmake/paceline/. The files refer to each other by relative paths: they may be moved together.
# libdir: a folder below the prefix, such as lib64 or lib/x86_64-linux-gnu.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
header=$root/include/paceline.h
abi=$(sed -n 's/^#define PACELINE_ABI_VERSION \([0-9]*\)$/\1/p' "$header")
version=$(sed -n 's/^#define PACELINE_VERSION "\(.*\)"$/\1/p' "$header")
minor=${version#*.}

fail() { echo "make install: $1" >&2; exit 1; }
check_libdir() {
  case "/$1/" in //* | */../* | */./* | *//*) fail "LIBDIR: '$1', must be a folder below PREFIX, such as lib64, without . and .." ;; esac
  lib=$1
}
describe() { # prefix, the linker's argument
  up=$(echo "$lib/" | sed 's|[^/]*/|../|g; s|/$||')
  mkdir -p "$1/$lib/pkgconfig" "$1/$lib/cmake/paceline"
  for to in pkgconfig/paceline.pc cmake/paceline/paceline-config.cmake cmake/paceline/paceline-config-version.cmake; do
    sed -e "s/@ABI@/$abi/g; s/@VERSION@/$version/g; s/@MAJOR@/${version%%.*}/g; s/@MINOR@/${minor%%.*}/g; s|@LIB@|$lib|g; s|@UP@|$up|g; s|@LINK@|$2|g" \
      "$root/capi/package/${to##*/}" >"$1/$lib/$to"
    chmod 644 "$1/$lib/$to"
  done
}

action=${1:-}
case $action in
  install)
    check_libdir "${4:-lib}"
    mkdir -p "$3/$lib" "$3/include" "$3/share/doc/paceline"
    install -m 755 "$2/libpaceline.so.$abi" "$3/$lib/"
    ln -sf "libpaceline.so.$abi" "$3/$lib/libpaceline.so"
    install -m 644 "$root"/include/paceline.h "$root"/include/paceline.hpp "$3/include/"
    install -m 644 "$root/LICENSE" "$root/THIRD_PARTY_LICENSES" "$3/share/doc/paceline/"
    describe "$3" -lpaceline
    ;;
  remove)
    check_libdir "${3:-lib}"
    rm -f "$2/$lib/libpaceline.so.$abi" "$2/$lib/libpaceline.so" "$2/include/paceline.h" "$2/include/paceline.hpp" "$2/$lib/pkgconfig/paceline.pc"
    rm -rf "$2/$lib/cmake/paceline" "$2/share/doc/paceline"
    ;;
  describe) lib=lib && describe "$2" "-l:libpaceline.so.$abi" ;; # a wheel has no link
  *)
    echo "capi/install.sh: install, remove or describe, not '$action'" >&2
    exit 2
    ;;
esac
