"""Opens files of at most 4 MB that are made to use much memory. argv: a folder. Prints the maximum
use.

Each file is opened as a configuration and as a policy in a separate process, and is refused or
opened.
"""

import contextlib
import ctypes
import json
import os
import struct
import sys
import zipfile
from pathlib import Path

SIZE = 4 << 20
MOST = 100 << 20


def manifest(content: object, parts: object = ()) -> str:
    return json.dumps({"what": "paceline checkpoint", "format": 2, "kind": "policy", "content": content, "parts": parts})


def policy(**changes: object) -> dict[str, object]:
    trunk = {"arch": "mlp", "hidden": [64], "activation": "relu"}
    saved = {"set": "q_net", "env": "CartPole-v1", "dtype": "float32", "shape": [4], "frame_stack": 0, "actions": 2}
    saved |= {"trunks": [trunk], "heads": [{"name": "q", "out": 2}], "precision": "fp32", "head": 0, "kind": "greedy"}
    return {"policy": saved | changes}


def archive(path: Path, how: int, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", how) as z:
        for name, data in files.items():
            z.writestr(name, data)


def write(folder: Path) -> list[Path]:
    """Makes the files."""
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    part = {"name": "q_net.safetensors", "version": 1, "length": 1 << 40, "crc32c": 0}
    wide = [{"arch": "mlp", "hidden": [16000, 16000], "activation": "relu"}]
    head = json.dumps({"w": {"dtype": "F32", "shape": [1 << 30], "data_offsets": [0, 1 << 32]}}).encode()
    some = b"[" + b'"",' * ((SIZE - 400) // 3) + b'""]'
    numbers = b"[" + b"0," * ((SIZE - 400) // 2) + b"0]"
    objects = b"[" + b"{}," * ((SIZE - 400) // 3) + b"{}]"
    cases: dict[str, tuple[int, dict[str, bytes]]] = {
        "bomb": (deflated, {"paceline.json": b" " * (200 << 20)}),
        "bomb in a part": (deflated, {"q_net.safetensors": bytes(200 << 20), "paceline.json": manifest(policy(), [part]).encode()}),
        "wide": (stored, {"q_net.safetensors": b"", "paceline.json": manifest(policy(trunks=wide), [part | {"length": 0}]).encode()}),
        "header": (
            stored,
            {
                "q_net.safetensors": struct.pack("<Q", len(head)) + head,
                "paceline.json": manifest(policy(), [part | {"length": 8 + len(head)}]).encode(),
            },
        ),
        "a long header": (
            stored,
            {
                "q_net.safetensors": struct.pack("<Q", SIZE - 1000) + b" " * (SIZE - 1000),
                "paceline.json": manifest(policy(), [part | {"length": SIZE - 992}]).encode(),
            },
        ),
    }
    for name, text in {"texts": some, "numbers": numbers, "objects": objects}.items():
        for place in ("parts", "content"):
            whole = b'{"what": "paceline checkpoint", "format": 2, "kind": "policy", "%s": %s}' % (place.encode(), text)
            cases[f"{name} in {place}"] = (stored, {"paceline.json": whole})
        for place in ("shape", "trunks", "heads"):
            saved = json.dumps({"policy": {place: 0}}).encode().replace(b": 0", b": " + text)
            whole = b'{"what": "paceline checkpoint", "format": 2, "kind": "policy", "content": %s, "parts": []}' % saved
            cases[f"{name} in {place}"] = (stored, {"paceline.json": whole})
    brackets = b'{"what": "paceline checkpoint", "format": 2, "kind": "policy", "content": ' + b"[" * (SIZE - 400)
    cases["brackets"] = (stored, {"paceline.json": brackets})
    cases["entries"] = (stored, {f"{i}": b"" for i in range(40_000)} | {"paceline.json": b"{}"})
    paths = []
    for name, (how, files) in cases.items():
        paths.append(folder / name)
        archive(paths[-1], how, files)
        assert paths[-1].stat().st_size < SIZE + 100_000, (name, paths[-1].stat().st_size)
    return paths


def peak() -> int:
    """Returns the peak memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def cost(path: Path) -> int:
    """Opens path in this process and returns the increase of its peak memory in bytes."""
    from paceline import _lib
    from paceline.errors import PacelineError

    lib, handle = _lib.lib(), ctypes.c_void_p()
    config = _lib.encode("dqn")
    assert lib.paceline_config_new(ctypes.byref(handle), config) == 0
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = peak()
    for load in (lib.paceline_config_load, lib.paceline_policy_load):
        with contextlib.suppress(PacelineError):
            load(ctypes.byref(handle), os.fsencode(path))
    return peak() - before


most, of = 0, ""
for path in write(Path(sys.argv[1])):
    read, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(out, str(cost(path)).encode())
        os._exit(0)
    os.close(out)
    taken = os.read(read, 100)
    assert os.waitpid(child, 0)[1] == 0 and taken, path.name
    os.close(read)
    if int(taken) > most:
        most, of = int(taken), path.name
    assert int(taken) <= MOST, f"{path.name}: {int(taken) >> 20} MiB, must be at most {MOST >> 20}"
    path.unlink()
print(f"at most {most / 1e6:.0f} MB ({of})")
