"""ROM files and game names that are refused."""

import pytest

import paceline
from paceline.atari import ALEInterface
from paceline.errors import ConfigError, MissingFileError


def test_bad_rom_files_are_named(tmp_path, monkeypatch):
    ale = ALEInterface()
    with pytest.raises(MissingFileError, match=r"none\.bin: no such file or directory$"):
        ale.loadROM(tmp_path / "none.bin")
    for name in ("breakout.bin", "pong.bin"):
        (tmp_path / name).write_bytes(b"x" * 2049)
    with pytest.raises(ConfigError, match=rf"^rom: {tmp_path}/breakout\.bin: 2049 bytes, must be 2048, 4096, "):
        ale.loadROM(tmp_path / "breakout.bin")
    with pytest.raises(MissingFileError, match=r"none\.so: no such file or directory$"):
        paceline.load_env(tmp_path / "none.so")


def test_a_rom_with_other_bytes_is_refused(tmp_path, process):
    (tmp_path / "pong.bin").write_bytes(b"x" * 2048)
    done = process(
        """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "ale_py" else find(name, *more)
import paceline
for make in (lambda: paceline.make_vec("Pong"), lambda: paceline.DQN("CnnPolicy", "Pong")):
    try:
        make()
    except ValueError as err:
        print(err)
""",
        env={"PACELINE_ROMS_DIR": str(tmp_path), "ALE_ROMS_DIR": ""},
    )
    said = f"rom: {tmp_path}/pong.bin: another MD5 "
    assert [line[: len(said)] for line in done.stdout.splitlines()] == [said, said] and "other_md5" not in done.stdout


def test_an_unknown_game_is_no_environment():
    for name in ("ALE/Combat-v5", "atari/combat"):
        with pytest.raises(ConfigError, match=f'^environment "{name}" is not known; known environments: '):
            paceline.make_vec(name)
    with pytest.raises(ConfigError, match=r"did you mean atari/pong\?$"):
        paceline.make_vec("ALE/Pnog-v5")
