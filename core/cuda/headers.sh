#!/bin/sh
# Writes the headers and the library that a build with the tag gpu needs into a folder.
#
#     core/cuda/headers.sh [--check] folder
#
# --check: writes nothing; the exit status is 0 if the folder has the header already.
# folder/include/cuda.h is NVIDIA's, from the wheel $WHEEL, which pip fetches once (PYTHON names a
# Python that has pip). The header is never committed, and nothing of it is shipped.
# folder/lib/libcuda.so satisfies the flag -lcuda of gorgonia.org/cu. It is an empty linker script:
# core/cuda defines the functions, so the library does not need libcuda.so.1.
set -eu
WHEEL=nvidia-cuda-runtime-cu12==12.9.79
check=
[ "${1:-}" != --check ] || { check=1 && shift; }
[ $# -eq 1 ] || { echo "core/cuda/headers.sh: a folder is needed" >&2; exit 2; }
[ -z "$check" ] || exec test "$(cat "$1/include/.from" 2>/dev/null)" = "$WHEEL"
mkdir -p "$1/include" "$1/lib"
echo '/* core/cuda defines the functions of this library. */' >"$1/lib/libcuda.so"
if [ "$(cat "$1/include/.from" 2>/dev/null)" != "$WHEEL" ]; then
  python=${PYTHON:-python3} scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  "$python" -m pip --disable-pip-version-check --quiet download --no-deps --only-binary :all: --dest "$scratch" "$WHEEL" ||
    { echo "paceline: CUDA's headers, the wheel $WHEEL, were not fetched: pip of $python says why (PYTHON names another Python, GPU=0 builds without CUDA)" >&2; exit 1; }
  "$python" -m zipfile -e "$scratch"/*.whl "$scratch"
  cp "$scratch/nvidia/cuda_runtime/include/cuda.h" "$1/include/"
  echo "$WHEEL" >"$1/include/.from"
fi
