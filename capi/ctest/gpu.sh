#!/bin/sh
# On a machine without a GPU the library with CUDA built in behaves as the one without.
#
#     capi/ctest/gpu.sh folder
#
# Builds both below the folder, which is kept so that the next run is quicker. Compares their
# dependencies, sizes, loading times and results of training, without a driver, with a driver that
# does not start, and with core/cuda/software.
# CC, CXX and go's own variables choose the compilers. PACELINE_CUDA_EMULATOR runs the programs of
# another architecture, which are not timed.
set -eu
here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd)
CC=${CC:-cc} run=${PACELINE_CUDA_EMULATOR:-}
mkdir -p "$1" && build=$(cd "$1" && pwd)
fail() { echo "gpu FAILED: $*" >&2; exit 1; }

GPU=0 "$root/capi/build.sh" "$build/without"
GPU=1 "$root/capi/build.sh" "$build/with"
# The kernels are in an archive, which has the names of its entries in plain text.
kernels() { grep -q 'compute_80\.ptx' "$build/with/libpaceline.so"; }
if ! kernels; then
  # If no code opens a device, the linker leaves out the kernels and most of core/cuda. Their size
  # is to be measured here: an overlay adds a file that refers to them.
  cat >"$build/keep" <<'END'
package cuda

func init() {
	keep(Open, (*Device).Free, (*Device).Alloc, (*Device).Pinned, (*Device).Function, (*Device).Stream, (*Device).Event, (*Device).Close,
		(*Memory).Free, (*Pinned).Free, (*Stream).Upload, (*Stream).Download, (*Stream).Copy, (*Stream).Zero, (*Stream).Launch,
		(*Stream).Record, (*Stream).Wait, (*Stream).Synchronize, (*Stream).Capture, (*Stream).Replay, (*Stream).Close,
		(*Event).Done, (*Event).Wait, (*Event).Since, (*Event).Close, (*Graph).Close)
}

//go:noinline
func keep(...any) {}
END
  echo "{\"Replace\": {\"$root/core/cuda/keep.go\": \"$build/keep\"}}" >"$build/overlay.json"
  GPU=1 "$root/capi/build.sh" "$build/with" -overlay="$build/overlay.json"
  kernels || fail "the kernels are not in the library"
fi
without=$build/without/libpaceline.so with=$build/with/libpaceline.so

dynamic() { readelf -d "$1" | grep -E 'NEEDED|SONAME|FLAGS' | sed 's/^ *0x[0-9a-f]* *//'; }
[ "$(dynamic "$without")" = "$(dynamic "$with")" ] || fail "other libraries or flags: $(dynamic "$with")"
public() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort; }
[ "$(public "$without")" = "$(public "$with")" ] || fail "other public symbols"
required() { nm -D --undefined-only "$1" | awk '{ print $2 }' | sort; }
[ "$(required "$without")" = "$(required "$with")" ] || fail "other functions are needed: $(required "$with")"
readelf -lW "$with" | grep -q 'GNU_STACK.*RWE' && fail "the stack can be executed"
more=$(($(stat -Lc %s "$with") - $(stat -Lc %s "$without")))
[ $more -lt 6000000 ] || fail "the library has $more bytes more, must be less than 6,000,000"
packed() { gzip -c "$1" | wc -c; } # the compression of wheels
echo "CUDA is $more bytes of the library, $(($(packed "$with") - $(packed "$without"))) of a wheel"

$CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$root/include" -I"$here" "$here/gpu.c" -o "$build/gpu" -ldl -lpthread -lm
# A driver that lacks all functions except cuInit, which fails.
mkdir -p "$build/bare"
echo 'int cuInit(unsigned f) { return f == 0 ? 999 : 1; }' | $CC -shared -fPIC -x c - -o "$build/bare/libcuda.so.1"

export PACELINE_LIBRARY="$without"
hash=$(timeout 1200 $run "$build/gpu" "no CUDA in it" "") || fail "the library without CUDA: $hash"
hash=$(echo "$hash" | tail -n 1)
export PACELINE_LIBRARY="$with"
attempt() { # name, the driver's folder, the expected text
  if out=$(LD_LIBRARY_PATH=$2 timeout 1200 $run "$build/gpu" "$3" "$hash" 2>&1); then echo "$1: ok"; else fail "$1: $out"; fi
}
if ldconfig -p | grep -q 'libcuda\.so\.1'; then
  echo "left out, as this machine has one: no driver"
else
  attempt "no driver" "" "no NVIDIA driver was found"
fi
attempt "a driver that lacks functions" "$build/bare" "the NVIDIA driver is too old"
if [ -f "$root/core/cuda/software/build.sh" ] || [ -n "${PACELINE_SOFTWARE:-}" ]; then
  software=${PACELINE_SOFTWARE:-$build/software}
  [ -n "${PACELINE_SOFTWARE:-}" ] || sh "$root/core/cuda/software/build.sh" "$software"
  PACELINE_SOFTWARE_FAIL=cuInit:1:999 attempt "a driver that does not start" "$software" "the NVIDIA driver did not start"
  attempt "a driver that works" "$software" '"device":"cuda:0"'
  [ ! -e "$build/log" ] || rm "$build/log"
  PACELINE_SOFTWARE_LOG=$build/log LD_LIBRARY_PATH=$software $run "$build/gpu" load >/dev/null
  [ ! -e "$build/log" ] || fail "loading calls the driver"
fi

[ -z "$run" ] || exit 0
# Alternating, because the machine's speed changes.
best() { printf '%s\n' "$@" | sort -n | head -n 1; }
a= b=
for i in 1 2 3 4 5; do
  a="$a $(PACELINE_LIBRARY=$without "$build/gpu" load)" b="$b $(PACELINE_LIBRARY=$with "$build/gpu" load)"
done
a=$(best $a) b=$(best $b)
echo "loading and a first call: $a ms without CUDA, $b ms with it"
awk "BEGIN { exit !($b < 1.1 * $a + 1) }" || fail "it loads more slowly"
