#!/bin/sh
# What takes too long for every change: sanitizers, valgrind and fuzzing.
#
#     capi/ctest/deep.sh folder seconds [part ...]
#
# folder: where to build. seconds: of each part that has no end of its own. parts: as
# printed; none: all. Each says how long it took, and how much was done. Needs clang and
# valgrind (Debian: apt-get install clang llvm valgrind). What fuzzing finds is written to
# the testdata folders of the packages, or to folder/fuzz_abi.*: it is mended, and committed
# there or in deep/seeds, which run.sh runs.
set -u
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
CC=${CC:-cc} GO=${GO:-go}
mkdir -p "$1" && build=$(cd "$1" && pwd) || exit 1
T=$2 && shift 2
only=$*
export TMPDIR="$build/.tmp" # which "go list ./..." does not look into
C="-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -I$root/include -I$here"
failed=0

attempt() {
  name=$1 && shift
  case " $only " in "  " | *" $name "*) ;; *) return ;; esac
  rm -rf "$TMPDIR" && mkdir -p "$TMPDIR" # programs find it empty
  began=$(date +%s)
  if "$@" >"$build/$name.log" 2>&1; then result=ok; else result=FAILED failed=1; fi
  echo "$name $result, $(($(date +%s) - began)) s"
  if [ $result = ok ]; then tail -n 2 "$build/$name.log" | sed 's/^/    /'; else tail -n 40 "$build/$name.log" | sed 's/^/    /'; fi
}
need() { command -v "$1" >/dev/null || { echo "$1 is needed"; return 1; }; }

# Hosts that are built with a sanitizer, with the library as it is: their own memory and
# threads are watched, and what the library does to it by the C library's functions.
host() { # sanitizer
  for program in smoke vec files threads inside; do
    argument=$([ $program != inside ] || echo "$build/pries.so")
    $CC $C -fsanitize="$1" -fno-sanitize-recover=all "$here/$program.c" -L"$build/lib" -lpaceline -Wl,-rpath,"$build/lib" -lpthread -lm -o "$build/host" || return 1
    echo "$program"
    timeout 600 "$build/host" $argument || return 1
  done
  $CC $C -fsanitize="$1" -fno-sanitize-recover=all "$here/random_calls.c" -L"$build/lib" -lpaceline -Wl,-rpath,"$build/lib" -lpthread -lm -o "$build/host" &&
    timeout $((T + 300)) "$build/host" "$T" 4 "$(date +%s)"
}
sanitized() {
  export LSAN_OPTIONS="suppressions=$here/deep/lsan.supp" TSAN_OPTIONS="suppressions=$here/deep/tsan.supp halt_on_error=1"
  $CC -std=c11 -D_GNU_SOURCE -O1 -Wno-unused-function -I"$root/include" -shared -fPIC -DPRIES "$here/faulty.c" -o "$build/pries.so" && host "$1"
}
# It knows no AVX-512, and nothing of Go: with efence Go uses no address twice, or memory that was a
# stack would look freed where it is used again. Whether values are defined is not known either.
valgrind_host() {
  need valgrind || return 1
  $CC $C "$here/random_calls.c" -L"$build/lib" -lpaceline -Wl,-rpath,"$build/lib" -lpthread -lm -o "$build/host" &&
    PACELINE_ISA=avx2 GODEBUG=efence=1 timeout $((T + 600)) valgrind -q --undef-value-errors=no --error-exitcode=9 \
      --suppressions="$here/deep/valgrind.supp" "$build/host" "$T" 2 "$(date +%s)"
}
cgocheck() { GOEXPERIMENT=cgocheck2 sh "$here/run.sh" "$build/cgocheck" plugins smoke push vec plugin masks resume files; }
race() { (cd "$root" && "$GO" test -race -short ./core/... ./capi/...); }
# Go's fuzzing of what reads files and texts; each for as long.
go_fuzz() { # package, function
  (cd "$root" && "$GO" test -run '^$' -fuzz "^$2\$" -fuzztime "${T}s" -parallel 2 "$1") | tee "$build/go_fuzz.log" | grep -v '^fuzz: elapsed' || return 1
  grep '^fuzz: elapsed' "$build/go_fuzz.log" | tail -n 1
  ! grep -q '^--- FAIL' "$build/go_fuzz.log"
}
# libFuzzer on the interface: bytes are which calls are made, with what.
fuzz_abi() {
  need clang || return 1
  mkdir -p "$build/fuzz_abi"
  clang $C -DFUZZ -fsanitize=fuzzer,address "$here/random_calls.c" -L"$build/lib" -lpaceline -Wl,-rpath,"$build/lib" -lpthread -lm -o "$build/fuzz" &&
    ASAN_OPTIONS=detect_leaks=0 "$build/fuzz" -max_total_time="$T" -max_len=2048 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$build/fuzz_abi." "$build/fuzz_abi" "$here/deep/seeds"
}

mkdir -p "$TMPDIR" && "$root/capi/build.sh" "$build/lib" || exit 1
attempt race race
attempt cgocheck cgocheck
for sanitizer in address undefined thread; do attempt host_$sanitizer sanitized $sanitizer; done
attempt valgrind valgrind_host
attempt fuzz_checkpoint go_fuzz ./core/checkpoint FuzzLoad
attempt fuzz_safetensors go_fuzz ./core/nn FuzzReadSafetensors
attempt fuzz_settings go_fuzz ./core/settings FuzzSet
attempt fuzz_replay go_fuzz ./core/replay FuzzOperations
attempt fuzz_replay_load go_fuzz ./core/replay FuzzLoad
attempt fuzz_options go_fuzz ./core/env/builtin FuzzOptions
attempt fuzz_atari sh "$root/core/atari/machine/ctest/run.sh" fuzz "$T"
attempt fuzz_abi fuzz_abi
exit $failed
