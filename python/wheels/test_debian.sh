#!/bin/sh
# Runs smoke.py with a wheel in other releases of Debian, each with its own C library.
#
#     python/wheels/test_debian.sh python folder wheel release ...
#
# As root, with debootstrap. A release is unpacked below the folder and stays there. python:
# this machine's own, whose pip fetches what the wheel asks for. A release whose own Python
# is older than 3.10 gets the one of $SOURCE, compiled there (some minutes).
set -eu
SOURCE=python3.13_3.13.5.orig.tar.xz MIRROR=${MIRROR:-http://deb.debian.org/debian}
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "paceline: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null || fail "other releases of Debian need root and debootstrap (Debian: apt-get install debootstrap)"
python=$1 wheel=$3
[ -f "$wheel" ] || fail "the wheel '$wheel' is not there: make wheel"
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 3

inside() { # release, command: with mounts that end with it
  in=$folder/$1 && shift
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$in" "$@"
}
compile() { # release
  inside "$1" env DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get -q -q update && apt-get -q -q install -y --no-install-recommends gcc make libc6-dev libffi-dev zlib1g-dev xz-utils curl >/dev/null'
  mkdir -p "$folder/$1/src"
  inside "$1" sh -e -c 'cd /src && curl -sSf "$0" | tar -xJf - && cd Python-* && { ./configure -q --disable-test-modules && make -j"$(nproc)" && make install; } >log 2>&1 || { tail log; exit 1; }' \
    "$MIRROR/pool/main/p/python3.13/$SOURCE"
}

for release; do
  at=$folder/$release
  if [ ! -e "$at/.made" ]; then
    rm -rf "$at"
    debootstrap --variant=minbase --include=python3 "$release" "$at" "$MIRROR" >"$at.log" 2>&1 || { tail "$at.log"; exit 1; }
    inside "$release" python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || compile "$release"
    touch "$at/.made"
  fi
  command=$(inside "$release" sh -c 'ls /usr/local/bin/python3 2>/dev/null || echo /usr/bin/python3')
  version=$(inside "$release" "$command" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  glibc=$(inside "$release" "$command" -c 'import platform; print(platform.libc_ver()[1])')
  # What pip there would take: wheels for its glibc and for older ones.
  platforms=$(for minor in $(seq 17 "${glibc#2.}"); do echo "--platform manylinux_2_${minor}_x86_64"; done)
  rm -rf "$at/site"
  "$python" -m pip --disable-pip-version-check --quiet install --target "$at/site" --python-version "$version" --implementation cp \
    $platforms --platform manylinux2014_x86_64 --only-binary :all: "$wheel"
  cp "$here/smoke.py" "$at/site/"
  echo "$release, glibc $glibc, Python $version:"
  inside "$release" env PYTHONPATH=/site "$command" /site/smoke.py /site
done
