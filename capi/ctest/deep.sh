#!/bin/sh
# Tests that take too long for every change: sanitizers, valgrind and fuzzing.
#
#     capi/ctest/deep.sh folder seconds [part ...]
#
# folder: the build folder. seconds: the time of each part that does not end by itself. part: names
# as printed; default: all. Each part prints its time and the number of its calls or inputs.
# Needs clang and valgrind (Debian: apt-get install clang llvm valgrind).
# Fuzzing writes inputs that fail to the testdata folders of the packages, or to folder/fuzz_abi.*.
# Fix the fault and commit the input there, or in deep/seeds, which run.sh runs.
set -u
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
CC=${CC:-cc} GO=${GO:-go}
mkdir -p "$1" && build=$(cd "$1" && pwd) || exit 1
T=$2 && shift 2
only=$*
export TMPDIR="$build/.tmp" # "go list ./..." skips such a name
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

# Hosts built with a sanitizer, and the library built without: the sanitizer checks the host's
# memory and threads, and the C library's functions that the library calls.
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
# valgrind has no AVX-512. It does not know Go: memory that was a stack would look freed when Go uses
# it again, so efence makes Go use each address once. It cannot tell whether Go's values are defined.
valgrind_host() {
  need valgrind || return 1
  $CC $C "$here/random_calls.c" -L"$build/lib" -lpaceline -Wl,-rpath,"$build/lib" -lpthread -lm -o "$build/host" &&
    PACELINE_ISA=avx2 GODEBUG=efence=1 timeout $((T + 600)) valgrind -q --undef-value-errors=no --error-exitcode=9 \
      --suppressions="$here/deep/valgrind.supp" "$build/host" "$T" 2 "$(date +%s)"
}
cgocheck() { GOEXPERIMENT=cgocheck2 sh "$here/run.sh" "$build/cgocheck" plugins smoke push vec plugin masks resume files; }
race() { (cd "$root" && "$GO" test -race -short ./core/... ./capi/...); }
# Go's fuzzing of the readers of files and texts, each for T seconds.
go_fuzz() { # package, function
  (cd "$root" && "$GO" test -run '^$' -fuzz "^$2\$" -fuzztime "${T}s" -parallel 2 "$1") | tee "$build/go_fuzz.log" | grep -v '^fuzz: elapsed' || return 1
  grep '^fuzz: elapsed' "$build/go_fuzz.log" | tail -n 1
  ! grep -q '^--- FAIL' "$build/go_fuzz.log"
}
# libFuzzer on the interface: the bytes determine the calls and their arguments.
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
attempt fuzz_store go_fuzz ./core/param FuzzRange
attempt fuzz_safetensors go_fuzz ./core/nn FuzzReadSafetensors
attempt fuzz_settings go_fuzz ./core/settings FuzzSet
attempt fuzz_replay go_fuzz ./core/replay FuzzOperations
attempt fuzz_replay_load go_fuzz ./core/replay FuzzLoad
attempt fuzz_options go_fuzz ./core/env/builtin FuzzOptions
attempt fuzz_atari sh "$root/core/atari/machine/ctest/run.sh" fuzz "$T"
attempt fuzz_abi fuzz_abi
exit $failed
