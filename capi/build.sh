#!/bin/sh
# Builds the library.
#
#     capi/build.sh folder [argument of go build ...]
#
# Makes folder/libpaceline.so.N, N being PACELINE_ABI_VERSION, and the link
# folder/libpaceline.so to it, which is what -lpaceline looks for. GO is honoured,
# and what go itself heeds: CC, GOOS, GOARCH, GOEXPERIMENT. GPU=1 builds CUDA in, for which
# core/cuda/go.sh fetches what it needs; GPU=auto does where that is here already.
#
# What is built does not depend on where: two clones give the same bytes. No thread
# of a host waits in the dynamic linker for a function's first call, as all symbols
# are bound while the library is loaded. --wrap: loading.c says why.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || { echo "capi/build.sh: no folder named" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
abi=$(sed -n 's/^#define PACELINE_ABI_VERSION \([0-9]*\)$/\1/p' "$root/include/paceline.h")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A file of its own, as ld's arguments can hold no path with a space.
printf 'PACELINE_%s {\n  global: paceline_*;\n  local: *;\n};\n' "$abi" >"$scratch/exports.map"
cd "$root"
go=${GO:-go}
case ${GPU:-0} in
  0) ;;
  1) go=core/cuda/go.sh ;;
  auto)
    if core/cuda/headers.sh --check build/cuda && [ -f core/cuda/kernels.zip ]; then
      go=core/cuda/go.sh
    else
      echo "paceline: CUDA's headers are not here: the library is built without CUDA (GPU=1 fetches them)" >&2
    fi
    ;;
  *) echo "capi/build.sh: GPU is '$GPU', must be 0, 1 or auto" >&2; exit 2 ;;
esac
"$go" build -buildmode=c-shared -trimpath -buildvcs=false -mod=readonly "$@" \
  -ldflags "-s -w -buildid= -B none -extldflags=-Wl,--version-script=$scratch/exports.map,-soname,libpaceline.so.$abi,-z,relro,-z,now,--wrap=pthread_create" \
  -o "$scratch/libpaceline.so" ./capi/libpaceline
mv "$scratch/libpaceline.so" "$folder/libpaceline.so.$abi"
ln -sf "libpaceline.so.$abi" "$folder/libpaceline.so"
