#!/bin/sh
# Checks that a header still has everything that a frozen one has: abi.sh prints for it all lines
# that it prints for the frozen one. Structs may have grown at their ends.
#
#     capi/ctest/frozen.sh FROZEN HEADER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Puts the name of the struct or enum before each line, and leaves out the sizes of structs. The last
# field of a frozen struct may be a struct that has grown: its size is any, which is *.
lines() { sh "$here/abi.sh" "$1" | awk -v frozen="$2" '
  function field(last) { if (held != "") print held, frozen && last ? "*" : size; if (!frozen && held != "") print held, "*"; held = "" }
  /^  / && NF == 3 { field(0); held = of " " $1 " " $2; size = $3; next }
  /^  / { print of $0; next }
  { field(1) }
  /\(/ { print; next }
  { of = $1; print of }
  END { field(1) }' | sort; }
lines "$1" 1 >"$scratch/frozen"
lines "$2" "" >"$scratch/now"
comm -23 "$scratch/frozen" "$scratch/now" >"$scratch/gone"
[ ! -s "$scratch/gone" ] || { echo "the frozen header has, and this one has not:"; cat "$scratch/gone"; exit 1; }
