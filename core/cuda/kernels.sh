#!/bin/sh
# Makes core/cuda/kernels.zip, the kernels' machine code, which the library embeds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -f "$here/compile.py" ]; then
  exec "${PYTHON:-python3}" "$here/compile.py"
fi
# Without the compiler script: an empty archive.
[ -f "$here/kernels.zip" ] || { printf 'PK\005\006' && head -c 18 /dev/zero; } >"$here/kernels.zip"
