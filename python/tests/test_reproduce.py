"""`paceline reproduce dopamine`, on a small game with a tiny network."""

import csv
import errno
import json
import math
import os
import signal
import sys

import pytest

from paceline._native import Native
from paceline._reproduce import _scores, dopamine
from paceline._reproduce.dopamine import Episode
from paceline.cli import environment, main
from paceline.errors import ConfigError

TINY = {
    "cnn": "minatar",
    "learning_starts": 32,
    "buffer_size": 300,
    "batch_size": 4,
    "target_update_interval": 40,
    "n_quantiles": 5,
    "exploration_steps": 100,
}
GAME = "Mini-Breakout-v0"


def lines(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def arguments(folder, *more):
    pairs = [f"--set={name}={value}" for name, value in TINY.items()]
    return ["reproduce", "dopamine", "--game", GAME, "--frames", "800", "--seeds", "2", "--folder", str(folder), *pairs, *more]


def test_a_tiny_run_writes_its_files(tmp_path, capsys):
    assert main(arguments(tmp_path, "--no-plot")) == 0
    said = capsys.readouterr().out
    assert "epsilon falling from 1." in said and "seed 2: " in said and "Mini-Breakout-v0, qr" in said
    episodes = lines(tmp_path / "episodes.csv")
    assert {each["seed"] for each in episodes} == {"1", "2"} and all(0 < int(each["step"]) <= 200 for each in episodes)
    (line,) = lines(tmp_path / "iterations.csv")
    totals = [float(each["return"]) for each in episodes if each["seed"] == "1"]
    assert float(line["seed1"]) == pytest.approx(sum(totals) / len(totals)) and line["published"] == ""
    assert not list(tmp_path.glob("*.paceline"))
    assert main(arguments(tmp_path, "--no-plot")) == 0  # all seeds are done
    assert lines(tmp_path / "episodes.csv") == episodes


def test_a_stopped_run_goes_on(tmp_path, monkeypatch, capsys):
    """Ctrl-C comes while the library takes the step at which an episode ends."""
    (tmp_path / "whole").mkdir(), (tmp_path / "parts").mkdir()
    whole = dopamine.train(GAME, "qr", 1, 200, tmp_path / "whole", 1000, TINY)
    run, before = Native.run, signal.getsignal(signal.SIGINT)

    def interrupted(self, stats, steps, rollouts):
        episodes = stats.episodes
        run(self, stats, steps, rollouts)
        if stats.episodes > episodes and stats.num_timesteps > 50:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Native, "run", interrupted)
    stops = 0
    for _ in whole:
        try:
            parts = dopamine.train(GAME, "qr", 1, 200, tmp_path / "parts", 50, TINY)
        except KeyboardInterrupt:
            stops += 1
            assert "; the same command continues it" in capsys.readouterr().out
            assert (tmp_path / "parts" / "seed1.paceline").exists()
            assert not json.loads((tmp_path / "parts" / "seed1.json").read_text())["done"]
            with pytest.raises(ConfigError, match="a run with steps 200, must be 400"):
                dopamine.train(GAME, "qr", 1, 400, tmp_path / "parts", 50, TINY)
        else:
            break
    assert stops == sum(50 < each.step < 200 for each in whole) > 1 and parts == whole
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda content: content["settings"]["preset"].update(n_steps="1"), "a run with preset.n_steps 1, must be 3; --folder"),
        (lambda content: content["settings"]["set"].update(gamma=0.5), "a run with set.gamma 0.5, must be left out; --folder"),
        (lambda content: content["settings"]["set"].update(gamma=None), "a run with set.gamma None, must be left out; --folder"),
        (lambda content: content.update(settings=[1]), "cannot be read, must be a file of this command"),
        (lambda content: content.update(episodes=[1]), "cannot be read, must be a file of this command"),
    ],
)
def test_a_file_of_another_run_is_refused(tmp_path, change, says):
    files = dopamine.files_of(GAME, "qr", 1, 200, tmp_path, {})
    files.write([], done=True)
    content = json.loads(files.json.read_text())
    change(content)
    files.json.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=says):
        files.read()


def test_iterations_are_compared_with_published_numbers():
    numbers = dopamine.published("Breakout", "qr")
    assert [*numbers] == list(range(1, 11)) and numbers[1].source == "baselines/atari/data/breakout_CNN.json"
    assert numbers[1].mean == pytest.approx(4.5, abs=0.05) and numbers[1].sd == pytest.approx(0.2, abs=0.05)
    runs = {1: [Episode(250_000, 4.0, 9), Episode(250_001, 8.0, 9)], 2: [Episode(1, 2.0, 9), Episode(3, 4.0, 9)]}
    first, second = dopamine.compare(runs, 300_000, numbers)
    assert (first.means, first.mean, first.steps) == ([4.0, 3.0], 3.5, 250_000) and first.published == numbers[1]
    assert second.means[0] == 8.0 and math.isnan(second.means[1]) and second.steps == 50_000 and second.published is None


def test_the_interquartile_mean():
    assert _scores.iqm([100.0, 1.0, 2.0, 3.0, -50.0]) == 2.0 and _scores.iqm([1.0, 3.0, 8.0]) == 4.0 and math.isnan(_scores.iqm([]))


@pytest.mark.parametrize(
    "given, says",
    [
        (["--agent", "ddpg"], "--agent ddpg: must be c51, dqn"),
        (["--frames", "0"], "--frames 0: must be at least 4"),
        (["--frames", "10"], "--frames 10: must be a multiple of 4"),
        (["--seeds", "0"], "--seeds 0: must be at least 1"),
        (["--game", "Brekout"], "did you mean atari/breakout"),
        (["--game", "CartPole-v1"], "policy: CnnPolicy does not fit the environment"),
        (["--set", "seed=7"], "--set seed=7: must be left out; the seeds are 1 to --seeds"),
        (["--set", "n_quantile=5"], "--set n_quantile: not a keyword of paceline.DQN; did you mean n_quantiles?"),
        (["--set", "env=Pong"], "--set env: not a keyword"),
        (["--set", "preset=x"], "--set preset: not a keyword"),
        (["--set", "n_steps=0"], "n_steps: 0, must be"),
        (["--set", "batch_size=x"], 'batch_size: "x", must be'),
        (["--set", "updates=outside"], "--set updates=outside: must be own; this command trains the model"),
    ],
)
def test_wrong_arguments_give_one_line(tmp_path, capsys, given, says):
    given = given if "--game" in given else ["--game", GAME, *given]
    assert main(["reproduce", "dopamine", "--folder", str(tmp_path / "new"), *given]) == 1
    error = capsys.readouterr().err
    assert error.startswith("paceline: ") and len(error.splitlines()) == 1 and says in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("given", [{"batch_size": 2048}, {"num_envs": 600}, {"num_envs": 20, "n_steps": 60}])
def test_the_replay_memory_has_room_for_the_settings_given(given):
    """The command chose its size; qr has 3 steps."""
    with dopamine._new(GAME, "qr", 1, 500, {"cnn": "minatar", **given}) as model:
        assert 1000 < model.replay_buffer.buffer_size <= 2048
    with dopamine._new(GAME, "qr", 1, 1500, {"cnn": "minatar"}) as model:
        assert model.replay_buffer.buffer_size == 1500


def test_a_folder_that_cannot_be_written_is_refused(capsys):
    assert main(["reproduce", "dopamine", "--game", GAME, "--folder", "/proc/self"]) == 1
    assert "--folder /proc/self: " in (error := capsys.readouterr().err) and len(error.splitlines()) == 1


@pytest.mark.parametrize("name", ["episodes.csv", "iterations.csv", "seed2.json", "seed1.paceline"])
def test_a_file_that_cannot_be_written_is_refused_before_training(tmp_path, capsys, name):
    (tmp_path / name).mkdir()
    assert main(arguments(tmp_path, "--no-plot")) == 1
    said = capsys.readouterr()
    assert said.err == f"paceline: {tmp_path / name}: Is a directory, must be a file that can be written\n"
    assert said.out == "" and [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["seed1.json", "episodes.csv"])
def test_a_disk_that_is_full_later_gives_one_line(tmp_path, capsys, monkeypatch, name):
    """The file is as it was, and the same command goes on when there is room."""
    replace = os.replace

    def full(new, path):
        if os.path.basename(path) == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(new, path)

    (tmp_path / "episodes.csv").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert main(arguments(tmp_path, "--no-plot", "--part", "50")) == 1
    error = capsys.readouterr().err.splitlines()
    assert error[-1] == f"paceline: {tmp_path / name}: No space left on device, must be a file that can be written"
    assert not any(line.startswith("Traceback") for line in error)
    assert (tmp_path / "episodes.csv").read_text() == "before" and not list(tmp_path.glob("*.new"))
    assert main(arguments(tmp_path, "--no-plot", "--part", "50")) == 0
    assert {each["seed"] for each in lines(tmp_path / "episodes.csv")} == {"1", "2"}


def test_without_matplotlib_the_figure_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(arguments(tmp_path)) == 0
    assert "figure: left out: " in capsys.readouterr().err and (tmp_path / "episodes.csv").exists()


def test_the_library_s_name_of_a_game_has_published_numbers():
    assert environment("atari/space_invaders") == environment("space_invaders") == "SpaceInvaders"
    assert environment("paceline/SpaceInvaders-v0") == environment("SpaceInvaders-v0") == "SpaceInvaders"
    assert dopamine.published(environment("atari/breakout"), "qr")


@pytest.mark.parametrize("id", ["ALE/Breakout-v5", "BreakoutNoFrameskip-v4", "Breakout-v5"])
def test_ids_of_other_projects_name_the_game(id, monkeypatch):
    """The protocol is Dopamine's, whatever recipe the id has elsewhere."""
    games = []
    monkeypatch.setattr(dopamine, "_checked", lambda args: games.append(args.game) or sys.exit())
    with pytest.raises(SystemExit):
        main(["reproduce", "dopamine", "--game", id])
    assert games == ["Breakout"] and dopamine.published(*games, "qr")


def test_the_figure(tmp_path):
    pytest.importorskip("matplotlib")
    dopamine._draw(tmp_path / "x.png", "title", {1: [Episode(100, 1.0, 5)]}, 250_000, dopamine.published("Breakout", "dqn"))
    assert (tmp_path / "x.png").stat().st_size > 1000
