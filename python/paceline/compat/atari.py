"""The Atari 2600 with ale-py's interface.

    from paceline.atari import ALEInterface, Action, roms    # instead of: from ale_py import ...

    ale = ALEInterface()
    ale.setInt("random_seed", 123)
    ale.loadROM(roms.get_rom_path("pong"))
    while not ale.game_over():
        reward = ale.act(Action.NOOP)

Names, defaults, results and errors are those of ale-py 0.12.1, with the same frames, rewards and
lives. There is no sound and no window. Where ale-py ends the process, this module raises an
exception. truncate_on_loss_of_life ends an episode when fewer lives are left than after its first
frame. ale-py counts them before that frame, which ends each episode of Amidar and a few other games
at its start.

The package has no ROM files: loadROM takes a path. Environments by name ("Pong") and
roms.get_rom_path search $PACELINE_ROMS_DIR, $ALE_ROMS_DIR and the folder of an installed ale-py.
"""

from __future__ import annotations

import ctypes
import enum
import operator
import os
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import _ffi, _lib
from ..errors import ConfigError, PacelineError, notice
from ._ale import HIGHEST, LOWEST, Pixels, Settings, address, array, flag, real, text, whole, write_png, wrong

__all__ = ["SDL_SUPPORT", "ALEInterface", "ALEState", "Action", "LoggerMode", "roms"]

# ale-py's flag for a window and sound, which its examples check.
SDL_SUPPORT = False

FilePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class _Named(enum.Enum):
    def __repr__(self) -> str:
        return str(self)


class Action(_Named):
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


class LoggerMode(_Named):
    """The argument of setLoggerMode, without effect: nothing is printed."""

    Info = 0
    Warning = 1
    Error = 2


# --------------------------------------------------------------------- states


class ALEState:
    """A saved state of a console (cloneState). ALEState(state.serialize()) restores it."""

    __slots__ = ("_head", "_machine")
    _HEAD = struct.Struct("<qqii")  # frame number, frame number in the episode, mode, difficulty

    def __init__(self, *parts: Any) -> None:
        self._head: tuple[int, ...] = (0, 0, 0, 0)
        self._machine = b""
        kinds = tuple(type(part) for part in parts)
        if kinds == (bytes,):
            self.__setstate__(parts[0])
        elif kinds == (ALEState, bytes):
            self._head, self._machine = parts[0]._head, parts[1]
        elif parts:
            raise TypeError("__init__(): incompatible function arguments: must be none, serialize()'s, or a state and bytes")

    def getFrameNumber(self) -> int:
        return self._head[0]

    def getEpisodeFrameNumber(self) -> int:
        return self._head[1]

    def getCurrentMode(self) -> int:
        return self._head[2]

    def getDifficulty(self) -> int:
        return self._head[3]

    def serialize(self) -> bytes:
        return self._HEAD.pack(*self._head) + self._machine

    def equals(self, other: ALEState, /) -> bool:
        if not isinstance(other, ALEState):
            raise wrong("equals", "other", other, "an ALEState")
        return self._head == other._head and self._machine == other._machine

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ALEState):
            raise wrong("__eq__", "other", other, "an ALEState")
        return self.equals(other)

    # As in ale-py, equal states are different members of a set.
    __hash__ = object.__hash__

    def __getstate__(self) -> bytes:
        return self.serialize()

    def __setstate__(self, data: bytes) -> None:
        if len(data) < self._HEAD.size:
            raise ConfigError(f"state: {len(data)} bytes, must be what serialize() returned")
        self._head, self._machine = self._HEAD.unpack_from(data), data[self._HEAD.size :]


_RESET = 40  # the console's reset switch, which ale-py accepts as an action and treats as NOOP


def _not_loaded(*_: object) -> None:
    raise RuntimeError("ROM not set")


class ALEInterface:
    """An Atari 2600 with a cartridge, with the methods of ale_py.ALEInterface."""

    __slots__ = (
        "_settings", "_handle", "_id", "_act", "_view", "_shape", "_reward", "_reward_at",
        "_skip", "_limit", "_range", "_by_frames", "_truncates", "_lives", "_frozen", "_record", "_recorded",
    )  # fmt: skip

    def __init__(self) -> None:
        self._settings = Settings()
        self._handle: _lib.Handle | None = None
        self._id = 0
        self._act: Any = _not_loaded
        self._reward = ctypes.c_int32()
        self._reward_at = ctypes.byref(self._reward)
        self._range: tuple[int, int] | None = None
        self._by_frames = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    # ------------------------------------------------------------ settings, which take effect at the next loadROM

    def setInt(self, key: str, value: int, /) -> None:
        self._settings.put("Int", key, str(whole("setInt", "value", value, LOWEST, HIGHEST)))

    def setFloat(self, key: str, value: float, /) -> None:
        self._settings.put("Float", key, f"{real('setFloat', 'value', value):g}")

    def setBool(self, key: str, value: bool, /) -> None:
        self._settings.put("Bool", key, str(int(flag("setBool", "value", value))))

    def setString(self, key: str, value: str, /) -> None:
        self._settings.put("String", key, text("setString", "value", value))

    def getInt(self, key: str, /) -> int:
        return self._settings.integer(key)

    def getFloat(self, key: str, /) -> float:
        return self._settings.real(key)

    def getBool(self, key: str, /) -> bool:
        return self._settings.flag(key)

    def getString(self, key: str, /) -> str:
        return self._settings.text(key)

    # ----------------------------------------------------------- cartridge

    def loadROM(self, path: FilePath, /) -> None:
        """Inserts the cartridge of a file and begins an episode with the current settings.

        The MD5 of the bytes identifies the game, or else the file's name ("tetris.bin"). If the
        file cannot be played, the previous cartridge stays inserted.
        """
        settings, file = self._settings, _lib.encode(path)
        if not file and self._handle is not None:
            file = _lib.encode(settings["rom_file"])
        settings.check()
        skip, sticky = settings.integer("frame_skip"), settings.real("repeat_action_probability")
        if skip < 0:
            raise ConfigError(f"frame_skip: {skip}, must be at least 0")
        # ale-py takes an action if a drawn number is at least this one: always if it is negative,
        # never if it is NaN.
        sticky = min(max(sticky, 0.0), 1.0) if sticky == sticky else 1.0
        seed = settings.integer("random_seed")
        if seed == -1:
            seed = time.time_ns() // 1000
        lib = _lib.lib()
        handle = _lib.Handle("paceline_console_free", lib.paceline_console_new, file, None, 1, seed & 0xFFFFFFFF, sticky, max(skip, 1))
        if settings.flag("display_screen"):
            notice("display_screen: True, acts as False: there is no window")
        view = ctypes.POINTER(_ffi.ConsoleState)()
        lib.paceline_console_view(ctypes.byref(view), handle.value)
        self._handle, self._id, self._act = handle, handle.value, lib.paceline_console_act
        self._view = view.contents
        self._shape = (int(self._view.height), int(self._view.width))
        settings["rom_file"] = os.fsdecode(file)
        self._skip, self._limit = max(skip, 1), max(settings.integer("max_num_frames_per_episode"), 0)
        low, high = settings.integer("reward_min"), settings.integer("reward_max")
        self._range = None if (low, high) == (LOWEST, HIGHEST) else (low, high)
        self._truncates, self._lives, self._frozen = settings.flag("truncate_on_loss_of_life"), self._view.lives, False
        self._record, self._recorded = settings.text("record_screen_dir"), 0
        self._by_frames = self._truncates or self._record != ""
        self._set("max_num_frames_per_episode", self._limit)
        self._set("color_averaging", settings.flag("color_averaging"))
        if self._by_frames:
            self._set("frame_skip", 1)

    @staticmethod
    def isSupportedROM(path: FilePath, /) -> str | None:
        """The id of the game in a file, or None."""
        file = _lib.encode(path)
        if not os.path.exists(file):
            raise RuntimeError("ROM file doesn't exist")
        if os.path.getsize(file) > 1 << 20:
            return None  # the library reads no file of this size
        try:
            return _lib.take_text(_lib.lib().paceline_rom_identify, file) or None
        except PacelineError as err:
            raise RuntimeError(str(err)) from None

    def _console(self) -> int:
        if self._handle is None:
            _not_loaded()
        return self._id

    def _state(self) -> _ffi.ConsoleState:
        """The console's state; the library updates it in place."""
        self._console()
        return self._view

    def _set(self, name: str, value: object) -> None:
        _lib.lib().paceline_console_set(self._console(), _lib.encode(name), _lib.encode(str(value).lower()))

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

    def setMode(self, mode: int, /) -> None:
        """Chooses a mode of the game for the next reset."""
        if whole("setMode", "mode", mode, 0, 2**32 - 1) not in self._list(2):
            raise RuntimeError("Invalid game mode requested")
        self._set("mode", operator.index(mode))

    def setDifficulty(self, difficulty: int, /) -> None:
        """Sets the difficulty switches, from the next frame on."""
        if whole("setDifficulty", "difficulty", difficulty, 0, 2**32 - 1) not in self._list(3):
            raise RuntimeError("Invalid difficulty requested")
        self._set("difficulty", operator.index(difficulty))

    # ---------------------------------------------------------------- play

    def reset_game(self) -> None:
        if not self._by_frames:
            _lib.lib().paceline_console_reset(self._console())
            return
        # The reset of some games passes menus by whole calls of act.
        self._thaw()
        self._set("frame_skip", self._skip)
        _lib.lib().paceline_console_reset(self._console())
        self._set("frame_skip", 1)
        self._lives = self._view.lives

    def act(self, action: int | Action, paddle_strength: float = 1.0) -> int:
        """Plays an action for frame_skip frames; returns the sum of rewards."""
        if isinstance(action, Action):
            number: int = action.value
        else:
            number = action if type(action) is int else whole("act", "action", action, 0, 2**32 - 1)
            if not 0 <= number < 18 and whole("act", "action", number, 0, 2**32 - 1) != _RESET:
                raise ConfigError(f"action: {number}, must be 0 to 17, or {_RESET}, which counts as NOOP")
        if type(paddle_strength) is not float:
            paddle_strength = real("act", "paddle_strength", paddle_strength)
        if self._by_frames:
            reward = self._act_by_frames(number, paddle_strength)
        else:
            self._act(self._reward_at, self._id, number, paddle_strength)
            reward = self._reward.value
        return reward if self._range is None else min(max(reward, self._range[0]), self._range[1])

    def _act_by_frames(self, number: int, strength: float) -> int:
        """Plays an action frame by frame, because some settings need a check before each frame."""
        reward = 0
        for _ in range(self._skip):
            if self._lost() and not self._frozen:
                # At the episode's limit the console stops, but sticky actions still draw random
                # numbers.
                self._set("max_num_frames_per_episode", self._view.episode_frame_number)
                self._frozen = True
            if self._record:
                self.saveScreenPNG(os.path.join(self._record, f"{self._recorded:06}.png"))
                self._recorded += 1
            self._act(self._reward_at, self._id, number, strength)
            reward += self._reward.value
            if self._view.episode_frame_number == 1:
                # Amidar and a few other games set their counter of lives in this frame.
                self._lives = max(self._lives, self._view.lives)
        return reward

    def _lost(self) -> bool:
        """Whether the loss of a life has truncated the episode."""
        return self._by_frames and self._truncates and self._view.lives < self._lives

    def _thaw(self) -> None:
        if self._by_frames and self._frozen:
            self._set("max_num_frames_per_episode", self._limit)
            self._frozen = False

    def game_over(self, with_truncation: bool = True) -> bool:
        ended = self._state().ended
        if flag("game_over", "with_truncation", with_truncation):
            return ended != 0 or self._lost()
        return bool(ended & _ffi.TERMINATED)

    def game_truncated(self) -> bool:
        return bool(self._state().ended & _ffi.TRUNCATED) or self._lost()

    def lives(self) -> int:
        return int(self._state().lives)

    def getFrameNumber(self) -> int:
        return int(self._state().frame_number)

    def getEpisodeFrameNumber(self) -> int:
        return int(self._state().episode_frame_number)

    # --------------------------------------------------------- observations

    def getRAMSize(self) -> int:
        return 128

    def getRAM(self, buffer: Any = ...) -> Pixels | None:
        """Returns the machine's 128 bytes of RAM, in a new array or in buffer."""
        out, console = array("getRAM", buffer, (128,)), self._console()
        if out.shape != (128,):
            raise wrong("getRAM", "buffer", out.shape, "of shape (128,)")
        _lib.lib().paceline_console_ram(address(out), console)
        return out if buffer is ... else None

    def setRAM(self, index: int, value: int, /) -> None:
        index, value = whole("setRAM", "index", index, 0, 2**64 - 1), whole("setRAM", "value", value, 0, 255)
        if index >= 128:
            raise RuntimeError("setRAM index out of bounds.")
        _lib.lib().paceline_console_poke(self._console(), index, value)

    def getScreenDims(self) -> tuple[int, int]:
        self._console()
        return self._shape

    def getScreen(self, buffer: Any = ...) -> Pixels | None:
        """Returns the image as TIA colours, [height, width], in a new array or in buffer."""
        return self._screen("getScreen", buffer, 0)

    def getScreenGrayscale(self, buffer: Any = ...) -> Pixels | None:
        return self._screen("getScreenGrayscale", buffer, 1)

    def getScreenRGB(self, buffer: Any = ...) -> Pixels | None:
        return self._screen("getScreenRGB", buffer, 2)

    def _screen(self, call: str, buffer: Any, kind: int) -> Pixels | None:
        shape: tuple[int, ...] = self.getScreenDims() if kind != 2 else (*self.getScreenDims(), 3)
        out = array(call, buffer, shape)
        if out.ndim != len(shape):
            raise RuntimeError(f"Expected a numpy array with {'three' if kind == 2 else 'two'} dimensions.")
        if out.shape != shape:
            raise RuntimeError(f"Invalid shape{',' if kind == 0 else ''} {out.shape}, expecting shape {shape}")
        at = address(out)
        _lib.lib().paceline_console_screen(at, out.nbytes, self._console(), kind)
        return out if buffer is ... else None

    def saveScreenPNG(self, path: str, /) -> None:
        """Writes the image as a PNG file, each pixel twice as wide as high."""
        file, image = text("saveScreenPNG", "path", path), np.empty((*self.getScreenDims(), 3), np.uint8)
        self.getScreenRGB(image)
        write_png(file, image.repeat(2, axis=1))

    def getAudioSize(self) -> int:
        return 512

    def getAudio(self, buffer: Any = ...) -> Pixels | None:
        raise NotImplementedError("getAudio: this console has no sound")

    @staticmethod
    def setLoggerMode(mode: LoggerMode, /) -> None:
        """Does nothing, because nothing is printed."""
        if not isinstance(mode, LoggerMode):
            raise wrong("setLoggerMode", "mode", mode, "a LoggerMode")

    # ---------------------------------------------------------------- states

    def cloneState(self, include_rng: bool = False) -> ALEState:
        console, with_rng = self._console(), int(flag("cloneState", "include_rng", include_rng))
        view, state = self._view, ALEState()
        state._machine = _lib.take_bytes(_lib.lib().paceline_console_save, console, with_rng)
        state._head = (view.frame_number, view.episode_frame_number, view.mode, view.difficulty)
        return state

    def cloneSystemState(self) -> ALEState:
        """cloneState including the random generator of sticky actions."""
        return self.cloneState(True)

    def restoreState(self, state: ALEState, /) -> None:
        """Continues from a state of a console with the same cartridge. A state has no settings.

        getScreen then returns the state's image; ale-py's returns the image before the call until
        the next act. A state also holds the action that sticky actions repeat; ale-py's does not.
        """
        if not isinstance(state, ALEState):
            raise wrong("restoreState", "state", state, "an ALEState")
        self._console()
        if state.getCurrentMode() not in self._list(2):
            raise ConfigError(f"state: mode {state.getCurrentMode()}, must be one of this game's, {self._list(2)}")
        _lib.lib().paceline_console_restore(self._id, state._machine, len(state._machine))
        self._set("mode", state.getCurrentMode())
        self._thaw()

    restoreSystemState = restoreState


# ------------------------------------------------------------------ ROM files


class roms:
    """Paths of ROM files, with the interface of ale_py.roms."""

    @staticmethod
    def get_rom_path(name: str) -> Path:
        """The ROM file of a game, such as "space_invaders"; the MD5 of its bytes is checked."""
        for folder in _folders():
            path = folder / f"{name}.bin"
            if path.is_file() and ALEInterface.isSupportedROM(path) == name:
                return path
        # The library's error names the missing file or a similar game.
        game = _lib.encode(text("get_rom_path", "name", name))
        _lib.Handle("paceline_console_free", _lib.lib().paceline_console_new, None, game, 0, 0, 0.0, 1).close()
        raise FileNotFoundError(f"{name}.bin: changed during the search, must stay in its folder")

    @staticmethod
    def get_all_rom_ids() -> list[str]:
        """The sorted ids of the games whose ROM files were found and can be played."""
        paths = {path for folder in _folders() for path in folder.glob("*.bin") if path.is_file()}
        return sorted({path.stem for path in paths if ALEInterface.isSupportedROM(path) == path.stem})


def _folders() -> list[Path]:
    """The folders with ROM files, in the order of the search."""
    named = [Path(os.environ[name]) for name in ("PACELINE_ROMS_DIR", "ALE_ROMS_DIR") if os.environ.get(name)]
    return named + _lib.rom_folders()
