#!/bin/sh
# Checks that a header still has all that a frozen one has: what abi.sh prints of the
# frozen one is in what it prints of the other, but for structs that have grown at their end.
#
#     capi/ctest/frozen.sh FROZEN HEADER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Each line under the name of its struct or enum, without the sizes of structs.
lines() { sh "$here/abi.sh" "$1" | awk '/^  / { print of $0; next } /\(/ { print; next } { of = $1; print of }' | sort; }
lines "$1" >"$scratch/frozen"
lines "$2" >"$scratch/now"
comm -23 "$scratch/frozen" "$scratch/now" >"$scratch/gone"
[ ! -s "$scratch/gone" ] || { echo "the frozen header has, and this one has not:"; cat "$scratch/gone"; exit 1; }
