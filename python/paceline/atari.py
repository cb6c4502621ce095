"""The Atari 2600, as scripts written for ale-py use it.

    from paceline.atari import ALEInterface, Action    # instead of: from ale_py import ...

    ale = ALEInterface()
    ale.setInt("random_seed", 123)
    ale.loadROM(roms.get_rom_path("pong"))
    while not ale.game_over():
        reward = ale.act(Action.NOOP)

Method names, defaults and results are those of ale-py 0.12.1: the same frames,
rewards, lives and numbers. There is no sound and no window.

ROM files are the user's: loadROM takes a path. Environments by name ("Pong") look
for them in $PACELINE_ROMS_DIR, in $ALE_ROMS_DIR, and where an installed ale-py has
them.
"""

from __future__ import annotations

import ctypes
import enum
import os
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _ffi, _lib
from .errors import PacelineError

__all__ = ["ALEInterface", "ALEState", "Action", "LoggerMode"]

Pixels = npt.NDArray[np.uint8]


class Action(enum.Enum):
    """The 18 actions of a joystick."""

    NOOP = 0
    FIRE = 1
    UP = 2
    RIGHT = 3
    LEFT = 4
    DOWN = 5
    UPRIGHT = 6
    UPLEFT = 7
    DOWNRIGHT = 8
    DOWNLEFT = 9
    UPFIRE = 10
    RIGHTFIRE = 11
    LEFTFIRE = 12
    DOWNFIRE = 13
    UPRIGHTFIRE = 14
    UPLEFTFIRE = 15
    DOWNRIGHTFIRE = 16
    DOWNLEFTFIRE = 17


class LoggerMode(enum.Enum):
    """Accepted by setLoggerMode. Nothing is ever printed here."""

    Info = 0
    Warning = 1
    Error = 2


class ALEState:
    """A saved state of a console (cloneState)."""

    def __init__(self, data: bytes, frame_number: int, episode_frame_number: int) -> None:
        self._data = data
        self._numbers = (frame_number, episode_frame_number)

    def getFrameNumber(self) -> int:
        return self._numbers[0]

    def getEpisodeFrameNumber(self) -> int:
        return self._numbers[1]

    def equals(self, other: ALEState) -> bool:
        return self._data == other._data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ALEState) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __getstate__(self) -> Any:
        return (self._data, self._numbers)

    def __setstate__(self, state: Any) -> None:
        self._data, self._numbers = state


_INTS = {
    "random_seed": -1,
    "frame_skip": 1,
    "max_num_frames_per_episode": 0,
    "max_num_frames": 0,
    "reward_min": 0,
    "reward_max": 0,
    "system_random_seed": 4753849,
    "screen_exposure": 0,
}
_FLOATS = {"repeat_action_probability": 0.25}
_BOOLS = {
    "color_averaging": False,
    "send_rgb": False,
    "display_screen": False,
    "sound_obs": False,
    "sound": False,
    "restricted_action_set": False,
    "truncate_on_loss_of_life": False,
}
_STRINGS = {"record_screen_dir": "", "record_sound_filename": "", "rom_file": ""}

# Those that the library takes while a game is played.
_LIVE = ("frame_skip", "repeat_action_probability", "max_num_frames_per_episode", "reward_min", "reward_max", "color_averaging")


class ALEInterface:
    """An Atari 2600 with a cartridge, with the methods of ale_py.ALEInterface."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {**_INTS, **_FLOATS, **_BOOLS, **_STRINGS}
        self._handle: _lib.Handle | None = None
        self._act: Any = None
        self._view = _ffi.ConsoleState()
        self._reward = ctypes.c_int32()
        self._reward_at = ctypes.byref(self._reward)

    # ------------------------------------------------------------ settings

    def _get(self, key: str, kind: dict[str, Any]) -> Any:
        if key not in kind:
            raise RuntimeError(f"{key!r} is no setting of this type; there are {', '.join(sorted(kind))}")
        return self._settings[key]

    def _set(self, key: str, value: Any, kind: dict[str, Any]) -> None:
        self._get(key, kind)
        if self._handle is not None and key in _LIVE:
            _lib.lib().paceline_console_set(self._handle.value, key.encode(), str(value).lower().encode())
        self._settings[key] = value

    def getInt(self, key: str) -> int:
        return int(self._get(key, _INTS))

    def setInt(self, key: str, value: int) -> None:
        self._set(key, int(value), _INTS)

    def getFloat(self, key: str) -> float:
        return float(self._get(key, _FLOATS))

    def setFloat(self, key: str, value: float) -> None:
        # ale-py keeps it in 32 bits, and sticky actions compare with that.
        self._set(key, float(np.float32(value)), _FLOATS)

    def getBool(self, key: str) -> bool:
        return bool(self._get(key, _BOOLS))

    def setBool(self, key: str, value: bool) -> None:
        self._set(key, bool(value), _BOOLS)

    def getString(self, key: str) -> str:
        return str(self._get(key, _STRINGS))

    def setString(self, key: str, value: str) -> None:
        self._set(key, str(value), _STRINGS)

    # ----------------------------------------------------------- cartridge

    def loadROM(self, path: str | os.PathLike[str]) -> None:
        """Puts the cartridge in a file in and begins an episode. Settings made before count."""
        seed = self._settings["random_seed"]
        if seed == -1:
            seed = time.time_ns() // 1000
        lib, made = _lib.lib(), ctypes.c_void_p()
        sticky, skip = self._settings["repeat_action_probability"], self._settings["frame_skip"]
        lib.paceline_console_new(ctypes.byref(made), _lib.encode(path), None, seed & 0xFFFFFFFF, sticky, skip)
        handle = _lib.Handle(made.value or 0, "paceline_console_free")
        for key in _LIVE:
            lib.paceline_console_set(handle.value, key.encode(), str(self._settings[key]).lower().encode())
        self._handle, self._act = handle, lib.paceline_console_act
        self._settings["rom_file"] = os.fspath(path)
        view = ctypes.POINTER(_ffi.ConsoleState)()
        lib.paceline_console_view(ctypes.byref(view), handle.value)
        self._view = view.contents
        self._shape = (int(self._view.height), int(self._view.width))

    @staticmethod
    def isSupportedROM(path: str | os.PathLike[str]) -> str | None:
        """The id of the game whose cartridge the file is, or None."""
        return _lib.take_text(_lib.lib().paceline_rom_identify, _lib.encode(path)) or None

    def _console(self) -> int:
        if self._handle is None:
            raise RuntimeError("no ROM is loaded: call loadROM first")
        return self._handle.value

    def _state(self) -> _ffi.ConsoleState:
        """The console's state, which the library keeps up to date."""
        self._console()
        return self._view

    def _list(self, which: int) -> list[int]:
        out, count = (ctypes.c_int32 * 512)(), ctypes.c_size_t()
        _lib.lib().paceline_console_list(out, len(out), ctypes.byref(count), self._console(), which)
        return list(out[: count.value])

    def getLegalActionSet(self) -> list[Action]:
        return [Action(a) for a in self._list(1)]

    def getMinimalActionSet(self) -> list[Action]:
        return [Action(a) for a in self._list(0)]

    def getAvailableModes(self) -> list[int]:
        return self._list(2)

    def getAvailableDifficulties(self) -> list[int]:
        return self._list(3)

    def setMode(self, mode: int) -> None:
        """Chooses a mode of the game, from the next reset on."""
        _lib.lib().paceline_console_set(self._console(), b"mode", str(int(mode)).encode())

    def setDifficulty(self, difficulty: int) -> None:
        _lib.lib().paceline_console_set(self._console(), b"difficulty", str(int(difficulty)).encode())

    # ---------------------------------------------------------------- play

    def reset_game(self) -> None:
        _lib.lib().paceline_console_reset(self._console())

    def act(self, action: int | Action, paddle_strength: float = 1.0) -> int:
        """Plays an action for frame_skip frames and returns the reward."""
        number = action.value if isinstance(action, Action) else int(action)
        self._act(self._console(), number, paddle_strength, self._reward_at)
        return self._reward.value

    def game_over(self, with_truncation: bool = True) -> bool:
        ended = self._state().ended
        return bool(ended & _ffi.TERMINATED or with_truncation and ended & _ffi.TRUNCATED)

    def game_truncated(self) -> bool:
        return bool(self._state().ended & _ffi.TRUNCATED)

    def lives(self) -> int:
        return int(self._state().lives)

    def getFrameNumber(self) -> int:
        return int(self._state().frame_number)

    def getEpisodeFrameNumber(self) -> int:
        return int(self._state().episode_frame_number)

    # ---------------------------------------------------------------- looks

    def getRAMSize(self) -> int:
        return 128

    def getRAM(self, buffer: Pixels | None = None) -> Pixels | None:
        return self._fill(buffer, (128,), lambda to, size: _lib.lib().paceline_console_ram(to, self._console()))

    def setRAM(self, index: int, value: int) -> None:
        _lib.lib().paceline_console_poke(self._console(), index, value)

    def getScreenDims(self) -> tuple[int, int]:
        self._console()
        return self._shape

    def getScreen(self, buffer: Pixels | None = None) -> Pixels | None:
        """The picture as the TIA's colours, [height, width]."""
        return self._screen(buffer, 0)

    def getScreenGrayscale(self, buffer: Pixels | None = None) -> Pixels | None:
        return self._screen(buffer, 1)

    def getScreenRGB(self, buffer: Pixels | None = None) -> Pixels | None:
        return self._screen(buffer, 2)

    def _screen(self, buffer: Pixels | None, kind: int) -> Pixels | None:
        console = self._console()
        shape = (*self._shape, 3) if kind == 2 else self._shape
        return self._fill(buffer, shape, lambda to, size: _lib.lib().paceline_console_screen(to, size, console, kind))

    def _fill(self, buffer: Pixels | None, shape: tuple[int, ...], write: Any) -> Pixels | None:
        """Writes into the caller's array, or into a new one that it returns."""
        out = np.empty(shape, np.uint8) if buffer is None else buffer
        if out.dtype != np.uint8 or out.shape != shape or not out.flags.c_contiguous or not out.flags.writeable:
            raise TypeError(f"buffer: {out.dtype} {out.shape}, must be a contiguous, writeable uint8 array of {shape}")
        write(out.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)), out.nbytes)
        return out if buffer is None else None

    def saveScreenPNG(self, path: str | os.PathLike[str]) -> None:
        try:
            from PIL import Image
        except ImportError:
            raise PacelineError("saveScreenPNG needs Pillow: pip install pillow") from None
        picture = np.empty((*self.getScreenDims(), 3), np.uint8)
        self.getScreenRGB(picture)
        Image.fromarray(picture).save(path)

    def getAudioSize(self) -> int:
        return 512

    def getAudio(self, buffer: Pixels | None = None) -> Pixels | None:
        raise NotImplementedError("getAudio: this console has no sound")

    @staticmethod
    def setLoggerMode(mode: LoggerMode) -> None:
        """Does nothing: nothing is ever printed."""

    # ---------------------------------------------------------------- states

    def _save(self, include_rng: bool) -> ALEState:
        lib, console, size = _lib.lib(), self._console(), ctypes.c_size_t()
        lib.paceline_console_save(None, ctypes.byref(size), console, int(include_rng))
        out = ctypes.create_string_buffer(size.value)
        lib.paceline_console_save(out, ctypes.byref(size), console, int(include_rng))
        state = self._state()
        return ALEState(out.raw[: size.value], int(state.frame_number), int(state.episode_frame_number))

    def cloneState(self, include_rng: bool = False) -> ALEState:
        return self._save(include_rng)

    def cloneSystemState(self) -> ALEState:
        """cloneState with the generator of sticky actions."""
        return self._save(True)

    def restoreState(self, state: ALEState) -> None:
        _lib.lib().paceline_console_restore(self._console(), state._data, len(state._data))

    restoreSystemState = restoreState
