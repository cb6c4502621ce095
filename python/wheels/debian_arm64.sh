#!/bin/sh
# Unpacks Debian's arm64 Python, with its C library and what NumPy needs, into a folder; installs nothing here.
#
#     python/wheels/debian_arm64.sh folder
#
# The release is that of this machine's own package sources.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ ! -e "$folder/.made" ] || exit 0
apt=$folder.apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$folder"
: >"$apt/status"
get() {
  apt-get -q -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$apt/lists" \
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" \
    -o Debug::NoLocking=1 -o APT::Install-Recommends=false "$@"
}
get update
get --yes --download-only install python3 libpython3-stdlib libstdc++6 >/dev/null
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$apt"
touch "$folder/.made"
