#!/bin/sh
# Looks at every page of a built site in a browser: axe's accessibility rules, narrow and wide, in both schemes.
#
#     docs/check/run.sh site folder    folder: for the tools, and for images with IMAGES=1
set -eu
here=$(cd "$(dirname "$0")" && pwd) site=$(cd "$1" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ] || ! command -v npm >/dev/null; then
  echo "left out: the pages were not looked at: chromium and npm are needed (Debian: apt-get install chromium npm)"
  exit 0
fi
mkdir -p "$2" && folder=$(cd "$2" && pwd)
cp "$here/package.json" "$here/look.mjs" "$folder/"
(cd "$folder" && npm install --silent --no-audit --no-fund)
cd "$folder" && exec node look.mjs "$site" "$browser"
