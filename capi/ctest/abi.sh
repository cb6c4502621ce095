#!/bin/sh
# Prints the ABI of a header: the size of every struct, the offset and size of its fields, the
# numbers of the enums, the functions.
#
#     capi/ctest/abi.sh HEADER >capi/ctest/abi.txt
#
# run.sh compares the output with abi.txt. Before you change abi.txt, read the header's rule
# "Growth".
set -eu
CC=${CC:-cc}
header=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Removes comments and preprocessor lines, and puts each declaration, brace and field on one line.
grep -v '^#' "$header" | tr '\n' ' ' | sed -E 's#/\*([^*]|\*+[^*/])*\*+/##g' | sed -E 's/[ \t]+/ /g; s/([;{}]) */\1\n/g' >"$scratch/flat"
{
  echo '#include <paceline.h>'
  echo '#include <stdio.h>'
  echo 'int main(void) {'
  awk '
    function last_word(s) { sub(/\[[0-9]*\]$/, "", s); sub(/.*[ *]/, "", s); return s }
    /^typedef struct [a-z_]+ \{$/ { type = $3; printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", type, type; next }
    /^enum [a-z_]+ \{$/ { in_enum = 1; printf "puts(\"%s\");\n", $2; next }
    in_enum {
      sub(/ *\}$/, "")
      n = split($0, names, ",")
      for (i = 1; i <= n; i++) {
        split(names[i], pair, "="); gsub(/ /, "", pair[1])
        if (pair[1] != "") printf "printf(\"  %s %%d\\n\", %s);\n", pair[1], pair[1]
      }
      in_enum = 0; next
    }
    type != "" && /\}/ { type = ""; next }
    type != "" && /;$/ {
      sub(/;$/, "")
      if (match($0, /\(\*[a-z_]+\)/)) { n = 1; names[1] = substr($0, RSTART + 2, RLENGTH - 3) } else n = split($0, names, ",")
      for (i = 1; i <= n; i++) {
        f = last_word(names[i])
        printf "printf(\"  %s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", f, type, f, type, f
      }
    }' "$scratch/flat"
  echo 'return 0; }'
} >"$scratch/dump.c"
mkdir "$scratch/include" && cp "$header" "$scratch/include/paceline.h"
$CC -std=c11 -Wall -Wextra -Werror -I"$scratch/include" "$scratch/dump.c" -o "$scratch/dump"
"$scratch/dump"
sed -n -E 's/^ *PACELINE_API (PACELINE_MUST_USE )?(.*);$/\2/p' "$scratch/flat"
