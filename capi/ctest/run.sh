#!/bin/sh
# Builds the library and runs every test of its C and C++ interface.
#
#     capi/ctest/run.sh [-short] [folder] [test ...]
#
# -short: leaves out the tests that are started with `slow`.
# folder: the build folder, which is kept so that the next run is quicker; default: a temporary one.
# test: names as printed; default: all.
# CC, CXX and GO are the compilers. GOEXPERIMENT=cgocheck2 finds Go pointers that C keeps.
set -u
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
CC=${CC:-cc} CXX=${CXX:-c++} GO=${GO:-go}
export GO

scratch=$(mktemp -d) || exit 1
compiled_pid=
trap 'rm -rf "$scratch"; [ -z "$compiled_pid" ] || kill "$compiled_pid" 2>/dev/null' EXIT
trap 'exit 1' INT TERM
build=$scratch/build short=
if [ "${1:-}" = -short ]; then
  short=1 && shift
fi
if [ $# -gt 0 ]; then
  build=$1 && shift
fi
mkdir -p "$build" && build=$(cd "$build" && pwd) || exit 1
only=$*

library() { # folder, go build arguments
  folder=$1 && shift
  "$root/capi/build.sh" "$build/$folder" "$@" || exit 1
}
library lib
library testlib -tags pacelinetest
PACELINE_LIBRARY=$build/lib/libpaceline.so
export PACELINE_LIBRARY

C="-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I$root/include -I$here"
CPP="-O1 -g -Wall -Wextra -Werror -Wpedantic -I$root/include"
linked() { echo "-L$build/$1 -lpaceline -Wl,-rpath,$build/$1 -lpthread -lm"; }

# attempt NAME COMMAND...: runs a test. The output of a test that passes is shown, except with
# -short: it is a measurement.
attempt() {
  name=$1 && shift
  case " $only " in "  " | *" $name "*) ;; *) return ;; esac
  mkdir -p "$scratch/$name"
  if (TMPDIR=$scratch/$name && export TMPDIR && "$@") >"$scratch/$name.log" 2>&1; then
    says="$name ok" lines=1000000
    echo "$name" >>"$scratch/passed"
  else
    says="$name FAILED ($?)" lines=40
    echo "$name" >>"$scratch/failed"
  fi
  [ -z "$short" ] || [ "$lines" = 40 ] || { grep '^left out' "$scratch/$name.log"; return; }
  { echo "$says" && tail -n "$lines" "$scratch/$name.log" | sed 's/^/    /'; } >"$scratch/$name.out"
  cat "$scratch/$name.out"
  rm -rf "${scratch:?}/$name"
}
slow() { [ -n "$short" ] || "$@"; }
# program NAME LIBRARY [ARGUMENTS]: a C file that is linked with a library ("lib", "testlib"), or
# loads "lib" itself ("-").
program() {
  attempted=$1 && with=$2 && shift 2
  case " $only " in "  " | *" $attempted "*) ;; *) return ;; esac
  link=$([ "$with" = - ] && echo "-lpthread -lm -ldl" || linked "$with")
  if $CC $C "$here/$attempted.c" $link -o "$build/$attempted"; then
    attempt "$attempted" timeout 1200 "$build/$attempted" "$@"
  else
    attempt "$attempted" false
  fi
}

# C++ tests are left out on a machine without a C++ compiler.
cplusplus() { command -v ${CXX%% *} >/dev/null; }
headers() {
  echo '#include <paceline.h>' >"$build/h.c" && echo '#include <paceline.h>' >"$build/h.cc" &&
    echo '#include <paceline.hpp>' >"$build/hpp.cc" &&
    for std in c99 c11; do $CC -std=$std -Wall -Wextra -Werror -Wpedantic -I"$root/include" -fsyntax-only "$build/h.c" || return 1; done || return 1
  cplusplus || return 0
  for std in c++17 c++20; do
    $CXX -std=$std $CPP -fsyntax-only "$build/h.cc" && $CXX -std=$std $CPP -fsyntax-only "$build/hpp.cc" || return 1
  done
}
hpp() {
  for bad in -std=c++14 -std=gnu++11 "-std=c++17 -fno-exceptions"; do
    says=$($CXX $bad -I"$root/include" -fsyntax-only "$build/hpp.cc" 2>&1) && { echo "paceline.hpp compiles with $bad"; return 1; }
    [ "$(echo "$says" | grep -c 'error')" -eq "$(echo "$says" | grep -c 'error.*paceline.hpp')" ] || { echo "$says"; return 1; }
  done
  for std in c++17 $(slow echo c++20); do
    $CXX -std=$std $CPP "$here/hpp.cpp" "$here/hpp_second.cpp" $(linked lib) -o "$build/hpp" && timeout 1200 "$build/hpp" || return 1
  done
  $CXX -std=c++17 $CPP "$here/hpp_store.cpp" $(linked lib) -o "$build/hpp_store" && timeout 1200 "$build/hpp_store" || return 1
  acting "$TMPDIR" &&
    $CXX -std=c++17 $CPP "$here/hpp_actions.cpp" $(linked lib) -o "$build/hpp_actions" && timeout 1200 "$build/hpp_actions" "$TMPDIR"
}
# The public symbols are the functions of the header. The library needs only the C library, has two
# thread-local words (Go's and thread.c's), cannot be unloaded, and does not use os/signal.
symbols() {
  nm -D --defined-only "$PACELINE_LIBRARY" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$build/have"
  sed -n 's/^PACELINE_API.*[ *]\(paceline_[a-z_]*\)(.*/\1/p' "$root/include/paceline.h" | sort >"$build/want"
  diff "$build/want" "$build/have" || { echo "public symbols are not those of paceline.h"; return 1; }
  readelf -d "$PACELINE_LIBRARY" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|libpthread|libdl|ld-linux-x86-64)\.so' &&
    { echo "a library beyond the C library is needed"; return 1; }
  abi=$(sed -n 's/^#define PACELINE_ABI_VERSION //p' "$root/include/paceline.h")
  readelf -d "$PACELINE_LIBRARY" | grep -q "SONAME.*\[libpaceline\.so\.$abi\]" || { echo "the SONAME is not libpaceline.so.$abi"; return 1; }
  nm -D --defined-only "$PACELINE_LIBRARY" | grep -v "@@PACELINE_$abi\$" | grep -v " A PACELINE_$abi\$" && { echo "symbols without the version PACELINE_$abi"; return 1; }
  readelf -d "$PACELINE_LIBRARY" | grep -q 'FLAGS_1.*NOW' || { echo "the library is not bound at once: -z now"; return 1; }
  readelf -d "$PACELINE_LIBRARY" | grep -q NODELETE || { echo "NODELETE is missing"; return 1; }
  readelf -d "$PACELINE_LIBRARY" | grep -q '(FLAGS).*STATIC_TLS' || { echo "STATIC_TLS is missing: is there thread-local data of another model?"; return 1; }
  tls=$(readelf -lW "$PACELINE_LIBRARY" | awk '$1 == "TLS" { print $6 }')
  [ $((tls)) -le 16 ] || { echo "thread-local data: $((tls)) bytes, must be at most 16"; return 1; }
  (cd "$root" && "$GO" list -deps ./capi/libpaceline) | grep -x os/signal && { echo "os/signal is linked in"; return 1; }
  echo "the library has $(stat -Lc %s "$PACELINE_LIBRARY") bytes"
}
# The ABI of the header equals abi.txt, which holds for 64-bit machines.
abi() {
  CC=$CC sh "$here/abi.sh" "$root/include/paceline.h" >"$build/abi.txt" || return 1
  diff "$here/abi.txt" "$build/abi.txt" || { echo "paceline.h is not what abi.txt says: programs that were built with the old one may break"; return 1; }
}
# Programs compiled against the frozen header of this ABI number run with the current library.
frozen() {
  abi=$(sed -n 's/^#define PACELINE_ABI_VERSION //p' "$root/include/paceline.h")
  [ -f "$here/frozen/$abi/paceline.h" ] || { echo "capi/ctest/frozen/$abi has no header: CONTRIBUTING.md says how to freeze one"; return 1; }
  sh "$here/frozen.sh" "$here/frozen/$abi/paceline.h" "$root/include/paceline.h" || return 1
  for source in "$here/frozen/$abi"/*.c; do
    name=$(basename "$source" .c)
    case $name in
      plugin) $CC -std=c11 -O1 -Wall -Wextra -Werror -I"$here/frozen/$abi" -shared -fPIC "$source" -o "$TMPDIR/plugin.so" ;;
      *) $CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$here/frozen/$abi" "$source" $(linked lib) -o "$TMPDIR/$name" ;;
    esac || return 1
  done
  for program in train policy vec console; do
    timeout 1200 "$TMPDIR/$program" "$TMPDIR/plugin.so" || { echo "frozen/$abi/$program.c fails"; return 1; }
  done
}
# Environments in files of their own, not linked with the library: the example, and the variants of
# faulty.c.
plugin() { # file without .so, source, macros
  $CC -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -Wpedantic -Wno-unused-function -I"$root/include" -shared -fPIC -Wl,-z,defs "$2" -lm -o "$1.so" ${3:+"$3"}
}
plugins() {
  mkdir -p "$build/plugins" && rm -f "$build/plugins"/*.so && plugin "$build/plugins/pendulum" "$root/examples/c/env_plugin.c" || return 1
  for fault in '' MASKED PRIES NO_OPEN OPEN_FAILS OPEN_FAILS_SILENTLY OPEN_LOADS NO_STEP NO_RESTORE SPEC_FAILS \
    NO_NAME:NAME=NULL EMPTY_NAME:NAME='""' ODD_NAME:NAME='"\xff"' TAKEN:NAME='"CartPole-v1"' TAKEN_TWICE:NAME='"Pendulum3-v0"'; do
    file=$(echo "${fault%%:*}" | tr A-Z a-z)
    plugin "$build/plugins/${file:-faulty}" "$here/faulty.c" "${fault:+-D${fault#*:}}" || return 1
  done
}
# The variants of acting.c: each kind of actions, and specs that are refused.
acting() { # folder
  mkdir -p "$1" || return 1
  for macro in MULTI CONTINUOUS HYBRID TOGETHER EMPTY_BRANCH NO_BRANCHES NAN_BOUND CROSSED; do
    plugin "$1/$(echo "$macro" | tr A-Z a-z)" "$here/acting.c" "-D$macro" || return 1
  done
}
# A build in another folder, with a space in its name, gives the same bytes.
reproducible() {
  mkdir "$TMPDIR/a clone" && cp -r "$root/core" "$root/capi" "$root/include" "$root/go.mod" "$root/go.sum" "$TMPDIR/a clone/" &&
    "$TMPDIR/a clone/capi/build.sh" "$TMPDIR/built" && cmp "$build/lib/libpaceline.so" "$TMPDIR/built/libpaceline.so"
}
outside() { sh "$here/outside.sh" "$TMPDIR/outside"; }
examples() {
  # As in examples/README.md, with the library of this run.
  cd "$TMPDIR" || return 1
  for e in hello custom_env; do
    $CC -std=c11 -Wall -Wextra -Werror -Wpedantic "$root/examples/c/$e.c" -I"$root/include" $(linked lib) -o "$e" && timeout 1200 "./$e" || return 1
  done
  $CC -std=c11 -Wall -Wextra -Werror -Wpedantic "$root/examples/c/cruise.c" -I"$root/include" $(linked lib) -o cruise || return 1
  for method in $(slow echo ppo a2c); do timeout 1200 ./cruise $method || return 1; done
  if [ -n "${PACELINE_ROMS_DIR:-}" ]; then
    $CC -std=c11 -Wall -Wextra -Werror -Wpedantic "$root/examples/c/atari.c" -I"$root/include" $(linked lib) -o atari && timeout 1200 ./atari || return 1
  else
    echo "left out, as there are no ROM files: the Atari example"
  fi
  cplusplus || return 0
  for e in custom_env parameter_server $(slow echo lander); do
    $CXX -std=c++17 $CPP "$root/examples/cpp/$e.cpp" $(linked lib) -o "${e}_cpp" || return 1
  done
  timeout 1200 ./custom_env_cpp || return 1
  timeout 1200 ./parameter_server_cpp 2 8000 >served && cat served && grep -q '"version":[1-9]' served || return 1
  for form in $(slow echo discrete continuous hybrid); do timeout 1200 ./lander_cpp $form || return 1; done
}

# Two halves run at the same time: tests that mostly compile, and programs.
compiled() {
  attempt headers headers
  attempt symbols symbols
  attempt abi abi
  attempt frozen frozen
  if cplusplus; then attempt hpp hpp; else echo "left out, as there is no $CXX: paceline.hpp and the C++ examples"; fi
  attempt examples examples
  slow attempt reproducible reproducible
  slow attempt outside outside
}
programs() {
  attempt plugins plugins
  attempt acting acting "$build/acting"
  for test in structs smoke nulls handles bad_env vec vec_atari waits batch push files file_size transitions resume learners store threads fibers fork calls console jail; do program $test lib; done
  slow program cycles lib
  program plugin lib "$build/plugins"
  program masks lib "$build/plugins/masked.so"
  program actions lib "$build/acting"
  program kinds lib "$build/acting"
  program inside lib "$build/plugins/pries.so"
  program random_calls lib "$([ -n "$short" ] && echo 1 || echo 5)" 4 1 "$here"/deep/seeds/*
  for test in vec_async vec_soak; do program $test lib "$build/plugins/faulty.so"; done
  for test in load signals descriptors scheduling float_mode memory twins environment keys; do program $test -; done
  program panic testlib
}
: >"$scratch/passed" && : >"$scratch/failed"
compiled &
compiled_pid=$!
programs
wait "$compiled_pid"
compiled_pid=
passed=$(wc -l <"$scratch/passed") failed=$(wc -l <"$scratch/failed")
echo "C: $((passed)) passed, $((failed)) failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
