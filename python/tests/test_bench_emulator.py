"""python/benchmarks/emulator.py: both sides run the same frames, and the ratios follow from the
rates.
"""

import json
import statistics

import pytest

pytest.importorskip("ale_py", reason="ale-py is not installed")

import emulator as bench_emulator
from paceline import PacelineError


@pytest.mark.slow
def test_ratios_follow_from_the_rates(capsys):
    assert bench_emulator.main(["--games", "pong,boxing", "--seconds", "0.1", "--turns", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = {row["game"]: row for row in report["games"]}
    assert set(rows) == {"pong", "boxing"} and report["unequal"] == []
    for way in ("ale", "every", "2of4", "env"):
        assert report["hmean"][way] == pytest.approx(statistics.harmonic_mean([row[way] for row in rows.values()]))
    ratio = report["ratio"]
    assert set(ratio) == {f"{what}{way}_vs_ale" for what in ("hmean", "worst") for way in ("", "_2of4", "_env")}
    assert ratio["hmean_vs_ale"] == pytest.approx(report["hmean"]["every"] / report["hmean"]["ale"])
    assert ratio["worst_vs_ale"] == rows[report["worst"]]["every"] / rows[report["worst"]]["ale"]
    assert ratio["worst_vs_ale"] <= ratio["hmean_vs_ale"] <= rows[report["best"]]["every_vs_ale"]
    table = bench_emulator.text(report)
    assert "pong" in table and "harmonic mean" in table and "NOT" not in table


def test_49_and_all_select_games_with_rom_files():
    assert len(set(bench_emulator.GAMES_49)) == 49
    paths = bench_emulator._chosen("49", bench_emulator._ale_py())
    assert list(paths) == bench_emulator.GAMES_49 and all(path.is_file() for path in paths.values())
    assert len(bench_emulator._chosen("all", bench_emulator._ale_py())) == 104


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"games": "pong,pongg"}, "games: 'pongg', must be 49, all or ids"),
        ({"turns": 0}, "turns: 0, must be more than 0"),
        ({"seconds": -1.0}, "seconds: -1.0, must be"),
    ],
)
def test_bad_arguments_are_refused(keywords, text):
    with pytest.raises(PacelineError, match=text):
        bench_emulator.measure(**keywords)
