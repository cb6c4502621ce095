#!/bin/sh
# Builds the folder of the tests on a GPU, for a machine without Go, compiler and network.
#
#     python/tests/cuda/build.sh python folder
#
# python: a Python with the packages of python/wheels/requirements.txt. The folder gets the wheel with
# CUDA, the Go test programs, the program that runs kernels, the software device, Atari's ROMs (in
# ale-py's wheel), the wheels that paceline needs, and run.sh, which runs the tests. It also gets a
# numpy wheel for each Python version in $PYTHONS (none: the machine has numpy).
set -eu
PYTHONS=${PYTHONS-}
LIMIT=56000000 # bytes: a machine accepts 64 MiB, including the working tree
root=$(cd "$(dirname "$0")/../../.." && pwd)
[ $# -eq 2 ] || { echo "python/tests/cuda/build.sh: a python and a folder are needed" >&2; exit 2; }
case $1 in /*) python=$1 ;; *) python=$PWD/$1 ;; esac
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cd "$root"
arch=$(uname -m)
rm -rf "$folder/wheels" "$folder/roms" "$folder/go" "$folder/software"
mkdir -p "$folder/wheels" "$folder/roms" "$folder/go" "$folder/software"

GPU=1 python/wheels/build.sh "$python" "$folder/wheels" "$arch"

# The Go programs share most of their code: compressed together, they shrink to a tenth.
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
for package in cuda nn/gpu agents/dqn agents/a2c agents/ppo agents/pqn; do
  name=$(basename "$package")
  mkdir -p "$folder/go/$name" # the program's working directory
  touch "$folder/go/$name/.keep"
  core/cuda/go.sh test -c -trimpath -ldflags '-s -w' -o "$programs/$name.test" "./core/$package"
done
"$python" - "$programs" "$folder/go/programs.tar.xz" <<'EOF'
import lzma, sys, tarfile
from pathlib import Path
with lzma.open(sys.argv[2], "wb", filters=[{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 192 << 20}]) as packed:
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for program in sorted(Path(sys.argv[1]).iterdir()):
            archive.add(program, program.name)
EOF
# The parts of TestDevice: each runs in a process of its own.
sed -n 's/^[[:space:]]*{"\([A-Za-z]*\)", .*on\.test.*/\1/p' core/nn/nntest/suite.go >"$folder/go/gpu/suite"
cp core/cuda/kernels.zip "$folder/go/cuda/"
cp -R core/nn/testdata "$folder/go/"
"${CXX:-g++}" -std=c++17 -O2 -pthread -static-libstdc++ -static-libgcc core/cuda/software/server.cpp -ldl -o "$folder/go/server"
core/cuda/software/build.sh build/cuda/software
cp build/cuda/software/libcuda.so.1 "$folder/software/"

fetch() { # into, version of Python, packages
  into=$1 version=$2 && shift 2
  "$python" -m pip --disable-pip-version-check --quiet download --no-deps --only-binary :all: --python-version "$version" --implementation cp \
    --platform "manylinux_2_28_$arch" --platform "manylinux_2_27_$arch" --platform "manylinux_2_17_$arch" --platform "manylinux2014_$arch" --dest "$into" "$@"
}
for version in $PYTHONS; do
  fetch "$folder/wheels" "$version" numpy
done
fetch "$folder/wheels" 3.12 gymnasium cloudpickle farama-notifications typing-extensions
fetch "$folder/roms" 3.12 ale-py # for its ROMs: no Python imports it

for name in run.sh run.py steps.py bits.py acting.py rates.py pong.py; do
  cp "python/tests/cuda/$name" "$folder/"
done
cp python/benchmarks/_command.py python/benchmarks/table1.py "$folder/"
built="$folder/wheels $folder/roms $folder/go $folder/software"
bytes=$(find $built "$folder"/*.sh "$folder"/*.py -type f -exec cat {} + | wc -c)
[ "$bytes" -le $LIMIT ] || { echo "$folder: $bytes bytes, must be at most $LIMIT" >&2; exit 1; }
echo "$folder: $bytes bytes of at most $LIMIT, with numpy for Python ${PYTHONS:-(none)}; sh $folder/run.sh runs it"
