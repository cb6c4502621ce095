#!/bin/sh
# Runs the tests of the machine's headers: for every vector unit of the processor, with
# both ways of dispatching instructions, and under sanitizers if the compiler has them.
#
#     core/atari/machine/ctest/run.sh [-short] [test ...]
#     core/atari/machine/ctest/run.sh fuzz [seconds]
#
# -short: no sanitizers, no `switch`, only the best vector unit, and one line if all pass.
# fuzz: libFuzzer with arbitrary bytes as cartridges, then as states; needs clang.
# CC is the compiler. Cartridges in the folder PACELINE_ROMS_DIR are played, too.
set -u
here=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-cc}
scratch=$(mktemp -d) || exit 1
plain=
trap 'rm -rf "$scratch"; [ -z "$plain" ] || kill "$plain" 2>/dev/null' EXIT
trap 'exit 1' INT TERM
short=
if [ "${1:-}" = -short ]; then
  short=1 && shift
fi
C="-std=c11 -Wall -Wextra -Werror"
SANITIZE="-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"

if [ "${1:-}" = fuzz ]; then
  command -v clang >/dev/null || { echo "fuzzing needs clang (Debian: apt-get install clang)"; exit 1; }
  clang $C $SANITIZE -fsanitize=fuzzer-no-link -c "$here/under_test.c" -o "$scratch/machine.o" || exit 1
  for test in fuzz_rom fuzz_state; do
    clang $C $SANITIZE -fsanitize=fuzzer "$here/$test.c" "$scratch/machine.o" -o "$scratch/$test" && mkdir "$scratch/$test.corpus" || exit 1
    (cd "$scratch" && "./$test" -max_total_time="${2:-180}" -max_len=4096 -timeout=30 -print_final_stats=1 "$test.corpus") >"$scratch/log" 2>&1 ||
      { tail -n 60 "$scratch/log"; echo "$test FAILED"; exit 1; }
    echo "$test: $(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log") executions, no findings"
  done
  exit 0
fi

# The compiler's flags for the machine. `switch` dispatches as in CUDA, which has no computed
# goto. The sanitized builds use it, too, because it compiles faster.
LIBRARY="-O3 -fno-tree-vectorize -DAS_THE_LIBRARY"
AVX2="-mavx2 -mbmi -mbmi2"
AVX512="$AVX2 -mavx512f -mavx512bw -mavx512vl -mavx512dq"
flags_of() {
  case $1 in
  generic) echo "$LIBRARY" ;;
  avx2) echo "$LIBRARY $AVX2" ;;
  avx512) echo "$LIBRARY $AVX512" ;;
  switch) echo "-O1 -D__CUDACC__" ;;
  sanitized) echo "$SANITIZE -D__CUDACC__" ;;
  sanitized-avx2) echo "$SANITIZE -D__CUDACC__ $AVX2" ;;
  sanitized-avx512) echo "$SANITIZE -D__CUDACC__ $AVX512" ;;
  esac
}
has() { grep -qw "$1" /proc/cpuinfo 2>/dev/null; }
has avx2 && has bmi2 && avx2=1 || avx2=
[ "$avx2" ] && has avx512bw && has avx512vl && has avx512dq && avx512=1 || avx512=
# The AVX-512 build contains the AVX2 code, so one sanitized vector build is enough.
[ "$avx512" ] && vectors=sanitized-avx512 || vectors=sanitized-avx2
echo 'int main(void) { return 0; }' >"$scratch/s.c"
$CC $SANITIZE "$scratch/s.c" -o "$scratch/s" 2>/dev/null && "$scratch/s" && sanitized=1 || sanitized=

# can_run BUILD
can_run() {
  case $1 in sanitized*) [ "$sanitized" ] || return 1 ;; esac
  case $1 in *avx2) [ "$avx2" ] ;; *avx512) [ "$avx512" ] ;; esac
}

# compile SOURCE OBJECT FLAGS, unless the object exists
compile() { [ -f "$scratch/$2.o" ] || $CC $C $3 -c "$here/$1.c" -o "$scratch/$2.o"; }

# link BUILD TEST. The test's own code is compiled once, and once more under the sanitizers.
# `mask` tests inline functions, so it is compiled for every build.
link() {
  case $2,$1 in
  mask,*) compile mask "mask.$1" "$(flags_of "$1")" && set -- "$1" "$2" "mask.$1" ;;
  *,sanitized*) compile "$2" "sanitized.$2" "$SANITIZE" && set -- "$1" "$2" "sanitized.$2" ;;
  *) compile "$2" "$2" "-O2" && set -- "$1" "$2" "$2" ;;
  esac &&
    case $2 in
    mask) $CC $(flags_of "$1") "$scratch/$3.o" -o "$scratch/$2.$1" ;;
    lazy) # the functions that Go calls, which select vector units themselves
      compile under_test "machine.$1" "$(flags_of "$1")" &&
        $CC $C -Wno-unused-function $(flags_of "$1") -I"$here/.." "$scratch/$3.o" "$scratch/machine.$1.o" "$here"/../../native*.c -o "$scratch/$2.$1" ;;
    *) compile under_test "machine.$1" "$(flags_of "$1")" && $CC $(flags_of "$1") "$scratch/$3.o" "$scratch/machine.$1.o" -o "$scratch/$2.$1" ;;
    esac
}

# attempt BUILD TEST [ARGUMENTS]
attempt() {
  can_run "$1" || return
  build=$1 name=$2
  : >"$scratch/$kind.log"
  if link "$build" "$name" && shift 2 && timeout 1200 "$scratch/$name.$build" "$@" >"$scratch/$kind.log" 2>&1; then
    [ -n "$short" ] || echo "$name ($build) ok"
    passed=$((passed + 1))
  else
    echo "$name ($build) FAILED"
    tail -n 40 "$scratch/$kind.log" | sed 's/^/    /'
    failed=1
  fi
  rm -f "$scratch/$kind.log"
}

roms() { [ -z "${PACELINE_ROMS_DIR:-}" ] || ls "$PACELINE_ROMS_DIR"/*.bin 2>/dev/null; }

# half plain|sanitized TESTS: all builds of that kind. The two kinds share no object file and
# run concurrently.
half() {
  kind=$1 failed=0 passed=0
  shift
  for test in "$@"; do
    case $test in
    cpu | window | waiting) builds="generic switch sanitized" ;;
    lazy) builds="generic" ;;
    mask) builds="generic avx2 avx512 sanitized sanitized-avx2 sanitized-avx512" ;;
    tia) builds="generic avx2 avx512 sanitized $vectors" ;;
    ends) builds="generic avx2 avx512 sanitized" ;;
    frames) builds="generic avx2 avx512 switch sanitized $vectors" ;;
    *) builds="generic sanitized" ;;
    esac
    for build in $builds; do
      case $short,$build in
      1,switch | 1,sanitized*) continue ;;
      1,avx2) [ -z "$avx512" ] || continue ;;
      esac
      case $kind,$build in
      plain,sanitized*) continue ;;
      plain,* | sanitized,sanitized*) ;;
      *) continue ;;
      esac
      case $test,$build in # fewer programs in slow builds
      tia,sanitized*) attempt "$build" tia 30 ;;
      frames,sanitized*) attempt "$build" frames 16 ;;
      window,sanitized*) attempt "$build" window 10 ;;
      waiting,sanitized*) attempt "$build" waiting 1 ;;
      check,*) attempt "$build" check $(roms) ;;
      *) attempt "$build" "$test" ;;
      esac
    done
  done
  [ -z "$short" ] || [ "$passed" -eq 0 ] || echo "$passed tests of the Atari machine passed"
  return $failed
}

[ $# -gt 0 ] || set -- riot cartridge cpu window waiting mask tia ends frames lazy check
half plain "$@" &
plain=$!
half sanitized "$@"
status=$?
wait "$plain" && plain= && exit $status
plain=
exit 1
