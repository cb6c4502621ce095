#!/bin/sh
# Makes what the wheels' libraries are linked against instead of this machine's C library.
#
#     python/wheels/stubs.sh python triple folder     triple: x86_64-linux-gnu.2.17 and so on
#
# python: one that has ziglang, whose zig knows which functions each version of glibc
# had. For its own linker it makes libraries without code that have just those; here
# they get the names by which ld looks for them.
set -eu
python=$1 triple=$2 folder=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo 'int nothing;' >"$scratch/nothing.c"
# A cache of its own, which then holds what this link needed, once.
ZIG_GLOBAL_CACHE_DIR=$scratch/cache ZIG_LOCAL_CACHE_DIR=$scratch/cache \
  "$python" -m ziglang cc -target "$triple" -shared -o "$scratch/nothing.so" "$scratch/nothing.c"
rm -rf "$folder"
mkdir -p "$folder"
for library in m.so.6 pthread.so.0 dl.so.2; do
  cp "$scratch"/cache/o/*/"lib$library" "$folder/"
  ln -s "lib$library" "$folder/lib${library%%.*}.so"
done
cp "$scratch"/cache/o/*/libc.so.6 "$scratch"/cache/o/*/libc_nonshared.a "$folder/"
echo 'GROUP ( libc.so.6 libc_nonshared.a )' >"$folder/libc.so"
