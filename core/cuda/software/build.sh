#!/bin/sh
# Builds the software device, its test program, and the program through which tests use it:
#
#	core/cuda/software/build.sh folder [address | thread]
#
# Makes folder/libcuda.so.1, folder/server and folder/selftest. address: with the address and
# undefined-behaviour sanitizers; thread: with the thread sanitizer. Does nothing if the folder was
# built from the same sources with the same flags.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?a folder}"
folder=$(cd "$1" && pwd)
case ${2-} in
  '') flags=-O2 ;;
  address) flags='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer' ;;
  thread) flags='-O1 -g -fsanitize=thread' ;;
  *) echo "build.sh: $2, must be address or thread" >&2; exit 2 ;;
esac
CXX=${CXX:-g++}
made=$(cd "$here/.." && { echo "$CXX $flags"; cat software/*.h software/*.cpp software/build.sh kernels/*.cu kernels/*.cuh; } | cksum)
if [ "$(cat "$folder/made" 2>/dev/null)" = "$made" ] && [ -x "$folder/server" ]; then exit 0; fi
flags="-std=c++17 -fPIC -pthread -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas $flags"
compile() { $CXX $flags -fvisibility=hidden "$@"; }
objects=
for name in block driver streams; do
  compile -c "$here/$name.cpp" -o "$folder/$name.o"
  objects="$objects $folder/$name.o"
done
# The kernels include no host headers, so the compiler includes the shim before them.
for path in "$here"/../kernels/*.cu; do
  name=$(basename "$path" .cu)
  compile -x c++ -include "$here/shim.h" -c "$path" -o "$folder/$name.o"
  objects="$objects $folder/$name.o"
done
$CXX $flags -shared -Wl,-soname,libcuda.so.1 $objects -o "$folder/libcuda.so.1.new"
$CXX $flags "$here/server.cpp" -ldl -o "$folder/server"
rm -f $objects
mv "$folder/libcuda.so.1.new" "$folder/libcuda.so.1"
$CXX $flags "$here/selftest.cpp" "$folder/libcuda.so.1" -Wl,-rpath,"$folder" -o "$folder/selftest"
echo "$made" > "$folder/made"
