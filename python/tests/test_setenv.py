"""The library never changes the environment of its process: a setenv beside a getenv of another thread is a crash (ray#62028)."""

import re
from pathlib import Path

import pytest

import paceline

ROOT = Path(__file__).resolve().parents[2]
GO_AND_C = r"\b(os|syscall|unix)\.(Setenv|Unsetenv|Clearenv)\(|\b(set|put|unset|clear)env\("
PYTHON = r"\benviron(\[[^\]]*\] *(\|=|=[^=])| *\|=|\.(update|setdefault|pop|popitem|clear)\()|\bdel +(os\.)?environ\["
WRITES = re.compile(f"{GO_AND_C}|{PYTHON}")
SOURCES = {"core": ("go", "c", "h"), "capi": ("go", "c", "h"), "include": ("h", "hpp"), "python/paceline": ("py",)}
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int seen(const char *name, void *caller) {
  Dl_info info;
  if (dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libpaceline")) {
    fprintf(stderr, "%s called by %s\n", name, info.dli_fname);
    abort();
  }
  return 0;
}
int setenv(const char *n, const char *v, int o) {
  seen("setenv", __builtin_return_address(0));
  return ((int (*)(const char *, const char *, int))dlsym(RTLD_NEXT, "setenv"))(n, v, o);
}
int putenv(char *s) {
  seen("putenv", __builtin_return_address(0));
  return ((int (*)(char *))dlsym(RTLD_NEXT, "putenv"))(s);
}
int unsetenv(const char *n) {
  seen("unsetenv", __builtin_return_address(0));
  return ((int (*)(const char *))dlsym(RTLD_NEXT, "unsetenv"))(n);
}
"""


@pytest.mark.parametrize(
    "line",
    ['os.Setenv("A", "1")', "syscall.Unsetenv(name)", 'setenv("A", "1", 1);', "clearenv();", 'os.environ["A"] = "1"', "os.environ |= more",
     "environ.update(more)", 'os.environ.pop("A")', 'del os.environ["A"]', 'os.putenv("A", "1")'],
)  # fmt: skip
def test_writes_are_found(line):
    assert WRITES.search(line)


@pytest.mark.parametrize(
    "line", ['os.environ["A"] == "1"', 'os.environ.get("A")', "env = {**os.environ}", 'getenv("A")', "os.environ | more"]
)
def test_reads_are_no_writes(line):
    assert not WRITES.search(line)


def test_no_source_writes_the_environment():
    if not (ROOT / "core").is_dir():
        pytest.skip("no checkout around the tests")
    found = []
    for folder, suffixes in SOURCES.items():
        paths = [path for suffix in suffixes for path in (ROOT / folder).rglob(f"*.{suffix}")]
        assert paths
        for path in paths:
            if path.name.endswith("_test.go") or any(part.endswith("test") or part == "software" for part in path.parts):
                continue  # for tests
            found += [f"{path.relative_to(ROOT)}: {line.strip()}" for line in path.read_text().splitlines() if WRITES.search(line)]
    assert not found


def test_no_call_of_the_library_writes_the_environment(process, compile_c):
    shim = compile_c(SHIM, "shim.so", "-shared", "-fPIC", "-ldl")
    done = process(
        """
import paceline
with paceline.Gorila("MlpPolicy", "CartPole-v1", bundles=2, learning_starts=64, buffer_size=4000, seed=1) as model:
    model.learn(400)
    model.save("run", replay=True)
with paceline.Gorila.load("run") as model:
    model.learn(100, reset_num_timesteps=False)
    theta = model.get_parameters()
with paceline.DQN("MlpPolicy", "CartPole-v1", updates="outside", learning_starts=64, buffer_size=4000, seed=1) as model:
    with paceline.Store(model.flat_parameters()) as store:
        model.begin(200)
        while (g := model.gradient()) is not None:
            store.push(g.grad, g.learning_rate, store.version, (0, 0, g.number))
            model.adopt(*store.pull())
print("trained")
""",
        env={"LD_PRELOAD": str(shim)},
        options=(),
    )
    assert done.stdout.split() == ["trained"] and "called by" not in done.stderr
    assert paceline.__version__
