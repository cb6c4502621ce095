#!/bin/sh
# Runs the tests on a GPU with run.py, which documents the arguments. $PYTHON is the interpreter.
exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
