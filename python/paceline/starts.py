"""Start states of Atari games, for evaluations from human starts (Nair et al. 2015, section 5).

    from paceline import Policy, starts

    with Policy.load("agent.paceline") as policy:
        print(policy.evaluate("Pong", starts=starts.read("pong.starts"), max_frames=108_000).mean_return)

`paceline record-starts` and record make start states from the play of a human. docs/pages/reference/start-files.md
describes the files, which are untrusted: read checks every byte.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from . import _lib
from ._files import File, reading, writing
from .errors import CheckpointError, ConfigError, PacelineError, VersionError

SUFFIX = "starts"
_MAGIC = b"paceline starts "
_VERSION = b"1\n"
_MOST_STARTS = 10_000
_MOST_FRAMES = 1 << 30  # of a game
_MOST_JSON = 1 << 20  # bytes
_MOST_BYTES = 1 << 28  # of all states
_MD5_AT = 16  # the place of the cartridge's MD5 in a state of the console
_LAST = 108_000  # frames of the paper's games: 30 minutes


class Start(NamedTuple):
    """A state in which an episode starts.

    state: the console's state, without random generators. frames: those of the game before the
    state. score: the points of the game before the state.
    """

    state: bytes
    frames: int
    score: int


@dataclass(frozen=True)
class StartStates:
    """The start states of a game.

    game: such as "pong". rom_md5: of the cartridge, 32 hexadecimal digits. recipe, recipe_hash: the
    recipe of the environments that an evaluation may use (VecEnv.recipe, VecEnv.recipe_hash).
    starts: 1 to 10,000, with states of equal size, at most 256 MiB together. A value that is not
    allowed raises ConfigError.
    """

    game: str
    rom_md5: str
    recipe: str
    recipe_hash: str
    starts: tuple[Start, ...]

    def __post_init__(self) -> None:
        for name, pattern, what in (
            ("game", r"[a-z0-9_]{1,64}", "the id of a game"),
            ("rom_md5", r"[0-9a-f]{32}", "32 hexadecimal digits"),
            ("recipe", r"[ -~]{1,1000}", "1 to 1,000 printable ASCII characters"),
            ("recipe_hash", r"[0-9a-f]{12}", "12 hexadecimal digits"),
        ):
            value = getattr(self, name)
            if not isinstance(value, str) or not re.fullmatch(pattern, value):
                raise ConfigError(f"{name}: {value!r:.100}, must be {what}")
        if not isinstance(self.starts, tuple) or not 1 <= len(self.starts) <= _MOST_STARTS:
            raise ConfigError(f"starts: {_length(self.starts)}, must be a tuple of 1 to {_MOST_STARTS}")
        for i, start in enumerate(self.starts):
            self._check(i, start)

    def _check(self, i: int, start: Start) -> None:
        if not isinstance(start, Start) or not isinstance(start.state, bytes):
            raise ConfigError(f"starts[{i}]: {type(start).__name__}, must be a Start with a state of bytes")
        size = len(self.starts[0].state)
        if len(start.state) != size or size * len(self.starts) > _MOST_BYTES:
            raise ConfigError(
                f"starts[{i}].state: {len(start.state)} bytes, must be {size} as starts[0] has, and {_MOST_BYTES} for all at most"
            )
        if start.state[_MD5_AT : _MD5_AT + 32] != self.rom_md5.encode():
            raise ConfigError(f"starts[{i}].state: not of the cartridge with MD5 {self.rom_md5}, must be a console's state of it")
        for name, value, least, most in (("frames", start.frames, 0, _MOST_FRAMES), ("score", start.score, -(2**31), 2**31 - 1)):
            if type(value) is not int or not least <= value <= most:
                raise ConfigError(f"starts[{i}].{name}: {value!r:.100}, must be a whole number from {least} to {most}")


def _length(value: object) -> str:
    return f"{len(value)}" if isinstance(value, tuple) else type(value).__name__


# ----------------------------------------------------------------------- files


def write(file: File, states: StartStates) -> None:
    """Writes a file for read; "x" becomes "x.starts". If writing fails, an older file stays."""
    head = {
        "game": states.game,
        "rom_md5": states.rom_md5,
        "recipe": states.recipe,
        "recipe_hash": states.recipe_hash,
        "state_bytes": len(states.starts[0].state),
        "starts": [[start.frames, start.score] for start in states.starts],
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    data = _MAGIC + _VERSION + struct.pack("<I", len(text)) + text + zlib.compress(b"".join(start.state for start in states.starts), 6)
    data += struct.pack("<I", zlib.crc32(data))
    with writing(file, SUFFIX) as name:
        _replace(name, data)


def _replace(path: str, data: bytes) -> None:
    """Writes a file. If writing fails, an older file stays."""
    part = f"{path}.part"
    try:
        Path(part).write_bytes(data)
        os.replace(part, path)
    except OSError as err:
        Path(part).unlink(missing_ok=True)
        raise CheckpointError(f"{path}: not written: {err.strerror}") from None


def _contents(path: str, most: int, what: str) -> bytes:
    """The bytes of a file; raises CheckpointError if there are more than `most`."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as err:
        raise CheckpointError(f"{path}: not read: {err.strerror}") from None
    if len(data) > most:
        raise CheckpointError(f"{path}: more than {most} bytes, which no {what} has")
    return data


def read(file: File) -> StartStates:
    """Reads a file of write; "x" is "x.starts" if there is no "x".

    A file that cannot be read, is damaged or does not have the format raises CheckpointError; a
    file of another version of the format raises VersionError.
    """
    with reading(file, SUFFIX) as name:
        data = _contents(name, _MOST_BYTES, "file of start states")
        try:
            return _parsed(data)
        except VersionError as err:
            raise VersionError(f"{name}: {err}") from None
        except ConfigError as err:
            raise CheckpointError(f"{name}: {err}") from None


def _parsed(data: bytes) -> StartStates:
    if not data.startswith(_MAGIC):
        raise ConfigError("not a file of start states")
    head = len(_MAGIC) + len(_VERSION)
    if data[len(_MAGIC) : head] != _VERSION:
        version = data[len(_MAGIC) : head + 8].partition(b"\n")[0].decode("ascii", "replace")
        raise VersionError(f"start states of version {version!r}, this library reads version {_VERSION.decode().strip()!r}")
    if len(data) < head + 8 or zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise ConfigError("the checksum is wrong: the file is damaged or cut off")
    (size,) = struct.unpack_from("<I", data, head)
    if size > _MOST_JSON or size > len(data) - head - 8:
        raise ConfigError(f"a head of {size} bytes, must be at most {_MOST_JSON} and within the file")
    try:
        # json.loads of bytes would also take UTF-16 and UTF-32.
        parsed = json.loads(data[head + 4 : head + 4 + size].decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise ConfigError("its head is not JSON in UTF-8") from None
    names = {"game", "rom_md5", "recipe", "recipe_hash", "state_bytes", "starts"}
    if not isinstance(parsed, dict) or set(parsed) != names:
        raise ConfigError(f"its head must be a JSON object of {', '.join(sorted(names))}, each once")
    listed, each = parsed["starts"], parsed["state_bytes"]
    if not isinstance(listed, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in listed):
        raise ConfigError("starts: must be a list of [frames, score]")
    if not 1 <= len(listed) <= _MOST_STARTS:
        raise ConfigError(f"starts: {len(listed)}, must be 1 to {_MOST_STARTS}")
    if type(each) is not int or not 1 <= each * len(listed) <= _MOST_BYTES:
        raise ConfigError(f"state_bytes: {each!r:.100}, must be 1 or more, and at most {_MOST_BYTES} bytes for {len(listed)} states")
    inflate, total = zlib.decompressobj(), each * len(listed)
    try:
        states = inflate.decompress(data[head + 4 + size : -4], total)
        more = inflate.decompress(inflate.unconsumed_tail, 1)
    except zlib.error:
        raise ConfigError("its states are not compressed by zlib") from None
    if len(states) != total or more or not inflate.eof or inflate.unused_data:
        raise ConfigError(f"its states are not exactly {total} bytes, {len(listed)} of {each}")
    pairs = enumerate(listed)
    made = tuple(Start(states[i * each : (i + 1) * each], frames, score) for i, (frames, score) in pairs)
    return StartStates(parsed["game"], parsed["rom_md5"], parsed["recipe"], parsed["recipe_hash"], made)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """The dict of a JSON object, None if a name is repeated."""
    named = dict(pairs)
    return named if len(named) == len(pairs) else None


# ------------------------------------------------------------------ evaluation


def described(env: str, env_kwargs: dict[str, Any]) -> tuple[str, str, str]:
    """The game of an environment, "" if it is not one of the library's Atari games; its recipe's name and its recipe's hash."""
    from .envs import _ids
    from .envs.vec_env import VecEnv

    name, with_id = _ids.meaning(env)
    if name is None:
        return "", "", ""
    # VecEnv, unlike make_vec, takes no keyword of the vector, such as num_envs, from env_kwargs.
    made = VecEnv(
        name, 1, batch_size=0, num_threads=1, thread_affinity_offset=-1, autoreset_mode="next_step", copy=True, render_mode=None,
        env_kwargs=with_id | env_kwargs,
    )  # fmt: skip
    with contextlib.closing(made) as envs:
        id: str = _lib.take_json(_lib.lib().paceline_vec_describe, envs._handle.value)["env"]
        return id.removeprefix("atari/") if id.startswith("atari/") else "", envs.recipe, envs.recipe_hash


def checked(states: StartStates, env: str, env_kwargs: dict[str, Any], observed: bool) -> list[bytes]:
    """The states, which are valid for the environment. observed: the agent observes, so the recipe must be that of the states."""
    if not isinstance(states, StartStates):
        raise ConfigError(f"starts: {type(states).__name__}, must be StartStates")
    game, recipe, recipe_hash = described(env, env_kwargs)
    if game != states.game:
        raise ConfigError(f"starts: of {states.game}, must be of the game of env, {env}")
    if observed and recipe_hash != states.recipe_hash:
        raise ConfigError(
            f"starts: for the recipe {states.recipe} ({states.recipe_hash}), must be for that of env, {recipe} ({recipe_hash}); "
            "dataclasses.replace gives start states another recipe"
        )
    console = _console(states.game)
    for i, start in enumerate(states.starts):
        try:
            _lib.lib().paceline_console_restore(console._console(), start.state, len(start.state))
        except PacelineError as err:
            raise ConfigError(f"starts[{i}]: {err}") from None
        if (frames := console.getEpisodeFrameNumber()) != start.frames:
            raise ConfigError(f"starts[{i}].frames: {start.frames}, must be {frames}, the frames that its state counts")
    return [start.state for start in states.starts]


# ------------------------------------------------------------------- recording


class Recording(NamedTuple):
    """What record made: the start states, and the scores of the games that ended."""

    states: StartStates
    scores: tuple[int, ...]


def _console(game: str) -> Any:
    """A new console with a game, which acts frame by frame without sticky actions."""
    from .compat.atari import ALEInterface, roms

    console = ALEInterface()
    console.setFloat("repeat_action_probability", 0.0)
    console.setInt("random_seed", 0)
    console.loadROM(roms.get_rom_path(game))
    return console


class Player:
    """A console on which a human plays games, one after the other.

    act plays a frame, or with "RESET" starts a new game. After the end of a game act starts the next.
    Equal actions give equal frames. env_kwargs: those of the environments of the evaluation, of which
    mode and difficulty count.
    """

    def __init__(self, /, env: str, **env_kwargs: Any) -> None:
        from .compat.atari import Action

        self.game, self.recipe, self.recipe_hash = described(env, env_kwargs)
        if not self.game:
            raise ConfigError(f"env: {env}, must be an Atari game")
        self.console = _console(self.game)
        for setting, change in (("mode", self.console.setMode), ("difficulty", self.console.setDifficulty)):
            if env_kwargs.get(setting, -1) != -1:
                change(int(env_kwargs[setting]))  # the library has accepted it, and takes 1.0 for 1
        self.actions = {action.name: action for action in Action if action in self.console.getLegalActionSet()}
        self.scores: list[int] = []  # of the games that ended
        self._begin()

    def _begin(self) -> None:
        self.console.reset_game()
        self.score = 0

    @property
    def frames(self) -> int:
        """The frames of the game."""
        return int(self.console.getEpisodeFrameNumber())

    def act(self, name: str) -> bool:
        """Plays a frame with an action. Returns whether the game goes on."""
        if name == "RESET":
            self._begin()
            return False
        if name not in self.actions:
            raise ConfigError(f"action: {name!r:.40}, must be RESET or one of {', '.join(self.actions)}")
        self.score += self.console.act(self.actions[name])
        if not self.console.game_over():
            return True
        self.scores.append(self.score)
        self._begin()
        return False

    def start(self) -> Start:
        """The state of the console."""
        return Start(self.console.cloneState()._machine, self.frames, self.score)


def record(
    env: str, actions: Iterable[tuple[str, int]], *, count: int = 100, seed: int = 0, frames: int = _LAST, **env_kwargs: Any
) -> Recording:
    """Plays actions on a console and draws start states at random among the frames played.

    env: an Atari game such as "Pong". actions: pairs of an action ("RIGHTFIRE", "RESET") and the
    number of frames for which it is held, as read_actions returns. count: the number of start
    states. seed: of the draw. frames: start states are drawn among the frames of each game before
    this one, because an evaluation truncates games there. env_kwargs: the keywords of the
    environments of the evaluation, such as recipe="mnih2015".
    """
    for name, value, most in (("count", count, _MOST_STARTS), ("frames", frames, _MOST_FRAMES)):
        if type(value) is not int or not 1 <= value <= most:
            raise ConfigError(f"{name}: {value!r:.100}, must be 1 to {most}")
    script = list(actions)

    def played() -> Iterator[Player]:
        """The player at every frame that may be a start."""
        player = Player(env, **env_kwargs)
        for name, held in script:
            for _ in range(held):
                if player.act(name) and player.frames < frames:
                    yield player
        last.append(player)

    last: list[Player] = []
    playable = sum(1 for _ in played())
    if playable < count:
        raise ConfigError(f"count: {count}, must be at most {playable}, the frames of play that can be starts")
    drawn = set(random.Random(seed).sample(range(playable), count))
    found = tuple(player.start() for i, player in enumerate(played()) if i in drawn)
    player = last[-1]
    md5 = found[0].state[_MD5_AT : _MD5_AT + 32].decode()
    return Recording(StartStates(player.game, md5, player.recipe, player.recipe_hash, found), tuple(player.scores))


_MOST_SCRIPT = 1 << 26  # bytes


def read_actions(path: str | os.PathLike[str]) -> list[tuple[str, int]]:
    """Reads a script of actions: lines of an action and the number of frames for which it is held, 1 if left out.

    Empty lines and the rest of a line after # do not count.
    """
    data = _contents(os.fspath(path), _MOST_SCRIPT, "script of actions")
    actions, total = list[tuple[str, int]](), 0
    for number, line in enumerate(data.decode("ascii", "replace").splitlines(), 1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        match = re.fullmatch(r"([A-Z]{1,16})(?:[ \t]+([1-9][0-9]{0,8}))?", words)
        if match is None:
            raise CheckpointError(f"{os.fspath(path)}, line {number}: {line!r:.60}, must be an action and a number of frames: RIGHTFIRE 12")
        actions.append((match[1], int(match[2] or 1)))
        total += actions[-1][1]
        if total > _MOST_FRAMES:
            raise CheckpointError(f"{os.fspath(path)}, line {number}: more than {_MOST_FRAMES} frames")
    return actions


def write_actions(path: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Writes a script of actions for read_actions. names: the action of each frame. If writing fails, an older file stays."""
    runs = list[tuple[str, int]]()
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = name, runs[-1][1] + 1
        else:
            runs.append((name, 1))
    _replace(os.fspath(path), "".join(f"{name} {held}\n" for name, held in runs).encode("ascii"))
