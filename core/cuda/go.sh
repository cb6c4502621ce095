#!/bin/sh
# Makes the headers and kernels that the build tag gpu needs, then runs go with that tag.
#
#     core/cuda/go.sh test ./core/cuda
#     core/cuda/go.sh build -buildmode=c-shared ...
#
# GO and PYTHON name other programs. Go's own variables work as usual; flags from the environment
# come before ours, and before gorgonia.org/cu's own flags for CUDA in /usr/local.
# The tag netgo is for cu, which imports package net: net's C code would need libresolv and more of
# the C library.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -gt 0 ] || { echo "core/cuda/go.sh: build, test, vet ..." >&2; exit 2; }
"$root/core/cuda/headers.sh" "$root/build/cuda"
"$root/core/cuda/kernels.sh"
verb=$1 && shift
CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} '-I$root/build/cuda/include'"
CGO_LDFLAGS="${CGO_LDFLAGS:--O2 -g} '-L$root/build/cuda/lib'"
export CGO_CFLAGS CGO_LDFLAGS
exec "${GO:-go}" "$verb" -tags gpu,netgo "$@"
