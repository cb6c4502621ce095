#!/bin/sh
# Runs go with the tag gpu and with what that needs: headers and kernels are made first.
#
#     core/cuda/go.sh test ./core/cuda
#     core/cuda/go.sh build -buildmode=c-shared ...
#
# GO, PYTHON and what go itself heeds are honoured. Flags of the environment stay in
# front, which gorgonia.org/cu's own, for CUDA in /usr/local, come behind. The tag netgo is for
# cu's import of package net, whose C would need more of the C library, and libresolv.
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
