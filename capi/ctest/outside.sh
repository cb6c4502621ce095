#!/bin/sh
# Programs outside the tree: `make install`, then projects that find the library by CMake and by
# pkg-config, and one in Go. Works in a folder. Prints which projects the machine has no tools for.
#
#     capi/ctest/outside.sh folder
set -eu
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
work=$(mkdir -p "$1" && cd "$1" && pwd)
CC=${CC:-cc} CXX=${CXX:-c++} GO=${GO:-go}
fail() { echo "$1" >&2; exit 1; }
unset PACELINE_LIBRARY

make --no-print-directory -s -C "$root" install DESTDIR="$work/stage" PREFIX=/opt/paceline
prefix=$work/moved # a staged installation may be moved
mv "$work/stage/opt/paceline" "$prefix"
for text in LICENSE THIRD_PARTY_LICENSES; do cmp "$root/$text" "$prefix/share/doc/paceline/$text"; done
grep -rl -e "$work" -e "$root" "$prefix" && fail "installed files name folders of the build"

mkdir "$work/cpp" "$work/c" "$work/go" "$work/elsewhere"
if command -v cmake >/dev/null && command -v "${CXX%% *}" >/dev/null; then
  cp "$root/examples/cpp/CMakeLists.txt" "$root/examples/cpp/custom_env.cpp" "$work/cpp/"
  for std in 17 20; do
    (cd "$work/elsewhere" && cmake -S "$work/cpp" -B "$work/cpp/$std" -DCMAKE_CXX_STANDARD=$std -DCMAKE_PREFIX_PATH="$prefix" \
      -DCMAKE_INSTALL_PREFIX="$work/cpp/installed" >/dev/null && cmake --build "$work/cpp/$std" >/dev/null)
    (cd / && "$work/cpp/$std/custom_env" >/dev/null) || fail "CMake, C++$std: the program failed"
    echo "CMake, C++$std: ok"
  done
  cmake --install "$work/cpp/20" >/dev/null && LD_LIBRARY_PATH=$prefix/lib "$work/cpp/installed/bin/custom_env" >/dev/null
  case $(cmake --version) in
    "cmake version 3."*) # newer ones refuse a project of such old policies
      mkdir "$work/old"
      printf 'cmake_minimum_required(VERSION 3.1)\nproject(old CXX)\nfind_package(paceline REQUIRED)\n' >"$work/old/CMakeLists.txt"
      cmake -S "$work/old" -B "$work/old/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null || fail "CMake 3.1: the package was not found"
      ;;
  esac
  cmake -S "$work/cpp" -B "$work/cpp/absent" -DCMAKE_PREFIX_PATH="$work/elsewhere" >/dev/null 2>&1 && fail "CMake found a library that is not there"
  sed -i 's/paceline 0.1/paceline 1.0/' "$work/cpp/CMakeLists.txt"
  cmake -S "$work/cpp" -B "$work/cpp/newer" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null 2>&1 && fail "CMake took 0.1 for 1.0"
else
  echo "left out, as there is no cmake or no C++ compiler: the CMake project"
fi

if command -v pkg-config >/dev/null; then
  cp "$root/examples/c/hello.c" "$work/c/"
  (cd "$work/elsewhere" && export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" &&
    $CC -std=c11 "$work/c/hello.c" $(pkg-config --cflags --libs paceline) -o "$work/c/hello" &&
    [ "$(pkg-config --modversion paceline)" = "$(sed -n 's/^#define PACELINE_VERSION "\(.*\)"$/\1/p' "$root/include/paceline.h")" ])
  needed=$(readelf -d "$work/c/hello" | sed -n 's/.*NEEDED.*\[\(libpaceline.*\)\]/\1/p')
  case $needed in libpaceline.so.[0-9]*) ;; *) fail "a program needs '$needed', not a name with the interface's number" ;; esac
  (cd "$work/elsewhere" && LD_LIBRARY_PATH=$prefix/lib "$work/c/hello" >/dev/null) || fail "pkg-config: the program failed"
  if command -v cmake >/dev/null; then
    cat >"$work/c/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(hello C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(paceline REQUIRED IMPORTED_TARGET paceline)
add_executable(by_pkg_config hello.c)
target_link_libraries(by_pkg_config PRIVATE PkgConfig::paceline)
find_package(paceline REQUIRED)
add_executable(by_cmake hello.c)
target_link_libraries(by_cmake PRIVATE paceline::paceline)
EOF
    for lib in lib lib/of/here; do
      at=$work/libdir-$(echo $lib | tr / -)
      make --no-print-directory -s -C "$root" install PREFIX="$at" LIBDIR="$([ $lib = lib ] && echo lib || echo "$at/$lib")"
      [ -e "$at/$lib/libpaceline.so" ] || fail "LIBDIR: the library is not in $lib"
      PKG_CONFIG_PATH=$at/$lib/pkgconfig cmake -S "$work/c" -B "$at/build" -Dpaceline_DIR="$at/$lib/cmake/paceline" >/dev/null && cmake --build "$at/build" >/dev/null
      for by in by_pkg_config by_cmake; do (cd "$work/elsewhere" && "$at/build/$by" >/dev/null) || fail "CMake, C, $by: the program failed"; done
      make --no-print-directory -s -C "$root" uninstall PREFIX="$at" LIBDIR="$lib"
      [ -z "$(find "$at" -path "$at/build" -prune -o ! -type d -print)" ] || fail "make uninstall left files in $at"
    done
    echo "pkg_check_modules and find_package of a C project, LIBDIR: ok"
  fi
  echo "pkg-config, C: ok"
else
  echo "left out, as there is no pkg-config: the C program"
fi

cp "$here/outside/main.go" "$work/go/"
(cd "$work/go" && "$GO" mod init example.org/outside && "$GO" mod edit -go="$("$GO" list -C "$root" -m -f '{{.GoVersion}}')" \
  -replace "github.com/paceline-rl/paceline=$root" -require github.com/paceline-rl/paceline@v0.0.0 &&
  cp "$root/go.sum" . && "$GO" mod tidy && "$GO" build -o outside .) >"$work/go/log" 2>&1 || { cat "$work/go/log"; exit 1; }
(cd "$work/elsewhere" && "$work/go/outside" >/dev/null) || fail "Go: the program failed"
echo "Go: ok"

for bad in PREFIX=here "PREFIX=$work/bad LIBDIR=/elsewhere" "PREFIX=$work/bad LIBDIR=../lib"; do
  # shellcheck disable=SC2086
  make --no-print-directory -s -C "$root" install $bad >"$work/says" 2>&1 && fail "make install $bad works"
  grep -q "${bad##* }\|must be" "$work/says" || fail "make install $bad: $(cat "$work/says")"
  [ ! -e "$work/bad" ] || fail "make install $bad wrote something"
done

mkdir -p "$work/again/lib" && echo foreign >"$work/again/lib/foreign"
make --no-print-directory -s -C "$root" install PREFIX="$work/again"
make --no-print-directory -s -C "$root" uninstall PREFIX="$work/again"
left=$(find "$work/again" ! -type d)
[ "$left" = "$work/again/lib/foreign" ] || fail "make uninstall left: $left"
