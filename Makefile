# Everything that is done to this repository. `make` alone lists the targets.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo learn bench test test-go test-c test-py test-torch race lib wheel sdist check clean

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet

# What the installed package is made of: when one of these changes, the next
# target that needs the package installs it again, and not otherwise.
SOURCES := $(shell find core capi include python/paceline -type f \
	\( -name '*.go' -o -name '*.c' -o -name '*.h' -o -name '*.hpp' -o -name '*.py' -o -name '*.map' -o -name 'py.typed' \) \
	-not -name '*_test.go' -not -path 'python/paceline/include/*' -not -path '*/testdata/*' -not -path 'capi/ctest/*') \
	go.mod go.sum setup.py pyproject.toml MANIFEST.in $(wildcard README.md)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ------------------------------------------------------------ environment

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "paceline needs Python 3.10 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install 'setuptools>=77' wheel build
	@touch $@

$(VENV)/.package: $(VENV)/.made $(SOURCES)
	@rm -rf build $(VENV)/wheel
	$(PIP) wheel --no-build-isolation --no-deps --wheel-dir $(VENV)/wheel .
	$(PIP) install $(VENV)/wheel/*.whl
	$(PIP) install --force-reinstall --no-deps $(VENV)/wheel/*.whl
	@touch $@

$(VENV)/.test: $(VENV)/.package
	$(PIP) install "$$(ls $(VENV)/wheel/*.whl)[test]"
	@touch $@

# A demonstration without Atari is better than none.
$(VENV)/.atari: $(VENV)/.package
	@$(PIP) install 'ale-py>=0.11' || echo "ale-py could not be installed: Pong will be left out"
	@touch $@

$(VENV)/.torch: $(VENV)/.made
	$(PIP) install torch numpy
	@touch $@

# ------------------------------------------------------------ to look at

demo: $(VENV)/.atari ## train CartPole, Catch and Atari Pong, compare the four modes (under 10 minutes)
	@$(PY) examples/python/demo.py

learn: $(VENV)/.package ## three seeds of CartPole, Catch and Bricks, in standard mode and with both switches on
	@$(PY) examples/python/learn.py

bench: $(VENV)/.atari ## print the tables of the README: update time, four modes, Pong
	@$(PY) -m paceline bench update
	@$(PY) -m paceline bench modes
	@$(PY) -m paceline bench pong

# ------------------------------------------------------------------ tests

test: test-go test-c test-py ## all tests: Go, C, Python (under 10 minutes)
	@echo "left out: make test-torch (needs PyTorch), make race and make learn (take longer), the comparison with stable-baselines3 where it is not installed"

test-go: ## Go tests, and those of core/ without cgo
	go test ./...
	CGO_ENABLED=0 go test ./core/...

test-c: ## C programs against the library
	sh capi/ctest/run.sh

test-py: $(VENV)/.test ## Python tests against the installed package
	$(PY) -m pytest

test-torch: $(VENV)/.torch ## recompute PyTorch's side of the comparison and compare
	$(PY) core/nn/testdata/generate_reference.py $(abspath $(VENV))/reference.json
	PACELINE_TORCH_REFERENCE=$(abspath $(VENV))/reference.json go test -count=1 -run TestAgainstTorch ./core/nn

race: ## Go tests under the race detector
	go test -race -short ./core/... ./capi

check: ## formatting, vet
	@unformatted=$$(gofmt -l capi core include examples); \
		if [ -n "$$unformatted" ]; then echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...

# ------------------------------------------------------------ to ship

lib: ## the library alone: lib/libpaceline.so and its header
	@mkdir -p lib
	go build -buildmode=c-shared -trimpath -buildvcs=false \
		-ldflags "-s -w -extldflags=-Wl,--version-script=$(abspath capi/exports.map)" -o lib/libpaceline.so ./capi
	@rm -f lib/libpaceline.h
	@cp include/*.h* lib/

wheel: $(VENV)/.made ## dist/*.whl, one for every Python 3 on this platform
	@rm -rf build
	$(PY) -m build --no-isolation --wheel

sdist: $(VENV)/.made ## dist/*.tar.gz
	$(PY) -m build --no-isolation --sdist

clean: ## remove everything that was built
	rm -rf $(VENV) build dist lib python/*.egg-info python/paceline/lib python/paceline/include
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
