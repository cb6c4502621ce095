"""Importing is light: no library, no thread."""


def test_import_loads_nothing(process):
    process(
        """
import sys, paceline
assert paceline.__version__
assert not {"paceline.vec", "paceline._lib", "paceline._ffi"} & set(sys.modules), sys.modules.keys()
assert "libpaceline" not in open("/proc/self/maps").read()
paceline.DQN, paceline.Policy, paceline.linear
assert "libpaceline" not in open("/proc/self/maps").read()
assert "Threads:\\t1\\n" in open("/proc/self/status").read()
from paceline.config import Config
Config().close()
assert "libpaceline" in open("/proc/self/maps").read()
""",
        # NumPy's own threads are not ours.
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


def test_unknown_names_are_attribute_errors():
    import paceline

    try:
        _ = paceline.nothing
    except AttributeError as err:
        assert "nothing" in str(err)
    else:
        raise AssertionError
    assert "DQN" in dir(paceline)


def test_missing_library_is_a_sentence(process):
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": "/nowhere/libpaceline.so"})
    assert "PacelineError: libpaceline was not found: tried /nowhere/libpaceline.so" in done.stderr


def test_foreign_library_is_a_sentence(process, compile_c):
    other = compile_c("int other(void) { return 1; }", "libother.so", "-shared", "-fPIC")
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": str(other)})
    assert "is not libpaceline" in done.stderr


def test_other_interface_version_is_a_sentence(process, compile_c):
    other = compile_c("int paceline_abi_version(void) { return 99; }", "libold.so", "-shared", "-fPIC")
    done = process("from paceline.config import Config; Config()", check=False, env={"PACELINE_LIBRARY": str(other)})
    assert "VersionError" in done.stderr and "interface version 99" in done.stderr
