#!/bin/sh
# Runs parts of the tests on a GPU, those named or all: see run.py, whose interpreter is $PYTHON.
exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
