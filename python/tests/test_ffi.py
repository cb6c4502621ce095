"""_ffi.py declares the functions, arguments, constants and struct layouts of paceline.h."""

import ctypes
import re
import subprocess
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path

import pytest

import paceline
from paceline import _ffi, _lib

HEADER = _lib.INCLUDE_DIR / "paceline.h"
if not HEADER.exists():  # the package is used from its sources
    HEADER = Path(__file__).parents[2] / "include" / "paceline.h"

# Functions for C programs only: the library never calls Python.
C_ONLY = {"paceline_trainer_new_table", "paceline_set_callback_error"}

# Python's names of the header's structs: ActOptions is paceline_act_options.
STRUCTS = {"paceline_" + re.sub(r"(?<!^)(?=[A-Z])", "_", struct.__name__).lower(): struct for struct in _ffi.Growable.__subclasses__()}


@pytest.fixture(scope="module")
def header():
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.S)
    return re.sub(r"\s+", " ", text)


def functions(header):
    pattern = r"PACELINE_API (?:PACELINE_MUST_USE )?([\w ]+?[ *]+)(paceline_\w+)\(((?:[^()]|\([^()]*\))*)\);"
    return {name: (result.strip(), arguments) for result, name, arguments in re.findall(pattern, header)}


def fields(struct):
    return [*_ffi.Growable._fields_, *struct._fields_]


def argument_type(text):
    """Returns the ctypes type of a C parameter."""
    text = text.strip()
    kind, stars = re.sub(r"\bconst\b|\w+$", "", text.replace("*", " * ")).split()[0], text.count("*")
    scalars = {
        "int": c_int, "uint8_t": c_uint8, "int32_t": c_int32, "uint32_t": c_uint32, "int64_t": c_int64, "uint64_t": c_uint64,
        "size_t": c_size_t, "float": c_float, "double": c_double,
    }  # fmt: skip
    if stars == 0:
        return scalars[kind]
    if kind == "char":
        static = "const" in text  # a static string, which the caller must not free
        if stars == 2:
            return POINTER(c_char_p) if static else POINTER(c_void_p)
        return c_char_p if static else c_void_p
    if kind in STRUCTS:
        struct = POINTER(STRUCTS[kind])
        return POINTER(struct) if stars == 2 else struct
    if kind.startswith("paceline_"):
        return POINTER(c_void_p) if stars == 2 else c_void_p
    if kind == "void":
        return c_void_p
    return POINTER(POINTER(scalars[kind])) if stars == 2 else POINTER(scalars[kind])


def test_every_function_is_declared(header):
    assert set(functions(header)) - C_ONLY == set(_ffi.PROTOTYPES)


def test_arguments_and_results_equal_the_header(header):
    for name, (result, arguments) in functions(header).items():
        if name not in _ffi.PROTOTYPES:
            continue
        our_result, our_arguments = _ffi.PROTOTYPES[name]
        wanted = [] if arguments.strip() == "void" else [argument_type(a) for a in arguments.split(",")]
        assert our_arguments == wanted, name
        if name == "paceline_abi_version":
            assert our_result is c_int
        elif name == "paceline_last_error_index":
            assert our_result is c_int64
        else:
            assert our_result == {"int": _ffi.STATUS, "void": None, "const char *": c_char_p}[result], name


def test_constants_equal_the_header(header):
    values = dict(re.findall(r"PACELINE_(\w+) = (-?\d+)", header))
    names = "BOX DISCRETE MULTI_DISCRETE HYBRID UINT8 FLOAT32 INT32 TERMINATED TRUNCATED RESET_TIMESTEPS RESET_ENVS SAVE_EXPERIENCE"
    for name in [*names.split(), "NEXT_STEP", "SAME_STEP", "DISABLED"]:
        assert int(values[name]) == getattr(_ffi, name), name
    raw = HEADER.read_text()
    assert f'#define PACELINE_VERSION "{paceline.__version__}"' in raw
    assert f"#define PACELINE_ABI_VERSION {_ffi.ABI_VERSION}" in raw


def test_every_error_has_a_class(header):
    from paceline.errors import BY_STATUS

    values = {name: int(v) for name, v in re.findall(r"PACELINE_(E\w+) = (-\d+)", header)}
    assert set(values.values()) == set(BY_STATUS)


def test_struct_layout_equals_the_compiler(compile_c):
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field, *_ in fields(struct):
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    source = f'#include <stdio.h>\n#include "paceline.h"\nint main(void) {{ {" ".join(lines)} return 0; }}\n'
    program = compile_c(source, "layout", f"-I{HEADER.parent}")
    printed = subprocess.run([program], capture_output=True, text=True, check=True, timeout=300).stdout
    expected = []
    for name, struct in STRUCTS.items():
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for field, *_ in fields(struct):
            place = getattr(struct, field)
            expected.append(f"{name}.{field} {place.offset} {place.size}")
    assert printed.split("\n")[:-1] == expected


def test_structs_have_every_field_of_the_header(header):
    for name, struct in STRUCTS.items():
        body = re.search(r"typedef struct " + name + r" \{([^}]*)\}", header).group(1)
        names = re.findall(r"(\w+)(?:\[\d+\])?[;,]", body)
        assert names == [field for field, *_ in fields(struct)], name


def test_library_and_package_agree():
    lib = _lib.lib()
    assert lib.paceline_version().decode() == paceline.__version__
    assert lib.paceline_abi_version() == _ffi.ABI_VERSION


def test_python_is_never_called_from_the_library():
    """A callback into Python would need the GIL on the library's threads."""
    for file in Path(paceline.__file__).parent.rglob("*.py"):
        assert "CFUNCTYPE" not in file.read_text(), file
