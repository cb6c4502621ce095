#!/bin/sh
# Puts a built library where programs look for it, or takes it away again.
#
#     capi/install.sh install folder prefix     folder: from capi/build.sh
#     capi/install.sh remove prefix
#     capi/install.sh describe prefix           pkg-config's and CMake's files alone
#
# Below the prefix: lib/libpaceline.so.N and the link to it, include/paceline.h and
# paceline.hpp, lib/pkgconfig/paceline.pc, lib/cmake/paceline/, and the licences in
# share/doc/paceline/. All of it may be moved together.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
header=$root/include/paceline.h
abi=$(sed -n 's/^#define PACELINE_ABI_VERSION \([0-9]*\)$/\1/p' "$header")
version=$(sed -n 's/^#define PACELINE_VERSION "\(.*\)"$/\1/p' "$header")
minor=${version#*.}

describe() { # prefix
  mkdir -p "$1/lib/pkgconfig" "$1/lib/cmake/paceline"
  for to in lib/pkgconfig/paceline.pc lib/cmake/paceline/paceline-config.cmake lib/cmake/paceline/paceline-config-version.cmake; do
    sed -e "s/@ABI@/$abi/g; s/@VERSION@/$version/g; s/@MAJOR@/${version%%.*}/g; s/@MINOR@/${minor%%.*}/g" \
      "$root/capi/package/${to##*/}" >"$1/$to"
    chmod 644 "$1/$to"
  done
}

case ${1:-} in
  install)
    mkdir -p "$3/lib" "$3/include" "$3/share/doc/paceline"
    install -m 755 "$2/libpaceline.so.$abi" "$3/lib/"
    ln -sf "libpaceline.so.$abi" "$3/lib/libpaceline.so"
    install -m 644 "$root"/include/paceline.h "$root"/include/paceline.hpp "$3/include/"
    install -m 644 "$root/LICENSE" "$root/THIRD_PARTY_LICENSES" "$3/share/doc/paceline/"
    describe "$3"
    ;;
  remove)
    rm -f "$2/lib/libpaceline.so.$abi" "$2/lib/libpaceline.so" "$2/include/paceline.h" "$2/include/paceline.hpp" "$2/lib/pkgconfig/paceline.pc"
    rm -rf "$2/lib/cmake/paceline" "$2/share/doc/paceline"
    ;;
  describe) describe "$2" ;;
  *)
    echo "capi/install.sh: install, remove or describe, not '${1:-}'" >&2
    exit 2
    ;;
esac
