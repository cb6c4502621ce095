#!/bin/sh
# Builds C programs for arm64 and runs them with an arm64 library, under an emulator.
#
#     capi/ctest/arm64.sh folder sysroot     folder: of libpaceline.so; sysroot: of its C library
#
# Left out are programs that take minutes, and those that measure time or memory, which would be
# the emulator's. Go programs sometimes hang under QEMU if signals interrupt their threads
# (golang.org/issue/36981, 70329). CC is the compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
folder=$(cd "$1" && pwd) && sysroot=$2
CC=${CC:-aarch64-linux-gnu-gcc}
built=$folder/ctest
mkdir -p "$built"
TMPDIR=$built PACELINE_LIBRARY=$folder/libpaceline.so
export TMPDIR PACELINE_LIBRARY
for test in structs smoke nulls handles bad_env vec files fork float_mode; do
  link="-L$folder -lpaceline -Wl,-rpath,$folder"
  [ "$test" != float_mode ] || link=
  # shellcheck disable=SC2086
  $CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "-I$root/include" "$here/$test.c" -o "$built/$test" $link -lpthread -lm -ldl &&
    timeout 300 qemu-aarch64 -L "$sysroot" -E GODEBUG=asyncpreemptoff=1 "$built/$test" || { echo "$test FAILED"; exit 1; }
  echo "$test ok"
done
