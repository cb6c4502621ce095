#!/bin/sh
# Runs the tests of the machine's headers, with every vector unit that the processor
# has, and under the sanitizers where the compiler brings them.
#
#     core/atari/machine/ctest/run.sh [test ...]
#     core/atari/machine/ctest/run.sh fuzz [seconds]
#
# fuzz: libFuzzer with any bytes as cartridges, then as states; needs clang. CC is
# honoured. Cartridges in the folder PACELINE_ROMS_DIR are played, too.
set -u
here=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-cc}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
C="-std=c11 -O2 -g -Wall -Wextra -Werror"
SANITIZE="-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"

if [ "${1:-}" = fuzz ]; then
  command -v clang >/dev/null || { echo "fuzzing needs clang (Debian: apt-get install clang)"; exit 1; }
  for test in fuzz_rom fuzz_state; do
    clang $C $SANITIZE -fsanitize=fuzzer "$here/$test.c" -o "$scratch/$test" && mkdir "$scratch/$test.corpus" || exit 1
    (cd "$scratch" && "./$test" -max_total_time="${2:-180}" -max_len=4096 -timeout=30 -print_final_stats=1 "$test.corpus") >"$scratch/log" 2>&1 ||
      { tail -n 60 "$scratch/log"; echo "$test FAILED"; exit 1; }
    echo "$test: $(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log") executions, no findings"
  done
  exit 0
fi

failed=0
# attempt NAME FLAGS [ARGUMENTS]
attempt() {
  name=$1 flags=$2 && shift 2
  if $CC $C $flags "$here/$name.c" -o "$scratch/$name" && timeout 300 "$scratch/$name" "$@" >"$scratch/log" 2>&1; then
    echo "$name${flags:+ ($flags)} ok"
  else
    echo "$name${flags:+ ($flags)} FAILED"
    tail -n 40 "$scratch/log" | sed 's/^/    /'
    failed=1
  fi
}
has() { grep -qw "$1" /proc/cpuinfo 2>/dev/null; }
sanitizes() { echo 'int main(void) { return 0; }' >"$scratch/s.c" && $CC $SANITIZE "$scratch/s.c" -o "$scratch/s" 2>/dev/null && "$scratch/s"; }

for test in ${*:-riot cpu cartridge tia frames check}; do
  case $test in
  check) attempt check "" $([ -z "${PACELINE_ROMS_DIR:-}" ] || ls "$PACELINE_ROMS_DIR"/*.bin 2>/dev/null) ;;
  tia)
    attempt tia ""
    if has avx2; then attempt tia "-mavx2"; fi
    if has avx512bw; then attempt tia "-mavx512bw"; fi
    ;;
  *) attempt "$test" "" ;;
  esac
  case $test in
  check | frames) if sanitizes; then attempt "$test" "$SANITIZE" $([ "$test" = check ] || echo 4); fi ;;
  esac
done
exit $failed
