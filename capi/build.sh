#!/bin/sh
# Builds the library.
#
#     capi/build.sh folder [argument of go build ...]
#
# Builds folder/libpaceline.so.N, where N is PACELINE_ABI_VERSION, and the link
# folder/libpaceline.so, which -lpaceline looks for. The variable GO names the go command; go
# itself reads CC, GOOS, GOARCH and GOEXPERIMENT. GPU=1 builds CUDA in; core/cuda/go.sh fetches
# what that needs. GPU=auto builds CUDA in if it was fetched before.
#
# The bytes do not depend on the folder of the checkout. All symbols are bound at loading (-z now),
# so no thread of a host waits in the dynamic linker at a function's first call. loading.c
# explains --wrap.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || { echo "capi/build.sh: no folder named" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
abi=$(sed -n 's/^#define PACELINE_ABI_VERSION \([0-9]*\)$/\1/p' "$root/include/paceline.h")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# ld reads the version script from the scratch folder: its arguments cannot have a path with a space.
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
