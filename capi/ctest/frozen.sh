#!/bin/sh
# Checks that a header still has everything that a frozen one has: abi.sh prints for it all lines
# that it prints for the frozen one. Structs may have grown at their ends.
#
#     capi/ctest/frozen.sh FROZEN HEADER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Puts the name of the struct or enum before each line, and leaves out the sizes of structs.
lines() { sh "$here/abi.sh" "$1" | awk '/^  / { print of $0; next } /\(/ { print; next } { of = $1; print of }' | sort; }
lines "$1" >"$scratch/frozen"
lines "$2" >"$scratch/now"
comm -23 "$scratch/frozen" "$scratch/now" >"$scratch/gone"
[ ! -s "$scratch/gone" ] || { echo "the frozen header has, and this one has not:"; cat "$scratch/gone"; exit 1; }
