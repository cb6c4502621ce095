#!/bin/sh
# Installs a wheel for each of several Pythons, outside the tree, and tests it there.
#
#     python/wheels/test.sh wheel [python ...]
#
# pythons: none: all CPythons from 3.10 on that are found on PATH and among pyenv's. The
# first one runs the whole suite (python/tests), the others smoke.py and what looks at
# the package, the process and the C interface: $SOME. Each has a new environment,
# with what the tests ask for, in a folder that is removed afterwards. Free-threaded
# ones run the whole suite, too, but without packages that not all have wheels for
# them: tests of these are left out.
set -eu
SOME="test_wheel.py test_ffi.py test_import.py test_cli.py test_process.py test_signals.py test_console.py test_rows.py test_masks.py test_threads.py"
NAME='import sys, sysconfig; name = "%d.%d.%d" % sys.version_info[:3] + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))'
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -f "${1:-}" ] || { echo "python/wheels/test.sh: the wheel '${1:-}' is not there: make wheel" >&2; exit 1; }
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT

every() {
  (IFS=:; for folder in $PATH; do ls "$folder"/python3.1[0-9] "$folder"/python3.1[0-9]t; done
  ls "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3.1[0-9] "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3.1[0-9]t) 2>/dev/null |
    while read -r python; do
      # One of each version; shims that are for no version do not run.
      "$python" -c "$NAME; import venv, ensurepip; print(name, sys.executable)" 2>/dev/null || continue
    done | sort -u -k1,1V | sed 's/^[^ ]* //'
}
[ $# -gt 0 ] || set -- $(every)
[ $# -gt 0 ] || { echo "python/wheels/test.sh: no Python 3.10 or newer was found: name some in PYTHONS" >&2; exit 1; }

# The tests, and what they compare the installed files with; no checkout's package is on any path.
mkdir "$outside/tree"
(cd "$root" && tar -cf - --exclude=__pycache__ --exclude=python/paceline/lib --exclude=python/paceline/include \
  pyproject.toml Makefile README.md CHANGELOG.md examples include core capi python) | tar -xf - -C "$outside/tree"

first=1 failed=
for python; do
  environment=$outside/environment
  rm -rf "$environment"
  name=$("$python" -c "$NAME; print(name)")
  tests=$(for t in $SOME; do echo "python/tests/$t"; done) extra= with="pytest pytest-timeout pytest-xdist"
  case $name in
    *t) tests=python/tests ;;
    *) [ -z "$first" ] || tests=python/tests extra='[test]' with= first= ;;
  esac
  # Of a package whose newest version has no wheel for this Python an older one is taken.
  if "$python" -m venv "$environment" &&
    "$environment/bin/python" -m pip --disable-pip-version-check --quiet install --prefer-binary "$wheel$extra" $with &&
    (cd "$outside/tree" && "$environment/bin/python" python/wheels/smoke.py "$environment" &&
      "$environment/bin/python" -m pytest -q -p no:cacheprovider -n 2 --dist worksteal $tests); then
    echo "Python $name ok"
  else
    echo "Python $name FAILED"
    failed="$failed $name"
  fi
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
