"""Start states of Atari games: files, scripts of actions, recording, evaluation, the command line."""

import errno
import json
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import paceline
from paceline import _window, scores, starts
from paceline.cli import main
from paceline.errors import CheckpointError, ConfigError, VersionError
from paceline.starts import Start, StartStates

MD5 = "0123456789abcdef" * 2


def made(n=3, size=200):
    """Start states that no console can play."""
    state = lambda i: (b"x" * 16 + MD5.encode() + bytes([i]) * size)[:size]  # noqa: E731
    return StartStates("pong", MD5, "ale(noop_max=10)", "0123456789ab", tuple(Start(state(i), 10 * i, i - 1) for i in range(n)))


# ----------------------------------------------------------------------- files


def test_a_file_has_what_was_written(tmp_path):
    states = made()
    starts.write(tmp_path / "pong", states)
    assert [path.name for path in tmp_path.iterdir()] == ["pong.starts"]
    assert starts.read(tmp_path / "pong") == starts.read(tmp_path / "pong.starts") == states
    starts.write(tmp_path / "new" / "folder" / "x.y", made(100))
    assert len(starts.read(tmp_path / "new" / "folder" / "x.y").starts) == 100
    with open(tmp_path / "pong.starts", "rb") as file:
        assert starts.read(file) == states


def test_every_damaged_byte_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "pong.starts"
    starts.write(path, made())
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (1, 0x80)]
    damaged += [whole[:n] for n in range(len(whole))] + [whole + b"\0", whole + whole, b"", rng.bytes(300)]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises((CheckpointError, VersionError)) as raised:
            starts.read(path)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)
    with pytest.raises(CheckpointError, match="no such file"):
        starts.read(tmp_path / "nothing")
    with pytest.raises(CheckpointError):
        starts.read(tmp_path)


def forged(head, states, text=None):
    """A file with a right checksum."""
    text = json.dumps(head).encode() if text is None else text
    data = b"paceline starts 1\n" + struct.pack("<I", len(text)) + text + states
    return data + struct.pack("<I", zlib.crc32(data))


HEAD = {"game": "pong", "rom_md5": MD5, "recipe": "ale", "recipe_hash": "0" * 12, "state_bytes": 100, "starts": [[5, 6], [7, 8]]}
STATES = (b"x" * 16 + MD5.encode() + b"y" * 52) * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"game": "../pong"}, "game: '../pong', must be the id of a game"),
        ({"game": 3}, "game: 3, must be"),
        ({"rom_md5": MD5.upper()}, "rom_md5: "),
        ({"rom_md5": "f" * 32}, "starts[0].state: not of the cartridge with MD5"),
        ({"recipe": "a\nb"}, "recipe: "),
        ({"recipe_hash": None}, "recipe_hash: None, must be 12 hexadecimal digits"),
        ({"state_bytes": 101}, "its states are not exactly 202 bytes, 2 of 101"),
        ({"state_bytes": 99}, "its states are not exactly 198 bytes"),
        ({"state_bytes": True}, "state_bytes: True, must be"),
        ({"state_bytes": 1 << 40}, "state_bytes: 1099511627776, must be"),
        ({"state_bytes": 0}, "state_bytes: 0, must be"),
        ({"starts": []}, "starts: 0, must be 1 to 10000"),
        ({"starts": [[1, 2]] * 10_001}, "starts: 10001, must be 1 to 10000"),
        ({"starts": {"5": 6}}, "starts: must be a list of [frames, score]"),
        ({"starts": [[5, 6], [7]]}, "starts: must be a list of [frames, score]"),
        ({"starts": [[5, 6], [-1, 8]]}, "starts[1].frames: -1, must be a whole number from 0"),
        ({"starts": [[5, 6], [7.0, 8]]}, "starts[1].frames: 7.0, must be a whole number"),
        ({"starts": [[5, 6], [True, 8]]}, "starts[1].frames: True, must be a whole number"),
        ({"starts": [[5, 1e400], [7, 8]]}, "starts[0].score: inf, must be a whole number"),
        ({"starts": [[5, 6], [7, 1 << 31]]}, "starts[1].score: 2147483648, must be"),
        ({"more": 1}, "its head must be a JSON object of game, recipe,"),
    ],
)
def test_forged_files_with_a_right_checksum_are_refused(tmp_path, change, says):
    path = tmp_path / "x.starts"
    path.write_bytes(forged(HEAD, zlib.compress(STATES)))
    assert [start[1:] for start in starts.read(path).starts] == [(5, 6), (7, 8)]
    path.write_bytes(forged(HEAD | change, zlib.compress(STATES)))
    with pytest.raises(CheckpointError) as raised:
        starts.read(path)
    assert str(raised.value).startswith(f"{path}: {says}") and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (forged(HEAD, STATES), "its states are not compressed by zlib"),
        (forged(HEAD, zlib.compress(STATES)[:-2]), "its states are not exactly 200 bytes"),
        (forged(HEAD, zlib.compress(STATES) + b"more"), "its states are not exactly 200 bytes"),
        (forged(HEAD, zlib.compress(STATES + b"x" * (1 << 24))), "its states are not exactly 200 bytes"),
        (forged(HEAD, b""), "its states are not exactly 200 bytes"),
        (forged(None, b"", b"[" * 500_000), "its head is not JSON"),
        (forged(None, b"", b"{\xff"), "its head is not JSON"),
        (forged(None, zlib.compress(STATES), json.dumps(HEAD).encode("utf-16")), "its head is not JSON in UTF-8"),
        (forged(None, zlib.compress(STATES), json.dumps(HEAD).encode("utf-8-sig")), "its head is not JSON in UTF-8"),
        (forged(None, b"", b"[1]"), "its head must be a JSON object"),
        (forged(None, zlib.compress(STATES), b'{"game": 1,' + json.dumps(HEAD)[1:].encode()), "its head must be a JSON object of game,"),
        (b"paceline starts 2\nabc", "start states of version '2', this library reads version '1'"),
        (b"paceline starts 1\n" + struct.pack("<II", 1 << 30, 0), "the checksum is wrong"),
        (b"a text", "not a file of start states"),
    ],
)
def test_other_forms_are_refused(tmp_path, data, says):
    (tmp_path / "x.starts").write_bytes(data)
    with pytest.raises((CheckpointError, VersionError)) as raised:
        starts.read(tmp_path / "x.starts")
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_a_failed_write_keeps_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "x.starts"
    starts.write(path, made(2))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(starts.os, "replace", full)
    with pytest.raises(CheckpointError, match="not written: No space left"):
        starts.write(path, made(3))
    assert starts.read(path) == made(2) and [each.name for each in tmp_path.iterdir()] == ["x.starts"]


# --------------------------------------------------------------------- scripts


def test_scripts_of_actions(tmp_path):
    path = tmp_path / "play.txt"
    starts.write_actions(path, ["NOOP", "NOOP", "FIRE", "NOOP", "RESET"])
    assert path.read_text() == "NOOP 2\nFIRE 1\nNOOP 1\nRESET 1\n"
    assert starts.read_actions(path) == [("NOOP", 2), ("FIRE", 1), ("NOOP", 1), ("RESET", 1)]
    path.write_text("# a comment\n\n  UPFIRE   12  # held\nLEFT\n")
    assert starts.read_actions(path) == [("UPFIRE", 12), ("LEFT", 1)]
    for text in ("LEFT x", "LEFT 0", "LEFT -1", "LEFT 1 2", "left 3", "LEFT 9999999999", "\x00", "é 3", "LEFT 999999999\nLEFT 999999999"):
        path.write_bytes(b"NOOP\n" + text.encode())
        with pytest.raises(CheckpointError, match=rf"{path}, line [23]: "):
            starts.read_actions(path)
    with pytest.raises(CheckpointError, match="not read"):
        starts.read_actions(tmp_path / "nothing")


def test_keys_become_actions():
    from paceline._window import action

    assert action(False, False, False, False, False) == "NOOP" and action(False, False, False, False, True) == "FIRE"
    assert action(True, False, False, True, True) == "UPRIGHTFIRE" and action(False, True, True, False, False) == "DOWNLEFT"
    assert action(True, True, True, False, True) == "LEFTFIRE" and action(True, True, True, True, False) == "NOOP"


# ---------------------------------------------------------------------- scores


def test_published_scores_and_the_scale():
    pong = scores.published("pong", "human_starts")
    assert pong[:4] == (-18, 15.5, 16.2, 16.71) and "Table 3" in pong.source
    # The paper's Tables 1 and 2.
    for game, kind, dqn, gorila in (
        ("alien", "human_starts", 7.07, 10.97), ("boxing", "human_starts", 245.94, 682.03), ("up_n_down", "human_starts", 28.33, 87.50),
        ("alien", "null_op", 42.74, 35.99), ("zaxxon", "null_op", 54.08, 77.63), ("jamesbond", "null_op", 145.00, 152.50),
    ):  # fmt: skip
        table = scores.published(game, kind)
        assert scores.normalised(table.dqn, table.random, table.human) == pytest.approx(dqn, abs=0.05)
        assert scores.normalised(table.gorila, table.random, table.human) == pytest.approx(gorila, abs=0.05)
    assert {len(table["games"]) for name, table in scores._tables().items() if name != "about"} == {49}
    for call, says in (
        (lambda: scores.published("tetris", "null_op"), "game: 'tetris', must be one of alien, amidar,"),
        (lambda: scores.published("pong", "no_op"), "starts: 'no_op', must be human_starts or null_op"),
        (lambda: scores.normalised(1, 2, 2), "human: 2, must not be the score of the random agent"),
        (lambda: scores.normalised(float("nan"), 0, 2), "score: nan, must be finite"),
    ):
        with pytest.raises(ConfigError, match=says):
            call()


# ------------------------------------------------------------ recording, playing


@pytest.fixture(scope="module")
def pong():
    """A policy for Pong; skips the test without a ROM file."""
    try:
        paceline.make_vec("Pong").close()
    except paceline.PacelineError as err:
        pytest.skip(str(err))
    with paceline.DQN("CnnPolicy", "Pong", buffer_size=1_000, learning_starts=100, seed=1) as model, model.policy_snapshot() as policy:
        yield policy


PLAY = [("FIRE", 3), ("NOOP", 40), *[(name, 9) for name in ("RIGHT", "LEFT", "RIGHTFIRE", "NOOP")] * 12]


def reports(policy, env, states, **keywords):
    return policy.evaluate(env, starts=states, seed=3, **keywords)


def test_a_start_is_the_frame_at_which_it_was_recorded(pong):
    made = starts.record("Pong", PLAY, count=12, seed=4)
    assert made == starts.record("Pong", PLAY, count=12, seed=4) != starts.record("Pong", PLAY, count=12, seed=5)
    states = made.states
    assert states.game == "pong" and states.recipe == "ale" and len({start.frames for start in states.starts}) == 12
    # The same actions on a console of its own, frame by frame.
    from paceline.atari import Action, ALEInterface, roms

    human = ALEInterface()
    human.setFloat("repeat_action_probability", 0)
    human.setInt("random_seed", 0)
    human.loadROM(roms.get_rom_path("pong"))
    human.reset_game()
    by_frame, score = {start.frames: start for start in states.starts}, 0
    names = [name for name, held in PLAY for _ in range(held)]
    for i, name in enumerate(names):
        score += human.act(Action[name])
        if start := by_frame.pop(human.getEpisodeFrameNumber(), None):
            assert start.score == score and start.state == human.cloneState()._machine
            again = ALEInterface()
            again.loadROM(roms.get_rom_path("pong"))
            again.setFloat("repeat_action_probability", 0)
            again.setInt("random_seed", 9)
            again.loadROM(roms.get_rom_path("pong"))
            again.restoreState(type(human.cloneState())(human.cloneState(), start.state))
            assert np.array_equal(again.getScreenRGB(), human.getScreenRGB())
            live = human.cloneState()
            for later in names[i + 1 : i + 60]:
                assert again.act(Action[later]) == human.act(Action[later])
                assert np.array_equal(again.getScreenRGB(), human.getScreenRGB()) and np.array_equal(again.getRAM(), human.getRAM())
            human.restoreState(live)
    assert not by_frame


def test_returns_have_the_agents_points_alone_and_frames_count_the_humans(pong):
    states = starts.record("Pong", PLAY, count=5, seed=1).states
    first = reports(pong, "Pong", states, max_frames=700)
    assert first.episodes == 5 and first == reports(pong, "Pong", states, max_frames=700)
    for start, length in zip(states.starts, first.lengths):
        assert length == -(-(700 - start.frames) // 4), "a step has four frames, the last one the rest"
    # A game that the human has nearly lost: the points before the start do not count.
    late = starts.record("Pong", [("FIRE", 3), ("NOOP", 900)], count=300, seed=2).states
    late = replace(late, starts=tuple(start for start in late.starts if start.score <= -5)[:3])
    assert len(late.starts) == 3
    for start, total in zip(late.starts, reports(pong, "Pong", late).returns):
        assert -21 - start.score <= total <= 21
    short = reports(pong, "Pong", late, max_frames=max(start.frames for start in late.starts) + 1)
    assert min(short.lengths) == 1 and max(abs(total) for total in short.returns) <= 5
    again = reports(pong, "Pong", states, episodes=12, max_frames=500)
    assert again.lengths[:5] == again.lengths[5:10]
    # Null-op starts have the limit, too.
    assert set(pong.evaluate("Pong", 3, max_frames=400).lengths) == {100}


def test_the_random_agent_acts_at_10_hz_from_the_same_starts(pong):
    states = starts.record("Pong", PLAY, count=4, seed=1).states
    random = reports(pong, "Pong", states, epsilon=1.0, frameskip=6, max_frames=900)
    for start, length in zip(states.starts, random.lengths):
        assert length == -(-(900 - start.frames) // 6)
    assert random.mean_return < 0


def test_wrong_starts_are_refused(pong):
    states = starts.record("Pong", PLAY, count=2, seed=1).states
    damaged = bytearray(states.starts[1].state)
    damaged[5000] ^= 1
    for env, given, keywords, says in (
        ("Breakout", states, {}, r"starts: of pong, must be of the game of env, Breakout"),
        ("Pong", states, {"recipe": "mnih2015"}, r"starts: for the recipe ale \(\w+\), must be for that of env, mnih2015 \(\w+\)"),
        ("Pong", states, {"frameskip": 6}, r"starts: for the recipe ale"),
        ("Pong", replace(states, starts=(states.starts[0], states.starts[1]._replace(frames=7))), {}, r"starts\[1\].frames: 7, must be"),
        ("Pong", replace(states, starts=(states.starts[0], states.starts[1]._replace(state=bytes(damaged)))), {}, r"starts\[1\]: state: "),
        ("Pong", states, {"max_frames": 5}, r"starts\[0\]: state: \d+ frames of its game are played, must be fewer than 5"),
        ("Pong", states, {"max_frames": -5}, r"max_frames: -5, must be 0 to"),
        ("Pong", "pong.starts", {"episodes": 1}, r"starts: str, must be StartStates"),
    ):
        with pytest.raises(ConfigError, match=says):
            reports(pong, env, given, **keywords)
    other = replace(states, recipe="mnih2015", recipe_hash=starts.described("Pong", {"recipe": "mnih2015"})[2])
    assert reports(pong, "Pong", other, recipe="mnih2015", max_frames=700).episodes == 2
    with paceline.DQN("MlpPolicy", "CartPole-v1", seed=1) as model, model.policy_snapshot() as policy:
        with pytest.raises(ConfigError, match="starts: of pong, must be of the game of env, CartPole-v1"):
            policy.evaluate("CartPole-v1", starts=states)
        with pytest.raises(ConfigError, match='max_frames: 9, must be 0 for "CartPole-v1", which has no frames'):
            policy.evaluate("CartPole-v1", 1, max_frames=9)


def test_recording_is_checked(pong):
    for keywords, says in (
        ({"count": 0}, "count: 0, must be 1 to 10000"),
        ({"count": 2.0}, "count: 2.0, must be"),
        ({"count": 999}, r"count: 999, must be at most \d+, the frames of play that can be starts"),
        ({"frames": 0}, "frames: 0, must be 1"),
        ({"recipe": "no"}, "recipe: "),
        ({"mode": 77}, "mode: 77"),
    ):
        with pytest.raises(ConfigError, match=says):
            starts.record("Pong", PLAY, **keywords)
    with pytest.raises(ConfigError, match="action: 'JUMP', must be RESET or one of NOOP, FIRE, UP"):
        starts.record("Pong", [("JUMP", 3)])
    with pytest.raises(ConfigError, match="env: CartPole-v1, must be an Atari game"):
        starts.record("CartPole-v1", [("NOOP", 3)])
    # Frames are those of each game.
    two = starts.record("Pong", [("NOOP", 50), ("RESET", 1), ("NOOP", 60)], count=78, frames=40).states
    assert [start.frames for start in two.starts] == [*range(1, 40), *range(1, 40)]


# ---------------------------------------------------------------- command line


def test_the_command_line_records_and_evaluates(pong, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    starts.write_actions("play.txt", [name for name, held in PLAY for _ in range(held)])
    pong.save("agent.paceline")
    for name in ("folder.starts", "script"):
        Path(name).mkdir()
    assert main(["record-starts", "pong", "human", "--actions", "play.txt", "--count", "6", "--seed", "2"]) == 0
    assert capsys.readouterr().out.startswith("starts: human.starts (6 states at frames ")
    assert starts.read("human").recipe == "ale"
    evaluate = ["evaluate", "agent.paceline", "pong", "--starts", "human", "--frames", "700"]
    assert main([*evaluate, "--json", "--random", "--normalise"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["episodes"] == report["random"]["episodes"] == 6 and sum(report["random"]["lengths"]) < sum(report["lengths"])
    normal = report["normalised"]
    assert normal["human"] == {"score": 15.5, "source": scores.published("pong", "human_starts").source}
    assert normal["random"] == {"score": report["random"]["mean_return"], "source": "6 episodes of --random"}
    assert normal["score"] == scores.normalised(report["mean_return"], normal["random"]["score"], 15.5)
    # The measured score of the random agent can be the human's.
    measured = str(report["random"]["mean_return"])
    assert main([*evaluate, "--random", "--normalise", "--human-score", measured]) == 0
    assert f"normalised   none (0 is random {float(measured):g}, 6 episodes of --random; 100 is human" in capsys.readouterr().out
    assert main([*evaluate, "--normalise", "--human-score", "20"]) == 0
    says = f"(0 is random -18, {scores.published('pong', 'human_starts').source}; 100 is human 20, --human-score)"
    assert says in capsys.readouterr().out
    record = ["record-starts", "pong", "x", "--actions", "play.txt", "--count", "6"]
    assert main([*record, "--set", "mode=1.0", "--set", "difficulty=0.0"]) == 0
    assert starts.read("x") == starts.record("Pong", PLAY, count=6, mode=1, difficulty=0).states
    capsys.readouterr()
    for arguments, says in (
        ([*evaluate, "--human-score", "20"], "--human-score 20: must be given with --normalise"),
        ([*evaluate, "--normalise", "--random", "--random-score", "1"], "--random-score 1: must be left out with --random"),
        ([*evaluate, "--set", "recipe=mnih2015"], "starts: for the recipe ale"),
        ([*evaluate[:4], "play.txt"], "play.txt: not a file of start states"),
        ([*evaluate[:4], "nothing"], "nothing: no such file"),
        ([*evaluate[:3], "--set", "seed=3"], "--set seed: not a keyword of the environment"),
        ([*evaluate[:3], "--set", "episodes=3"], "--set episodes: not a keyword of the environment"),
        ([*evaluate[:3], "--set", "starts=3"], "--set starts: not a keyword of the environment"),
        ([*evaluate[:3], "--set", "deterministic=false"], "--set deterministic: not a keyword of the environment"),
        ([*evaluate, "--set", "num_envs=3"], 'option "num_envs": atari/pong has no such option'),
        ([*evaluate[:3], "--normalise", "--set", "num_threads=3"], 'option "num_threads": atari/pong has no such option'),
        ([*record, "--set", "num_envs=3"], 'option "num_envs": atari/pong has no such option'),
        ([*record, "--set", "copy=false"], 'option "copy": atari/pong has no such option'),
        ([*record, "--set", "self=3"], 'option "self": atari/pong has no such option'),
        ([*record, "--set", "count=3"], "--set count: not a keyword of the environment"),
        ([*record, "--set", "mode=1.5"], "mode: 1.5, must be a whole number"),
        (["record-starts", "pong", "x", "--actions", "nothing"], "nothing: not read"),
        (["record-starts", "pong", "x", "--actions", "play.txt", "--save-actions", "y"], "--save-actions y: must be left out"),
        (["record-starts", "pong", "play.txt", "--actions", "play.txt"], "--actions play.txt: also the file of path"),
        (["record-starts", "pong", "x", "--save-actions", "x.starts"], "--save-actions x.starts: also the file of path"),
        (["record-starts", "pong", "folder"], "path folder: a folder, must be a file"),
        (["record-starts", "pong", "x", "--save-actions", "script"], "--save-actions script: a folder, must be a file"),
        (["record-starts", "CartPole-v1", "x", "--actions", "play.txt"], "env: CartPole-v1, must be an Atari game"),
        (["record-starts", "pong", "x", "--scale", "0"], "--scale 0: must be 1 to 8"),
    ):
        assert main(arguments) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"paceline: {says}") and said.count("\n") == 1, said


def test_a_game_without_published_scores_needs_them(pong, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with paceline.DQN("MlpPolicy", "CartPole-v1", seed=1) as model:
        model.save("agent")
    assert main(["evaluate", "agent", "CartPole-v1", "--episodes", "2", "--normalise", "--human-score", "500"]) == 1
    assert "--normalise: the table has no scores of CartPole-v1, --random-score must give one" in capsys.readouterr().err
    assert main(["evaluate", "agent", "CartPole-v1", "--episodes", "2", "--random"]) == 1
    assert "--random: must be left out for CartPole-v1, is for Atari games" in capsys.readouterr().err
    assert main(["evaluate", "agent", "CartPole-v1", "--episodes", "2", "--normalise", "--human-score", "500", "--random-score", "20"]) == 0
    assert "normalised" in capsys.readouterr().out


def test_the_scale_is_checked_before_a_game_is_played(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with paceline.DQN("MlpPolicy", "CartPole-v1", seed=1) as model:
        model.save("agent")

    def played(*_, **__):
        raise AssertionError

    monkeypatch.setattr(paceline.Policy, "evaluate", played)
    for options, says in (
        ([], "--normalise: the table has no scores of CartPole-v1, --random-score must give one"),
        (["--random-score", "20"], "--normalise: the table has no scores of CartPole-v1, --human-score must give one"),
        (["--random-score", "20", "--human-score", "inf"], "--human-score inf: must be finite"),
        (["--random-score", "nan", "--human-score", "20"], "--random-score nan: must be finite"),
        (
            ["--random-score", "20", "--human-score", "20"],
            "--normalise: the scores of the human and of the random agent are both 20, must differ",
        ),
    ):
        assert main(["evaluate", "agent", "CartPole-v1", "--normalise", *options]) == 1
        assert capsys.readouterr().err == f"paceline: {says}\n"


def test_a_play_that_does_not_begin_leaves_an_earlier_script(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    earlier = Path("x.actions")
    earlier.write_text("NOOP 3\n")
    assert main(["record-starts", "CartPole-v1", "x"]) == 1
    assert "env: CartPole-v1, must be an Atari game" in capsys.readouterr().err
    # As where pygame is missing, and as a window that is closed at once.
    for play, says in ((_no_window, "window: needs pygame"), (lambda *_: None, "window: closed before its first frame, must stay open")):
        monkeypatch.setattr(starts, "Player", lambda env, **_: None)
        monkeypatch.setattr(_window, "play", play)
        assert main(["record-starts", "pong", "x"]) == 1
        said = capsys.readouterr()
        assert says in said.err and "actions:" not in said.out
    monkeypatch.setattr(os, "replace", _full)
    with pytest.raises(CheckpointError, match=r"^x\.actions: not written: No space left on device$"):
        starts.write_actions(earlier, ["FIRE"])
    assert earlier.read_text() == "NOOP 3\n" and os.listdir() == ["x.actions"]


def _no_window(*_):
    raise ConfigError("window: needs pygame")


def _full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


WINDOW = """
import sys
import pygame
from paceline import _window
from paceline.cli import main

pygame.display.init()
pressed, polls = pygame.event.get, iter(range(10**6))

def get():
    frame = next(polls)
    events = [pygame.event.Event(pygame.KEYDOWN, key=key) for at, key in
              ((30, pygame.K_r), (60, pygame.K_p), (70, pygame.K_p), (150, pygame.K_ESCAPE)) if at == frame]
    return [*pressed(), *events]

pygame.event.get = get
sys.exit(main(sys.argv[1:]))
"""


def test_a_window_records_the_play(pong, process, tmp_path):
    pytest.importorskip("pygame")
    done = process(WINDOW, "record-starts", "pong", "window", "--count", 20, "--scale", 1, env={"SDL_VIDEODRIVER": "dummy"}, options=())
    assert "actions: window.actions (140 frames)" in done.stdout
    assert starts.read_actions(tmp_path / "window.actions") == [("NOOP", 30), ("RESET", 1), ("NOOP", 109)]
    states = starts.read(tmp_path / "window")
    assert len(states.starts) == 20 and states.game == "pong"
