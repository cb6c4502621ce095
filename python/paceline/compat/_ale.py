"""ale-py's conventions for paceline.atari: arguments, arrays, settings, PNG files."""

from __future__ import annotations

import ctypes
import re
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _arguments
from ..errors import ConfigError

Pixels = npt.NDArray[np.uint8]

LOWEST, HIGHEST = -(2**31), 2**31 - 1  # the range of integer settings


def wrong(call: str, name: str, value: object, allowed: str) -> TypeError:
    """The error of a wrong argument; its message begins like ale-py's."""
    return TypeError(f"{call}(): incompatible function arguments: {name}: {value!r:.80}, must be {allowed}")


def whole(call: str, name: str, value: Any, low: int, high: int) -> int:
    """Checks a whole number, which may be a NumPy integer."""
    try:
        return _arguments.whole(name, value, low, high)
    except ConfigError:
        raise wrong(call, name, value, f"a whole number from {low} to {high}") from None


def real(call: str, name: str, value: Any) -> float:
    """Checks a number and rounds it to float32, as ale-py does."""
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return ctypes.c_float(float(value)).value
    except (TypeError, ValueError, OverflowError):
        pass
    raise wrong(call, name, value, "a number")


def flag(call: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(call, name, value, "True or False")
    return value


def text(call: str, name: str, value: Any) -> str:
    try:
        if isinstance(value, str):
            value.encode()
            return value
    except UnicodeEncodeError:
        pass
    raise wrong(call, name, value, "a text")


def array(call: str, buffer: Any, shape: tuple[int, ...]) -> Pixels:
    """A new array if buffer is ..., else the caller's buffer as an array."""
    if buffer is ...:
        return np.empty(shape, np.uint8)
    out = buffer
    if not isinstance(buffer, np.ndarray):
        try:
            out = np.from_dlpack(buffer) if hasattr(buffer, "__dlpack__") else np.asarray(memoryview(buffer))
        except (TypeError, ValueError, BufferError, RuntimeError):
            raise wrong(call, "buffer", type(buffer).__name__, "a uint8 array") from None
    if out.dtype != np.uint8 or not out.flags.c_contiguous or not out.flags.writeable:
        raise wrong(call, "buffer", f"{out.dtype} {out.shape}", "a contiguous, writeable uint8 array")
    return out  # type: ignore[no-any-return]


def address(out: Pixels) -> Any:
    """A pointer to the array's bytes for the library."""
    return ctypes.byref(ctypes.c_uint8.from_buffer(out))  # type: ignore[arg-type]


# Settings by the type of their setter. ale-py stores all of them as texts and reads them as any
# type.
_SETTINGS: dict[str, dict[str, str]] = {
    "Int": {
        "random_seed": "-1",
        "frame_skip": "1",
        "max_num_frames_per_episode": "0",
        "max_num_frames": "0",
        "reward_min": str(LOWEST),
        "reward_max": str(HIGHEST),
        "system_random_seed": "4753849",
        "paddle_min": "-1",
        "paddle_max": "-1",
    },
    "Float": {"repeat_action_probability": "0.25"},
    "Bool": {
        "color_averaging": "0",
        "display_screen": "0",
        "sound_obs": "0",
        "send_rgb": "0",
        "restricted_action_set": "0",
        "truncate_on_loss_of_life": "0",
        "run_length_encoding": "1",
    },
    "String": {"rom_file": "", "cpu": "low", "record_screen_dir": "", "record_sound_filename": ""},
    "any": {
        "fragsize": "64",
        "palette": "standard",
        "sound": "false",
        "freq": "31400",
        "volume": "100",
        "tiafreq": "31400",
        "clipvol": "true",
    },
}
_DEFAULTS = {key: value for kind in _SETTINGS.values() for key, value in kind.items()}

# Any other value counts as the first one. None of the values has an effect, as in ale-py.
_PALETTES = ("standard", "z26", "user")

# Unsupported settings that would change results or output.
_FIXED = ("system_random_seed", "paddle_min", "paddle_max", "record_sound_filename")

_INTEGER = re.compile(r"\s*([-+]?\d+)")
_REAL = re.compile(r"\s*([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|inf|nan))", re.IGNORECASE)


class Settings(dict[str, str]):
    """ALEInterface's settings as texts; a number is read from the beginning of its text."""

    def __init__(self) -> None:
        super().__init__(_DEFAULTS)

    def put(self, kind: str, key: str, value: str) -> None:
        if text(f"set{kind}", "key", key) not in _SETTINGS[kind] and key not in _SETTINGS["any"]:
            raise RuntimeError(f"The key {key} you are trying to set does not exist or has incorrect value type.\n")
        self[key] = _PALETTES[0] if key == "palette" and value not in _PALETTES else value

    def integer(self, key: str) -> int:
        found = _INTEGER.match(self.get(text("getInt", "key", key), "-1"))
        return ctypes.c_int32(int(found[1])).value if found else 0

    def real(self, key: str) -> float:
        found = _REAL.match(self.get(text("getFloat", "key", key), "-1"))
        return ctypes.c_float(float(found[1])).value if found else 0.0

    def flag(self, key: str) -> bool:
        return self.get(text("getBool", "key", key)) in ("1", "true")

    def text(self, key: str) -> str:
        return self.get(text("getString", "key", key), "")

    def check(self) -> None:
        for key in _FIXED:
            if self[key] != _DEFAULTS[key]:
                raise NotImplementedError(f"{key}: {self[key]!r}, must be {_DEFAULTS[key]!r}: other values are not supported")


def write_png(file: str, image: Pixels) -> None:
    """Writes an RGB image, [height, width, 3]."""
    height, width, _ = image.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # the first byte of a line is its filter, 0 for none
    lines[:, 1:] = image.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(file, "wb") as png:
        png.write(b"\x89PNG\r\n\x1a\n")
        for name, data in ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 1)), (b"IEND", b"")):
            png.write(struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)))
