# The targets of this repository. `make` alone lists those for every day, `make help-all` lists all.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: always help help-all demo learn learn-sb3 bench bench-peers test test-all test-go test-go-all test-c-all test-py-slow test-go test-c test-py test-atari test-gymnasium soak check-deep test-cycles test-gpu test-gpu-arm64 test-kernels test-cuda test-cuda-build fuzz-atari fuzz-load test-torch test-ray test-sb3 test-portable test-math test-arm64 arm64-tools race lib absolute-prefix install uninstall wheel wheel-all release wheel-test wheel-test-arm64 wheel-test-debian wheel-bench sdist check check-each docs docs-check bench-report clean

PYTHON ?= python3
VENV := .venv
WHEELS := $(VENV)/wheels
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet

# GPU=1 builds CUDA in and fetches NVIDIA's headers and compiler from PyPI.
GPU ?= 0
export GPU

# The sources of the installed package. A target that needs the package installs it again only if one
# of these has changed.
SOURCES := $(shell find core capi include python/paceline -type f \
	\( -name '*.go' -o -name '*.[chsS]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.[ch]pp' -o -name '*.py' -o -name '*.json' -o -name '*.txt' -o -name 'py.typed' \) \
	-not -name '*_test.go' -not -path 'python/paceline/include/*' -not -path '*/testdata/*' -not -path 'capi/ctest/*') \
	capi/build.sh capi/install.sh $(wildcard core/cuda/*.sh core/cuda/*.py) $(wildcard capi/package/*) THIRD_PARTY_LICENSES go.mod go.sum setup.py pyproject.toml MANIFEST.in $(wildcard README.md)

# The targets that `make` alone lists, in this order. Missing targets are skipped.
HELP := demo test test-all check docs bench-report install wheel help-all

help:
	@for target in $(HELP); do awk -F ':.*## ' -v target=$$target '$$1 == target && NF > 1 { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST); done

help-all: ## list every target
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ------------------------------------------------------------ environment

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "paceline needs Python 3.10 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install 'setuptools>=77'
	@touch $@

# This file changes when the variable GPU changes.
$(VENV)/.gpu: $(VENV)/.made always
	@echo $(GPU) | cmp -s - $@ || echo $(GPU) >$@

$(VENV)/.wheel: $(VENV)/.made $(VENV)/.gpu $(SOURCES)
	@echo "building the package, which takes minutes the first time"
	@rm -rf build/lib* build/bdist* build/temp* $(VENV)/wheel
	@$(PIP) wheel --no-build-isolation --no-deps --wheel-dir $(VENV)/wheel .
	@touch $@

# With make -j these are installed while the compilers run.
$(VENV)/.needs: $(VENV)/.made pyproject.toml
	@$(PIP) install $$(sed -n 's/^dependencies = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
	@touch $@

$(VENV)/.package: $(VENV)/.wheel $(VENV)/.needs
	@$(PIP) install --force-reinstall --no-deps $(VENV)/wheel/*.whl
	@touch $@

$(VENV)/.test: $(VENV)/.package
	@$(PIP) install "$$(ls $(VENV)/wheel/*.whl)[test]"
	@touch $@

# The demonstration also works without Atari and without images.
$(VENV)/.atari: $(VENV)/.needs
	@$(PIP) install 'ale-py>=0.11' || echo "ale-py could not be installed: Pong will be left out"
	@touch $@

$(VENV)/.plot: $(VENV)/.atari
	@$(PIP) install matplotlib pillow || echo "matplotlib could not be installed: there will be no images"
	@touch $@

$(VENV)/.torch: $(VENV)/.made
	$(PIP) install torch numpy
	@touch $@

# -------------------------------------------------- demonstration and benchmarks

# With -j2 pip installs the dependencies while the compilers run.
demo: ## train on CartPole, Catch and Atari Pong, with curves and a GIF of the agents (4 minutes; 2 of them build)
	@$(MAKE) --no-print-directory -s -j2 $(VENV)/.wheel $(VENV)/.plot
	@$(MAKE) --no-print-directory -s $(VENV)/.package
	@$(PY) examples/python/demo.py --output build

learn: $(VENV)/.package ## train on CartPole, Catch, Bricks and Pendulum with DQN (standard mode, concurrent and synchronized) and the other methods, three seeds each
	@$(PY) examples/python/learn.py

learn-sb3: $(VENV)/.package $(VENV)/.torch ## compare A2C and PPO with stable-baselines3's: seconds and returns of three seeds (30 minutes)
	@$(PIP) install 'stable-baselines3>=2.3'
	@$(PY) examples/python/learn.py --sb3

bench: $(VENV)/.package ## print update times, calls, the four modes, Pong and vectors of Atari games
	@$(MAKE) --no-print-directory $(VENV)/.atari
	@$(PY) -m paceline bench update
	@$(PY) -m paceline bench ffi
	@$(PY) python/benchmarks/modes.py --step-ms 0,0.5,2,5,20 --steps 600
	@$(PY) python/benchmarks/pong.py
	@$(PY) -m paceline bench envs

bench-peers: $(VENV)/.package $(VENV)/peers/.made ## compare training with stable-baselines3, PyTorch and EnvPool (12 minutes; installs some gigabytes once)
	$(VENV)/peers/bin/python -m pip --disable-pip-version-check --quiet install --force-reinstall --no-deps $(VENV)/wheel/*.whl
	@$(VENV)/peers/bin/python python/benchmarks/train.py
	@$(VENV)/peers/bin/python python/benchmarks/onpolicy.py

$(VENV)/peers/.made: $(VENV)/.made
	$(PYTHON) -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip --disable-pip-version-check --quiet install 'stable-baselines3==2.9.*' 'envpool==1.2.5' ale-py opencv-python-headless 'ray==2.60.*'
	@touch $@

# ------------------------------------------------------------------ tests

# Slow tests are marked by testing.Short() in Go, @pytest.mark.slow in Python and `slow` in run.sh.
test: $(VENV)/.test test-go test-c test-py ## Go, C and Python tests, without the slow ones (5 minutes on two fast cores)
	@echo "left out: slow tests, and those of what is not installed here; make test-all runs them"

test-all: $(VENV)/.test test-go-all test-c-all test-py-slow test-kernels test-gpu ## the tests that make test leaves out: slow ones, no cgo, GPU in software, stable-baselines3 (fetches some gigabytes)
	@if $(MAKE) --no-print-directory $(VENV)/sb3/.made; then $(MAKE) --no-print-directory test-sb3; \
		else echo "left out: the comparisons with stable-baselines3, which could not be installed"; fi
	@echo "left out: tests that need a GPU (make test-cuda), an emulator (make test-arm64, make test-gpu-arm64) or a wheel (make wheel-test), long ones (make test-portable, make test-math, make test-atari), Ray (make test-ray), and random ones (make check-deep, make soak)"

# Atari ROMs are the user's, in PACELINE_ROMS_DIR; otherwise those of an installed ale-py.
ROMS = $(or $(PACELINE_ROMS_DIR),$(shell [ ! -x $(PY) ] || $(PY) -c \
	'import importlib.util as u; s = u.find_spec("ale_py"); print(s.submodule_search_locations[0] + "/roms" if s else "")' 2>/dev/null))

# The number of packages tested at the same time: one more than processors, because some tests wait.
PACKAGES = $(shell echo $$(($$(nproc) + 1)))

# The flags of capi/build.sh, so that tests and library use the same compiled packages.
AS_LIBRARY := -trimpath -buildmode=pie

# The packages that have tests.
tested = $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(1))

# -ldflags=-w leaves out the debugger's tables: with them, linking takes twice as long.
test-go: ## Go tests, without the slow ones
	@PACELINE_ROMS_DIR="$(ROMS)" go test $(AS_LIBRARY) -ldflags=-w -p $(PACKAGES) -timeout 1h -short $(call tested,./...)

test-go-all: ## all Go tests, and those of core/ without cgo
	PACELINE_ROMS_DIR="$(ROMS)" go test $(AS_LIBRARY) -p $(PACKAGES) -timeout 1h $(call tested,./...)
	export CGO_ENABLED=0; go test -p $(PACKAGES) -timeout 1h $(call tested,./core/...)
	@go test $(AS_LIBRARY) -count=1 -v -run '^TestGoldenRowsLeftOut$$' ./core/agents/dqn | sed -n 's/.*: golden rows/golden rows/p'

test-kernels: ## the CUDA kernels on the software device, also under sanitizers, and the machine code of every chip (6 minutes; no GPU)
	$(PYTHON) core/cuda/compile.py
	go test $(AS_LIBRARY) -timeout 1h ./core/cuda
	PACELINE_CUDA_SANITIZER=address go test $(AS_LIBRARY) -count=1 -timeout 1h ./core/cuda
	PACELINE_CUDA_SANITIZER=thread go test $(AS_LIBRARY) -count=1 -timeout 1h ./core/cuda

test-c: ## C tests of the library and of the Atari machine, without the slow ones
	@export PACELINE_ROMS_DIR="$(ROMS)"; sh core/atari/machine/ctest/run.sh -short & atari=$$!; \
		sh capi/ctest/run.sh -short; status=$$?; wait $$atari && exit $$status

test-c-all: ## all C tests
	PACELINE_ROMS_DIR="$(ROMS)" sh capi/ctest/run.sh
	PACELINE_ROMS_DIR="$(ROMS)" sh core/atari/machine/ctest/run.sh

fuzz-atari: ## random bytes as Atari cartridges and states, under sanitizers (6 minutes; needs clang)
	sh core/atari/machine/ctest/run.sh fuzz

check-deep: ## sanitizers, valgrind, race detector and fuzzing, each for SECONDS (600); needs clang and valgrind (2 hours)
	PACELINE_ROMS_DIR="$(ROMS)" sh capi/ctest/deep.sh build/deep $(or $(SECONDS),600) $(PARTS)

test-cycles: lib ## make and free 10,000 objects of every kind: the process must not grow (a minute)
	@mkdir -p build
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -Iinclude -Icapi/ctest capi/ctest/cycles.c -Llib -lpaceline -Wl,-rpath,$(abspath lib) -lpthread -lm -o build/cycles
	build/cycles 10000

fuzz-load: ## load 33,500 damaged checkpoints and policies, kill 200 processes while they save (5 minutes)
	PACELINE_FUZZ_LOAD=6700 PACELINE_KILLS=100 go test -count=1 -v -timeout 1h -run 'TestFuzzLoad|TestKilledWhileSaving' ./core/agents/dqn ./core/agents/a2c

test-py: $(VENV)/.test ## Python tests against the installed package, without the slow ones
	@$(PY) -m pytest -q -rfE --disable-warnings -n 2 --dist worksteal -m "not slow"

test-py-slow: $(VENV)/.test ## the slow Python tests
	$(PY) -m pytest -q -n 2 --dist worksteal -m slow

# ale-py prints to standard error while it loads; the scripts print differences to standard output.
test-atari: $(VENV)/.test ## the long comparisons with ale-py, frame by frame, and with its vector environment (10 minutes)
	$(PY) python/tests/atari/long.py
	$(PY) python/tests/atari/vector.py
	$(PY) python/tests/atari/vector.py --variants --steps 400 breakout seaquest

test-gymnasium: $(VENV)/.test ## Gymnasium's own tests on our vector environments: make test-gymnasium GYMNASIUM=its-checkout (3 minutes)
	@test -d "$(GYMNASIUM)/tests/vector" || { echo "GYMNASIUM: '$(GYMNASIUM)', must be a checkout of Gymnasium (its tests are in no package)"; exit 1; }
	$(PIP) install pygame moviepy opencv-python-headless array-api-compat array-api-extra
	$(PY) python/tests/gymnasium_suite.py $(GYMNASIUM)

soak: $(VENV)/.test ## random calls on vector environments from several threads (10 minutes)
	$(PY) python/tests/soak.py 10

test-torch: $(VENV)/.test $(VENV)/.torch ## recompute PyTorch's results and compare
	$(PY) core/nn/testdata/generate_reference.py $(abspath $(VENV))/reference.json
	PACELINE_TORCH_REFERENCE=$(abspath $(VENV))/reference.json go test -count=1 -run TestAgainstTorch ./core/nn/cpu
	$(PY) python/tests/on_policy_torch.py

# A separate virtual environment: Ray takes half a gigabyte, and make test runs without it.
$(VENV)/ray/.made: $(VENV)/.made
	$(PYTHON) -m venv $(VENV)/ray
	$(VENV)/ray/bin/python -m pip --disable-pip-version-check --quiet install 'ray==2.60.*'
	@touch $@

test-ray: $(VENV)/.package $(VENV)/ray/.made ## runs on local Ray clusters, with killed processes and nodes (installs Ray once; 3 minutes)
	$(VENV)/ray/bin/python -m pip --disable-pip-version-check --quiet install "$$(ls $(VENV)/wheel/*.whl)[test]"
	$(VENV)/ray/bin/python -m pip --disable-pip-version-check --quiet install --force-reinstall --no-deps $(VENV)/wheel/*.whl
	$(VENV)/ray/bin/python -m pytest -q python/tests/test_ray*.py

# A separate virtual environment: PyTorch takes some gigabytes, and make test runs without PyTorch and
# stable-baselines3.
$(VENV)/sb3/.made: $(VENV)/.made
	$(PYTHON) -m venv $(VENV)/sb3
	$(VENV)/sb3/bin/python -m pip --disable-pip-version-check --quiet install 'stable-baselines3==2.9.*' 'sb3-contrib==2.9.*' 'gymnasium[box2d]' tqdm rich rliable 'pandas<3'
	@touch $@

test-sb3: $(VENV)/.package $(VENV)/sb3/.made ## compare with stable-baselines3 and rliable (installs them once, with PyTorch: some gigabytes)
	$(VENV)/sb3/bin/python -m pip --disable-pip-version-check --quiet install "$$(ls $(VENV)/wheel/*.whl)[test]"
	$(VENV)/sb3/bin/python -m pip --disable-pip-version-check --quiet install --force-reinstall --no-deps $(VENV)/wheel/*.whl
	$(VENV)/sb3/bin/python -m pytest -q -n 2 --dist worksteal $$(grep -l stable_baselines3 python/tests/test_*.py) python/tests/test_swap*.py python/tests/test_scores.py

test-portable: ## isa portable: 1,000 updates of the Nature CNN on every path of this machine (6 minutes)
	PACELINE_LONG=1 go test -count=1 -v -timeout 3h -run TestPortable ./core/agents/...

test-math: ## exp, log and tanh of every float32, on every path of the kernels (30 minutes)
	PACELINE_EVERY_FLOAT=1 go test -count=1 -v -timeout 3h -run TestMathFunctions ./core/kernel

# -skip leaves out tests that start their own program again, which Linux cannot do for another
# processor's program, and tests that read memory flags, which the emulator does not report.
# asyncpreemptoff: Go programs sometimes hang under QEMU if signals interrupt their threads
# (golang.org/issue/36981, 70329).
ARM64_CC := aarch64-linux-gnu-gcc
ARM64_RUN := qemu-aarch64 -L /usr/aarch64-linux-gnu -E GODEBUG=asyncpreemptoff=1
ARM64_CXX := aarch64-linux-gnu-g++
ARM64_PACKAGES := qemu-user gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross
ARM64_ENV := CGO_ENABLED=1 GOOS=linux GOARCH=arm64 CC=$(ARM64_CC)
ARM64_GO := $(ARM64_ENV) go

arm64-tools:
	@have() { command -v qemu-aarch64 && command -v $(ARM64_CC) && command -v $(ARM64_CXX) && ls /usr/aarch64-linux-gnu/lib/crt1.o; }; \
		if have >/dev/null 2>&1; then exit 0; fi; \
		if [ "$$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then \
			echo "tests for arm64 need cross compilers and an emulator: install them (Debian: apt-get install $(ARM64_PACKAGES))"; exit 1; fi; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(ARM64_PACKAGES) >/dev/null

test-arm64: arm64-tools ## Go and C tests built for arm64, under an emulator (a few minutes)
	$(ARM64_GO) vet ./core/... ./capi/...
	$(ARM64_GO) test -short -timeout 1h -exec '$(ARM64_RUN)' -skip '^(TestEnvironmentVariable|TestMappingFlags|TestNoRoomOnTheDisk)$$' ./core/...
	$(ARM64_ENV) capi/build.sh build/arm64
	CC=$(ARM64_CC) sh capi/ctest/arm64.sh build/arm64 /usr/aarch64-linux-gnu

test-gpu: $(VENV)/.test ## CUDA on the software device: Go tests with the tag gpu, the library with and without CUDA, Python tests (6 minutes; no GPU)
	core/cuda/go.sh vet ./...
	core/cuda/go.sh test -timeout 1h ./core/cuda ./core/nn/gpu
	core/cuda/go.sh test -timeout 1h -run GPU ./core/agents/...
	sh capi/ctest/gpu.sh build/gpu
	PACELINE_LIBRARY=$(CURDIR)/build/gpu/with/libpaceline.so PACELINE_SOFTWARE=$(CURDIR)/build/gpu/software $(PY) -m pytest -q python/tests/test_device.py

# The software device is built for arm64, too. The kernels run on the GPU and do not depend on the host: test-kernels tests them.
GPU_ARM64 := $(ARM64_ENV) CXX=$(ARM64_CXX) PACELINE_SOFTWARE=$(CURDIR)/build/gpu-arm64/software PACELINE_CUDA_EMULATOR='$(ARM64_RUN)'

test-gpu-arm64: arm64-tools ## make test-gpu, built for arm64, under an emulator (2 minutes)
	CXX=$(ARM64_CXX) core/cuda/software/build.sh build/gpu-arm64/software
	$(GPU_ARM64) core/cuda/go.sh test -timeout 1h -short -exec '$(ARM64_RUN)' ./core/cuda
	$(GPU_ARM64) sh capi/ctest/gpu.sh build/gpu-arm64

# GPU machines often have no compilers: test-cuda-build builds the tests elsewhere, and build/test-cuda is copied there.
TEST_CUDA := build/test-cuda

test-cuda-build: $(WHEELS)/.made ## build/test-cuda: everything that make test-cuda needs, at most 56 MB; PYTHONS="3.12" adds numpy for Pythons without it (5 minutes)
	python/tests/cuda/build.sh $(WHEELS)/bin/python $(TEST_CUDA)

test-cuda: ## tests and measurements on a GPU, from build/test-cuda: PARTS="go.cuda update", OUT=folder, DEVICE=cuda:1; SOFTWARE=1: on the software device
	@test -f $(TEST_CUDA)/run.sh || { echo "left out: there is no $(TEST_CUDA); make test-cuda-build makes it, on a machine that has Go"; exit 1; }
	@sh $(TEST_CUDA)/run.sh $(PARTS)

race: ## Go tests under the race detector, the kernels' C threads under ThreadSanitizer
	go test -race -short ./core/... ./capi/...
	@mkdir -p build
	$(CC) -g -O1 -std=gnu11 -fsanitize=thread -pthread -o build/team_race core/kernel/testdata/team_race.c core/kernel/team.c
	build/team_race

# The tools are in a virtual environment of their own: they do not change the environment of the tests.
CHECK := $(VENV)/check

$(CHECK)/.made: $(VENV)/.made python/requirements-check.txt
	$(PYTHON) -m venv $(CHECK)
	$(CHECK)/bin/python -m pip --disable-pip-version-check --quiet install -r python/requirements-check.txt
	@touch $@

STATE = { git status --porcelain && git diff; } 2>/dev/null | cksum

check: $(CHECK)/.made ## formatting, vet, tidiness, types, the direction of imports; changes nothing
	@before=$$($(STATE)); $(MAKE) --no-print-directory check-each && \
		{ [ "$$before" = "$$($(STATE))" ] || { echo "the checks changed the working tree:"; git status --porcelain; exit 1; }; }

check-each:
	@unformatted=$$(gofmt -l capi core include examples); \
		if [ -n "$$unformatted" ]; then echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet $(AS_LIBRARY) ./...
	go mod tidy -diff
	go test $(AS_LIBRARY) -count=1 ./core
	find capi core examples include python \( -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' \) -exec $(CHECK)/bin/clang-format --dry-run -Werror {} +
	$(CHECK)/bin/ruff check --quiet --cache-dir $(CHECK)/ruff
	$(CHECK)/bin/ruff format --check --quiet --cache-dir $(CHECK)/ruff
	$(CHECK)/bin/mypy --cache-dir $(CHECK)/mypy --no-error-summary

# ---------------------------------------------------------- documentation

# The tools are pinned, in a virtual environment of their own. mkdocs is not run with --quiet, with
# which strict mode counts no warnings.
DOCS := $(VENV)/docs

$(DOCS)/.made: $(VENV)/.made docs/requirements.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install -r docs/requirements.txt
	@touch $@

docs: $(VENV)/.package $(DOCS)/.made ## build/docs, the documentation (a minute)
	@mkdir -p build
	@PACELINE_PYTHON=$(abspath $(PY)) NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --clean --config-file docs/mkdocs.yml >build/docs.log 2>&1 || { cat build/docs.log; exit 1; }
	@echo "build/docs/index.html"

docs-check: docs ## every page of build/docs in a browser, narrow and wide: axe's accessibility rules (needs chromium and npm)
	@sh docs/check/run.sh build/docs build/docs-check

# BENCHES="update ffi" measures only these. FROM=json measures nothing and writes the tables from the
# existing files.
bench-report: ## measure, then write docs/benchmarks/*.json, the documentation's tables and the chart (hours)
ifneq ($(FROM),json)
	@$(MAKE) --no-print-directory $(VENV)/.package $(VENV)/peers/.made
	$(VENV)/peers/bin/python -m pip --disable-pip-version-check --quiet install --force-reinstall --no-deps $(VENV)/wheel/*.whl
	@$(VENV)/peers/bin/python docs/report.py measure $(BENCHES)
endif
	@$(PYTHON) docs/report.py render

# --------------------------------------------------- library, wheels, release

lib: ## lib/: libpaceline.so and its headers (GPU=1: with CUDA)
	capi/build.sh lib
	@cp include/*.h* lib/

PREFIX ?= /usr/local
LIBDIR ?= lib

absolute-prefix:
	@case "$(PREFIX)" in /*) ;; *) echo "PREFIX: '$(PREFIX)', must be an absolute path"; exit 1 ;; esac

install: absolute-prefix lib ## install library, headers, pkg-config's and CMake's files below DESTDIR and PREFIX (/usr/local), the library in LIBDIR (lib)
	capi/install.sh install lib "$(DESTDIR)$(PREFIX)" "$(LIBDIR:$(PREFIX)/%=%)"

uninstall: absolute-prefix ## remove what make install has installed below DESTDIR and PREFIX
	capi/install.sh remove "$(DESTDIR)$(PREFIX)" "$(LIBDIR:$(PREFIX)/%=%)"

# The tools are pinned because other versions may give other bytes.
$(WHEELS)/.made: $(VENV)/.made python/wheels/requirements.txt
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/python -m pip --disable-pip-version-check --quiet install -r python/wheels/requirements.txt
	@touch $@

# build.sh --check looks for compilers before any tool is installed.
wheel: ## dist/*.whl for this machine's architecture, every Python 3 and glibc 2.17 or newer (GPU=1: with CUDA)
	@python/wheels/build.sh --check
	@$(MAKE) --no-print-directory $(WHEELS)/.made
	python/wheels/build.sh $(WHEELS)/bin/python dist
	@[ "$$(uname -m)" = x86_64 ] && other=aarch64 || other=x86_64; echo "left out: the wheel for $$other, which make wheel-all builds (it needs $$other-linux-gnu-gcc)"

wheel-all: ## the wheels for x86_64 and aarch64
	@python/wheels/build.sh --check x86_64 aarch64
	@$(MAKE) --no-print-directory $(WHEELS)/.made
	python/wheels/build.sh $(WHEELS)/bin/python dist x86_64 aarch64

X86_64_WHEEL = $$(ls -d dist/paceline-*-manylinux_*_x86_64.whl)
AARCH64_WHEEL = $$(ls -d dist/paceline-*-manylinux_*_aarch64.whl)

wheel-test: ## test the wheel of make wheel in new environments: make wheel-test PYTHONS="python3.12 python3.14" (the first runs all tests)
	python/wheels/test.sh "$(X86_64_WHEEL)" $(PYTHONS)

wheel-test-arm64: $(VENV)/.made ## test the aarch64 wheel under an emulator (a few minutes)
	python/wheels/test_arm64.sh $(PY) build/debian "$(AARCH64_WHEEL)"

DEBIANS ?= bullseye sid

wheel-test-debian: $(VENV)/.made ## test the wheel of make wheel in other releases of Debian: DEBIANS="bullseye sid" (20 minutes; root, debootstrap)
	python/wheels/test_debian.sh $(PY) build/debian "$(X86_64_WHEEL)" $(DEBIANS)

wheel-bench: $(VENV)/.test lib ## compare the speed of the wheel's library with that of this machine's compiler (some minutes)
	$(PY) python/wheels/compare.py build/wheels/$$(uname -m)/libpaceline.so lib/libpaceline.so

sdist: $(VENV)/.made ## dist/*.tar.gz
	$(PIP) install build
	$(PY) -m build --no-isolation --sdist

release: ## dist/: wheels, source distribution, library and headers, documentation, SHA256SUMS (needs a clean checkout and the tools of make wheel-all)
	@.ci/release

clean: ## remove everything that was built
	rm -rf $(VENV) build dist lib python/*.egg-info python/paceline/lib python/paceline/include
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
