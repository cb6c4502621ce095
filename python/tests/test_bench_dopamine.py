"""python/benchmarks/dopamine.py: runs that are there, the summary, and the command."""

from __future__ import annotations

import json
import math

import pytest

import dopamine

GAME, STEPS = "Mini-Breakout-v0", 200


def words(folder, *more):
    return ["--folder", str(folder), "--games", GAME, "--agents", "dqn", "--steps", str(STEPS), *more]


def test_runs_are_made_once_and_logged(tmp_path, capsys):
    assert dopamine.main(words(tmp_path, "--seeds", "1,2", "--json")) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["seeds"] == [1, 2] and entry["published"] is None and entry["deviations"] is None
    log = (tmp_path / "runs.jsonl").read_text()
    assert sorted(json.loads(line)["mean"] for line in log.splitlines()) == pytest.approx(sorted(entry["means"]))
    assert dopamine.main(words(tmp_path, "--seeds", "1,2")) == 0  # nothing is run again
    assert (tmp_path / "runs.jsonl").read_text() == log
    assert f"{GAME}, dqn" in capsys.readouterr().out


def test_runs_have_the_keywords_of_set(tmp_path, capsys):
    assert dopamine.main(words(tmp_path, "--seeds", "1", "--set", "batch_size=16", "--json")) == 0
    assert len(json.loads(capsys.readouterr().out)["entries"]) == 1
    assert json.loads((tmp_path / f"{GAME}_dqn" / "seed1.json").read_text())["settings"]["set"] == {"batch_size": 16}
    assert dopamine.main(words(tmp_path, "--seeds", "1")) == 1
    assert "a run with set.batch_size 16, must be left out" in capsys.readouterr().err


def test_a_summary_counts_published_deviations_of_runs_that_are_done(tmp_path):
    # Breakout, DQN: 1.81 with a deviation of 0.11.
    folder = tmp_path / "Breakout_dqn"
    folder.mkdir()
    for seed, total, done in ((1, 1.9, True), (2, 2.1, True), (3, 9.0, False)):
        files = dopamine.dopamine.files_of("Breakout", "dqn", seed, 250_000, folder, {})
        files.write([dopamine.dopamine.Episode(100, total, 100)], done)
    (entry,) = dopamine.summary(dopamine.Runs(tmp_path, 250_000, []), ["Breakout"], ["dqn", "qr"], [1, 2, 3])
    assert (entry["seeds"], entry["means"]) == ([1, 2], [1.9, 2.1]) and entry["published"] == pytest.approx(1.8, abs=0.05)
    assert entry["deviations"] == pytest.approx((2.0 - entry["published"]) / entry["published_sd"]) and 1 < entry["deviations"] < 3


def test_figure(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert dopamine.main(words(tmp_path, "--seeds", "1", "--plot", str(tmp_path / "figure.svg"))) == 0
    text = (tmp_path / "figure.svg").read_text()
    assert text.startswith("<?xml") and "Mini-Breakout" in text


def test_the_means_of_a_figure_begin_again_with_an_iteration():
    episodes = [dopamine.dopamine.Episode(10_000 * n, n <= 25, 10_000) for n in range(1, 51)]  # returns 1, then 0
    frames, means = dopamine._so_far(episodes)
    assert frames == pytest.approx([0.04 * n for n in range(1, 51)])
    assert means == pytest.approx(([math.nan] * 20 + [1.0] * 5) + ([math.nan] * 20 + [0.0] * 5), nan_ok=True)


@pytest.mark.parametrize(
    "more, text",
    [
        (["--agents", "ppo"], "--agents: 'ppo', must be of c51, dqn, iqn, qr, rainbow"),
        (["--steps", "0"], "--steps: 0, must be at least 1"),
        (["--seeds", "1,,2"], "--seeds: '1,,2', must be whole numbers from 0 on with commas, such as 1,2,3"),
    ],
)
def test_bad_arguments_are_refused(more, text, tmp_path, capsys):
    assert dopamine.main(words(tmp_path, *more)) == 1
    assert capsys.readouterr().err == f"paceline: {text}\n"
