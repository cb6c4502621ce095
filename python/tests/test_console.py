"""ALEInterface with good and bad input, on a generated cartridge under the name of Tetris.

test_every_call_equals_ale_py is the contract: it makes the same calls on ale-py's class and on
Paceline's, and compares the results.
"""

import ast
import copy
import ctypes
import hashlib
import os
import pickle
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

import paceline.compat.atari
from paceline import PacelineError
from paceline.atari import Action, ALEInterface, ALEState, LoggerMode, roms  # noqa: F401 - what the tables of calls name
from paceline.errors import ConfigError, PacelineWarning

# Tetris's rule reads the score from $F1 and $F2, and game over from bit 7 of $F3. The program
# copies SWCHA to $80 and counts frames in $84.
PROGRAM = bytes.fromhex(
    "D8 A2FF9A A90085F185F285F3"  # $F1, $F2, $F3 = 0
    "8502 A9028500 850285028502 A9008500"  # frame: VSYNC for three lines
    "E684 A5848509"  # INC $84, COLUBK = $84
    "AD80028580"  # $80 = SWCHA
    "24803009 F818A5F1690185F1D8"  # RIGHT: $F1 + 1
    "24807004 A98085F3"  # LEFT: game over
    "AD82024AB006 A90085F185F3"  # RESET: clear the score and game over
    "A2FA8502CAD0FB 4C0CF0"  # 250 lines
)
RIGHT, LEFT = Action.RIGHT, Action.LEFT
GETTERS = ("getScreen", "getScreenGrayscale", "getScreenRGB")


def cartridge(folder: Path, name="tetris.bin", size=4096):
    image = PROGRAM.ljust(4090, b"\0") + b"\0\xf0" * 3
    path = folder / name
    path.write_bytes((image * 4)[:size])
    return path


@pytest.fixture
def rom(tmp_path):
    return cartridge(tmp_path)


@pytest.fixture
def ale(rom):
    return load(rom)


def load(rom, make=ALEInterface, **settings):
    ale = make()
    for name, value in {"random_seed": 1, "repeat_action_probability": 0.0, **settings}.items():
        {bool: ale.setBool, int: ale.setInt, float: ale.setFloat, str: ale.setString}[type(value)](name, value)
    ale.loadROM(rom)
    return ale


# ------------------------------------------------------------ the contract

# Each line is a call or an assignment, run in order; ale is a console with the cartridge.
CALLS = """
sorted(n for n in dir(ALEInterface) if n[0] != "_"), sorted(n for n in dir(ALEState) if n[0] != "_")
list(Action), [a.value for a in Action], list(LoggerMode), [m.value for m in LoggerMode], str(Action.UP), Action.UP == 2
Action.UP + 1
Action(18)
isinstance(SDL_SUPPORT, bool)
new = ALEInterface()
new.lives()
new.getMinimalActionSet()
new.setRAM(200, 0)
new.getRAMSize()
[(get(key), type(get(key))) for key in KEYS for get in (new.getInt, new.getFloat, new.getBool, new.getString)]
[refused(set, key, value) for key in KEYS for set, value in ((new.setInt, 1), (new.setFloat, 1.0), (new.setBool, True), (new.setString, "x"))]
[(get(key), type(get(key))) for key in KEYS for get in (new.getInt, new.getFloat, new.getBool, new.getString)]
[refused(new.setInt, "frame_skip", v) for v in (2.0, "2", None, np.int64(3), np.float32(3), True, 1 << 31, -1 << 31, Index(), np.array(4))]
[refused(new.setFloat, "repeat_action_probability", v) for v in ("0.5", None, np.float32(0.1), np.int64(1), 10**400, 1e300, Index())]
[refused(new.setBool, "sound_obs", v) for v in (1, "false", None, np.True_, True)]
[refused(new.setString, "cpu", v) for v in (3, None, b"x", Path("x"), "\\udcff", "\\xe9")]
[refused(new.getInt, k) for k in (3, None, b"frame_skip", "")]
texts = [" 12abc", "12.5e1x", "99999999999", "-7", ".5", "true", "True", "1", "inf", "x", ""]
[(new.setString("cpu", t), new.getInt("cpu"), new.getFloat("cpu"), new.getBool("cpu"), new.getString("cpu")) for t in texts]
[(new.setFloat("repeat_action_probability", p), new.getFloat("repeat_action_probability"), new.getString("repeat_action_probability")) for p in FLOATS]
new.setInt("frame_skip")
new.setInt(key="frame_skip", value=1)
new.setLoggerMode(3)
new.setLoggerMode(LoggerMode.Error)
new.foo = 1
pickle.dumps(new)
copy.copy(new)
new == new, new == ALEInterface(), bool(new)
ALEInterface(3)
ALEInterface.isSupportedROM(rom), ALEInterface.isSupportedROM(bytes(rom)), ALEInterface.isSupportedROM(breakout)
ALEInterface.isSupportedROM("/nowhere/x.bin")
ALEInterface.isSupportedROM(None)
ALEInterface().loadROM(3)
ALEInterface().loadROM(None)
ale.getString("rom_file") == str(rom), ale.loadROM(bytes(rom)), ale.loadROM(str(rom)), ale.loadROM(""), ale.getFrameNumber()
ale.getLegalActionSet(), ale.getMinimalActionSet(), ale.getAvailableModes(), ale.getAvailableDifficulties()
ale.getScreenDims(), ale.lives(), ale.getFrameNumber(), ale.getEpisodeFrameNumber(), ale.game_over(), ale.game_truncated()
[type(x) for x in (ale.getScreenDims(), ale.lives(), ale.getFrameNumber(), ale.game_over(), ale.act(0), ale.getAvailableModes())]
[ale.act(a) for a in (3, True, Action.RIGHT, np.int64(3), np.uint8(3), np.array(3), Index(), 40)]
[ale.act(3, s) for s in (1, 0.5, -1.0, 0.0, 2.5, np.float32(1), True, Index())]
[refused(ale.act, a) for a in (-1, 1 << 32, "NOOP", 3.0, None, [3], np.float32(3), np.array([3]), LoggerMode.Error)]
[refused(ale.act, 3, s) for s in ("1", None, 10**400, [1.0])]
ale.act()
ale.act(action=3, paddle_strength=0.5), ale.act(action=Action.RIGHT)
[refused(ale.game_over, x) for x in (0, None, "x", True)]
ale.game_over(with_truncation=False)
[refused(ale.setMode, m) for m in (0, 1, -1, 1 << 31, 1 << 32, "0", 0.0, None, Action.NOOP, np.int64(0))]
[refused(ale.setDifficulty, d) for d in (0, 4, -1, 1 << 31, 1 << 32, "0", 0.0, None)]
[refused(ale.setRAM, i, 1) for i in (127, 128, -1, 1 << 40, 1 << 64, "1", 1.0, None, np.int8(1))]
[refused(ale.setRAM, 1, v) for v in (0, 255, 256, -1, 1.5, None, b"a", np.uint8(3))]
ale.getRAM()
[filled(ale.getRAM, b) for b in rams()]
ale.getScreen()
ale.getScreenGrayscale()
ale.getScreenRGB()
[filled(getattr(ale, get), b) for get in GETTERS for b in screens()]
[refused(getattr(ale, get), b) for get in GETTERS for b in wrong_screens()]
ale.getScreen(buffer=np.empty((210, 160), np.uint8))
[refused(ale.saveScreenPNG, p) for p in (None, 3, Path("x"), b"x")]
ale.getAudioSize()
state, system = ale.cloneState(), ale.cloneSystemState()
state.getFrameNumber(), state.getEpisodeFrameNumber(), state.getCurrentMode(), state.getDifficulty(), type(state.serialize())
state == ale.cloneState(), state != ale.cloneState(), state.equals(ale.cloneState()), state == system, system == ale.cloneState(include_rng=True)
hash(state) == hash(ale.cloneState()), len({state, ale.cloneState()})
[refused(f, x) for f in (state.__eq__, state.equals, ale.restoreState, ale.restoreSystemState) for x in (3, None, b"", "x")]
state == None
state < state
[refused(ale.cloneState, x) for x in (1, None, "x")]
ale.cloneSystemState(True)
copies = pickle.loads(pickle.dumps(state)), copy.copy(state), copy.deepcopy(state), ALEState(state.serialize())
[c == state for c in copies], [c.serialize() == state.serialize() for c in copies]
[refused(ALEState, *x) for x in ((None,), (3,), (state,), (b"", state), (state, b"", 1))]
ALEState().getFrameNumber(), ALEState().getCurrentMode(), ALEState() == ALEState(), type(ALEState(ALEState(), b"x")).__name__
state.foo = 3
[ale.act(i % 4) for i in range(9)], ale.restoreState(state), ale.getFrameNumber(), ale.getRAM(), [ale.act(i % 4) for i in range(9)], ale.getScreen()
[(ale.setInt("frame_skip", 3), ale.setInt("reward_max", 0), ale.setBool("color_averaging", True), ale.setInt("max_num_frames_per_episode", 1))]
ale.setFloat("repeat_action_probability", 1.0), [ale.act(3) for i in range(4)], ale.game_over(), ale.reset_game(), ale.act(3), ale.getScreen()
ale = load(rom, frame_skip=0, reward_min=-5, reward_max=0)
ale.act(3), ale.getFrameNumber(), ale.act(0)
ale = load(rom, frame_skip=4, reward_min=5, reward_max=3)
ale.act(3), ale.act(0)
ale = load(rom, max_num_frames_per_episode=3, frame_skip=2)
[(ale.act(3), ale.getEpisodeFrameNumber(), ale.game_over(), ale.game_over(False), ale.game_truncated()) for i in range(4)]
[[load(rom, repeat_action_probability=p).act(3) for i in range(3)] for p in (1.5, -0.5, float("nan"))]
load(rom, max_num_frames_per_episode=-1, max_num_frames=1, restricted_action_set=True, send_rgb=True, sound_obs=True).game_over()
ale = load(breakout, truncate_on_loss_of_life=True, frame_skip=4, repeat_action_probability=0.1)
first, until = ale.cloneSystemState(), []
while not ale.game_over(): until.append(ale.act(1 + len(until) % 4))
len(until), ale.lives(), ale.getEpisodeFrameNumber(), ale.act(3), ale.getEpisodeFrameNumber(), ale.game_over(False), ale.game_truncated()
last = ale.cloneSystemState()
ale.restoreState(first), ale.game_over(), ale.act(1), ale.getEpisodeFrameNumber(), ale.restoreState(last), ale.game_over(), ale.act(1), ale.getEpisodeFrameNumber()
ale.reset_game(), ale.game_over(), [(ale.act(1 + i % 4), ale.game_over()) for i in range(60)], ale.getRAM()
[(ale.act(a, s), ale.getRAM()) for s in (0.5, 3.0, -5.0, 100.0) for a in (3, 4)]
ale.reset_game(), ale.act(0), [(ale.setRAM(57, n), ale.act(0), ale.lives(), ale.game_truncated()) for n in (6, 5, 4)]
ale.setMode(8), ale.setDifficulty(1), ale.cloneState().getCurrentMode(), ale.cloneState().getDifficulty()
other = load(breakout)
other.restoreState(ale.cloneState()), other.cloneState().getCurrentMode(), other.cloneState().getDifficulty(), other.reset_game(), other.getRAM()
ale = load(breakout, color_averaging=True)
[ale.act(1 + i % 3) for i in range(30)], ale.getScreen(), ale.getScreenRGB(), ale.getScreenGrayscale()
ale.saveScreenPNG(str(folder / "image.png")), pixels(folder / "image.png")
ale = load(rom, record_screen_dir=str(folder), frame_skip=2)
[ale.act(3), ale.reset_game(), ale.act(3), [pixels(file) for file in sorted(folder.glob("0*.png"))]]
"""

# Deliberate differences from ale-py: the call, what ale-py does, and Paceline's error. A state also
# holds the images and the action that sticky actions repeat (test_states_restore_the_console).
DIFFERENT = [
    *((f"ALEInterface().{call}", "it crashes", RuntimeError, "ROM not set") for call in (
        "act(0)", "reset_game()", "game_over()", "game_truncated()", "getFrameNumber()", "getEpisodeFrameNumber()",
        "getRAM()", "setRAM(0, 0)", "getScreen()", "getScreenGrayscale()", "getScreenRGB()", "getScreenDims()",
        "getAvailableModes()", "getAvailableDifficulties()", "setMode(0)", "setDifficulty(0)", "cloneState()",
        "cloneSystemState()", "restoreState(ALEState())", "saveScreenPNG('x.png')",
    )),
    ("ale.act(18)", "it ends the process", ConfigError, "action: 18, must be 0 to 17, or 40"),
    ("ale.act((1 << 32) - 1)", "it ends the process", ConfigError, "action: 4294967295, must be"),
    ("ale.loadROM('/nowhere/x.bin')", "it ends the process", OSError, "/nowhere/x.bin"),
    ("ale.loadROM('/')", "it crashes", ConfigError, "must be a file"),
    ("ale.loadROM(cartridge(folder, 'mine.bin'))", "it ends the process", ConfigError, "neither its MD5"),
    ("ale.loadROM(cartridge(folder, 'pong.bin', 1000))", "it ends the process", ConfigError, "1000 bytes, must be 2048"),
    ("ale.loadROM(cartridge(folder, 'combat.bin'))", "it ends the process", ConfigError, "combat"),
    ("ALEInterface().loadROM('')", "it ends the process", ConfigError, "empty"),
    ("load(rom, frame_skip=-1)", "it never returns", ConfigError, "frame_skip: -1, must be at least 0"),
    ("ale.act(3, float('nan'))", "it is undefined", ConfigError, "strength: NaN, must be"),
    ("ale.act(3, 1e9)", "it overflows", ConfigError, r"strength: 1e\+09, must be -90000 to 90000"),
    ("ALEState(b'abc')", "SystemError without a text", ConfigError, "state: 3 bytes"),
    ("ale.restoreState(ALEState())", "SystemError without a text", ConfigError, "state: 0 bytes"),
    ("ale.restoreState(ALEState(ale.cloneState().serialize()[:-1]))", "it is undefined", ConfigError, "cut off"),
    ("ALEInterface.isSupportedROM('/')", "a message of its C++ library", RuntimeError, "must be a file"),
    ("ale.saveScreenPNG('/nowhere/x.png')", "nothing is written, nor said", OSError, "nowhere"),
    ("load(rom, record_screen_dir='/nowhere').act(0)", "nothing is written, nor said", OSError, "nowhere"),
    ("load(rom, record_sound_filename='x.wav')", "there is no sound here", NotImplementedError, "record_sound_filename"),
    ("ale.getAudio()", "there is no sound here", NotImplementedError, "no sound"),
    ("load(rom, system_random_seed=1)", "it is not built", NotImplementedError, "system_random_seed: '1', must be '4753849'"),
    ("load(rom, paddle_min=1)", "it is not built", NotImplementedError, "paddle_min: '1', must be '-1'"),
    ("load(rom, display_screen=True)", "there is no window here", PacelineWarning, "no window"),
    ("roms.get_rom_path('pongg')", "a warning, and None", ConfigError, "did you mean pong"),
    ("roms.get_rom_path('combat')", "cannot be loaded", ConfigError, "cannot be played"),
]  # fmt: skip


class Index:
    def __index__(self):
        return 3


def plain(value):
    """Converts a result of either library to a form that can be compared."""
    if isinstance(value, np.ndarray):
        flags = value.flags.c_contiguous, value.flags.writeable
        return type(value).__name__, str(value.dtype), value.shape, flags, hashlib.md5(value.tobytes()).hexdigest()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if type(value).__name__ == "ALEState":
        return "ALEState"
    return type(value).__name__, value.__name__ if isinstance(value, type) else repr(value)


def refused(call, *arguments):
    """Returns the outcome of a call. The text of a TypeError is left out: ale-py's lists its
    overloads.

    From Python 3.12 on, an AttributeError of a C class also names the module, which is removed.
    """
    try:
        return plain(call(*arguments))
    except Exception as err:
        return type(err).__name__, "" if type(err) is TypeError else str(err).replace("'ale_py._ale_py.", "'")


def filled(get, buffer):
    outcome = refused(get, buffer)
    return outcome, bytes(memoryview(buffer).cast("B")) == get().tobytes()


def pixels(file):
    image = pytest.importorskip("PIL.Image", reason="images are compared with Pillow: not installed")
    return np.asarray(image.open(file))


def rams():
    return np.zeros(128, np.uint8), bytearray(128), memoryview(bytearray(128))


def screens():
    yield from (np.zeros((210, 160), np.uint8), np.zeros((210, 160, 3), np.uint8), np.zeros((4, 210, 160), np.uint8)[2])
    yield memoryview(bytearray(210 * 160)).cast("B", (210, 160))


def wrong_screens():
    fixed = np.zeros((210, 160), np.uint8)
    fixed.flags.writeable = False
    yield from (fixed, np.zeros((420, 160), np.uint8)[::2], np.zeros((210, 160), np.uint8, order="F"))
    yield from (np.zeros(shape, np.uint8) for shape in ((3, 3), (211, 160), (33600,), (210, 160, 1), (3, 210, 160), (), (0,)))
    yield from (np.zeros((210, 160), kind) for kind in (np.float32, np.int8, np.bool_, np.uint16))
    yield from ([[0] * 160] * 210, bytearray(33600), b"x", "x", 3, None)


KEYS = [*paceline.compat.atari.Settings(), "nothing", "screen_exposure"]
FLOATS = [0.1, 1e-5, 1 / 3, 1234567.0, 2.0, -1.0, -0.0, float("inf"), float("nan")]


def names(module, rom, folder):
    def same_load(path, **settings):
        return load(path, module.ALEInterface, **settings)

    return {**globals(), **{n: getattr(module, n) for n in paceline.compat.atari.__all__}} | {
        "rom": rom, "folder": folder, "load": same_load, "ale": same_load(rom), "breakout": module.roms.get_rom_path("breakout"),
    }  # fmt: skip


def outcomes(module, rom, folder):
    known = names(module, rom, folder)

    def run(node, line):
        if isinstance(node, ast.Expr):
            return eval(line, known)
        exec(line, known)

    return [(line, refused(run, ast.parse(line).body[0], line)) for line in CALLS.strip().splitlines()]


def test_every_call_equals_ale_py(rom, tmp_path):
    ale_py = pytest.importorskip("ale_py", reason="the comparison with ale-py's class: ale-py is not installed")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    found = []
    for module in (ale_py, paceline.atari):
        folder = tmp_path / module.__name__
        folder.mkdir()
        found.append(outcomes(module, rom, folder))
    for (line, theirs), (_, ours) in zip(*found, strict=True):
        assert ours == theirs, line


@pytest.mark.parametrize(("game", "lives"), [("amidar", 11), ("demon_attack", 4), ("turmoil", 4)])
def test_lives_that_a_game_sets_in_its_first_frame_can_be_lost(game, lives):
    path = pytest.importorskip("ale_py.roms", reason="the cartridge of a real game: ale-py is not installed").get_rom_path(game)
    ale = load(path, truncate_on_loss_of_life=True, frame_skip=4)
    actions, rng = [action.value for action in ale.getMinimalActionSet()], np.random.default_rng(0)
    for _ in range(2):
        assert ale.lives() < lives and not ale.game_over()
        ale.act(0)
        assert ale.lives() == lives
        for _ in range(2000):
            if ale.game_over():
                break
            ale.act(actions[rng.integers(len(actions))])
        assert ale.lives() == lives - 1 and ale.game_truncated() and not ale.game_over(False)
        ale.reset_game()


@pytest.mark.parametrize(("call", "why", "error", "says"), DIFFERENT, ids=[row[0] for row in DIFFERENT])
def test_deliberate_differences_from_ale_py(call, why, error, says, rom, tmp_path, recwarn):
    known = {**globals(), "rom": rom, "folder": tmp_path, "ale": load(rom)}
    if issubclass(error, Warning):
        eval(call, known)
        assert says in str(recwarn.pop(error).message)
    else:
        with pytest.raises(error, match=says):
            eval(call, known)
    assert known["ale"].act(RIGHT) == 1 and known["ale"].getEpisodeFrameNumber() == 1, "an error does not change the console"


# ------------------------------------------------------- without ale-py


def test_settings_take_effect_at_load(rom):
    ale = load(rom)
    ale.setInt("frame_skip", np.int64(3))
    ale.setInt("reward_max", 2)
    ale.setInt("max_num_frames_per_episode", 7)
    assert [ale.act(RIGHT) for _ in range(3)] == [1, 1, 1] and not ale.game_over() and ale.getInt("frame_skip") == 3
    ale.loadROM(rom)
    assert ale.getString("rom_file") == str(rom)
    assert [ale.act(RIGHT) for _ in range(4)] == [2, 2, 1, 0]
    assert ale.game_over() and ale.game_truncated() and not ale.game_over(with_truncation=False)
    with pytest.raises(RuntimeError, match="The key frameskip you are trying to set does not exist"):
        ale.setInt("frameskip", 1)
    assert ale.getInt("frameskip") == -1 and ale.getString("frameskip") == "" and ale.getString("frame_skip") == "3"


def test_a_refused_load_keeps_the_cartridge(ale, rom, tmp_path):
    ale.act(RIGHT)
    for path in (tmp_path / "none.bin", tmp_path, cartridge(tmp_path, "mine.bin"), cartridge(tmp_path, "pong.bin", 1000), 3):
        with pytest.raises((PacelineError, TypeError)):
            ale.loadROM(path)
        assert ale.getEpisodeFrameNumber() == 1 and ale.getString("rom_file") == str(rom)
    ale.loadROM(bytes(rom))
    assert ale.getEpisodeFrameNumber() == 0 and ALEInterface.isSupportedROM(rom) is None


def test_act_returns_rewards_and_refuses_other_types(ale):
    assert ale.act(RIGHT) == ale.act(3) == ale.act(np.int64(3)) == ale.act(action=3, paddle_strength=0.5) == 1
    assert ale.act(Action.NOOP) == ale.act(40) == 0 and ale.getRAM()[0] == 0xFF
    for wrong in ("NOOP", "3", 3.0, None, [3], np.float32(3), -1):
        with pytest.raises(TypeError, match="act.*action"):
            ale.act(wrong)
    frames = ale.getEpisodeFrameNumber()
    assert ale.act(LEFT) == 0 and ale.game_over() and not ale.game_truncated()
    assert ale.act(RIGHT) == 0 and ale.getEpisodeFrameNumber() == frames + 1
    ale.reset_game()
    assert not ale.game_over() and ale.getEpisodeFrameNumber() == 0 and ale.lives() == 0


def test_screens_and_ram_fill_buffers(ale, tmp_path):
    ale.act(RIGHT)
    for get, shape in zip(GETTERS, ((210, 160), (210, 160), (210, 160, 3)), strict=True):
        mine = np.empty(shape, np.uint8)
        assert getattr(ale, get)(mine) is None and (mine == getattr(ale, get)()).all()
        raw = (ctypes.c_uint8 * mine.size)()  # ale-py crashes on ctypes arrays
        assert getattr(ale, get)(memoryview(raw).cast("B", shape)) is None and bytes(raw) == mine.tobytes()
        for wrong in wrong_screens():
            with pytest.raises((TypeError, RuntimeError)):
                getattr(ale, get)(wrong)
    assert (ale.getScreen() == (ale.getRAM()[4] & 0xFE)).any()
    ale.saveScreenPNG(str(tmp_path / "screen.png"))
    data = zlib.decompress((tmp_path / "screen.png").read_bytes().partition(b"IDAT")[2][:-16])
    lines = np.frombuffer(data, np.uint8).reshape(210, 1 + 3 * 320)
    assert (lines[:, 1:].reshape(210, 160, 2, 3) == ale.getScreenRGB()[:, :, None]).all()
    ram = ale.getRAM()
    ram[0] = 1  # getRAM returns a copy
    assert ale.getRAM()[0] == 0x7F
    ale.setRAM(0x71, 0x98)
    assert ale.getRAM()[0x71] == 0x98 and ale.act(0) == 97


def play(ale, acts=200):
    return [(ale.act(i * 7 % 4), ale.getRAM().tobytes(), ale.getScreen().tobytes()) for i in range(acts)]


def test_states_restore_the_console(rom, tmp_path):
    ale, other = load(rom, repeat_action_probability=0.25), load(rom, repeat_action_probability=0.25)
    for i in range(30):
        ale.act(i % 4)
    state, system = ale.cloneState(), ale.cloneSystemState()
    assert (state.getFrameNumber(), state.getEpisodeFrameNumber()) == (ale.getFrameNumber(), 30)
    assert state == ale.cloneState() != other.cloneState() and system != state
    shown = ale.getScreen()
    expected = play(ale)
    for copied in (system, pickle.loads(pickle.dumps(system)), copy.deepcopy(system), ALEState(system.serialize())):
        assert copied == system
        other.restoreSystemState(copied)
        assert (other.getScreen() == shown).all()
        assert other.cloneSystemState() == system and play(other) == expected

    # A state without the random generator does not change the interface's generator.
    other.restoreState(state)
    assert other.cloneState() == state and other.cloneSystemState() != system

    before = other.cloneSystemState()
    data = state.serialize()
    damaged = data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]
    for wrong, says in ((data[:-1], "cut off"), (data + b"\0", "must be"), (damaged, "checksum"), (b"x" * len(data), "state: ")):
        with pytest.raises(ConfigError, match=says):
            other.restoreState(ALEState(wrong))
    kaboom = load(cartridge(tmp_path, "kaboom.bin", 2048))
    with pytest.raises(ConfigError, match="mode 0|of the cartridge with MD5"):
        kaboom.restoreState(state)
    assert other.cloneSystemState() == before


def test_rom_files_are_found_in_the_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_ROMS_DIR", str(tmp_path))
    cartridge(tmp_path)  # named like Tetris, but with other bytes
    monkeypatch.setattr(paceline.compat.atari._lib, "rom_folders", list)
    monkeypatch.delenv("ALE_ROMS_DIR", raising=False)
    assert roms.get_all_rom_ids() == []
    with pytest.raises(TypeError):
        roms.get_rom_path(None)
    monkeypatch.undo()
    if "pong" not in roms.get_all_rom_ids():
        pytest.skip("no ROM files were found: finding them was left out")
    pong = roms.get_rom_path("pong")
    assert isinstance(pong, Path) and ALEInterface.isSupportedROM(pong) == "pong"
    (tmp_path / "pong.bin").write_bytes(pong.read_bytes())
    monkeypatch.delenv("PACELINE_ROMS_DIR", raising=False)
    for variable in ("ALE_ROMS_DIR", "PACELINE_ROMS_DIR"):
        folder = tmp_path / variable
        folder.mkdir()
        os.link(tmp_path / "pong.bin", folder / "pong.bin")
        monkeypatch.setenv(variable, str(folder))
        assert roms.get_rom_path("pong") == folder / "pong.bin"


def test_consoles_in_threads_play_the_same(rom):
    """Consoles in separate threads play as a console alone does."""

    def run(seed, results):
        ale = ALEInterface()
        ale.setInt("random_seed", seed)
        ale.loadROM(rom)
        results[seed] = play(ale, 60)

    alone, together = {}, {}
    for seed in range(4):
        run(seed, alone)
    threads = [threading.Thread(target=run, args=(seed, together)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == together and alone[0] != alone[1]
