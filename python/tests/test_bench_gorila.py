"""`paceline bench gorila`: the prediction as a table, JSON, CSV and a figure, and its costs from a file."""

import csv
import json

import pytest

from paceline import PacelineError, bench
from paceline.bench import gorila
from paceline.cli import main


def cost(call=0.0, object=0.0, byte=0.0):
    return {"call": call, "object": object, "byte": byte}


COSTS = {
    "parameters": 2000, "step": 0.002, "gradient": 0.028, "pause": 0.0, "sigma": 0.0, "apply": 1e-6,
    "push": cost(0.001), "visit": cost(0.002, 0.001),
    "get": cost(0.001), "keep": cost(0.001), "wait": cost(), "ray": cost(), "message": 0.0, "inline": 0.0,
}  # fmt: skip


@pytest.fixture
def costs(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(COSTS))
    return path


def printed(capsys, *arguments):
    assert main(["bench", "gorila", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_prediction_as_text_json_csv_and_figure(capsys, costs, tmp_path):
    # A visit takes 3 ms and 1 us for each of 1,000 parameters: two shards do 250 visits a second each.
    options = ("--bundles", 50, "--shards", 2, "--keep", 0, "--scale", "5,50", "--costs", costs)
    out = printed(capsys, *options)
    assert "prediction: 50 bundles, 2 shards, two keepers, each on a machine of its own" in out
    assert "assumed: links of 10 Gb/s in each direction, 0.1 ms" in out
    assert "saturates    shards, at 250 updates/s, 9 times those of one bundle alone" in out
    assert "costs from the file: apply, get, gradient" in out and "measured" not in out
    table, figure = tmp_path / "table.csv", tmp_path / "figure.svg"
    report = json.loads(printed(capsys, *options, "--json", "--csv", table, "--plot", figure, "--report", tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert report["costs"] == COSTS and abs(report["result"]["updates_per_second"] / 250 - 1) < 0.02
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["bundles"] for row in rows] == ["5", "50"] and int(rows[0]["smallest_shards"]) >= 1 and rows[1]["limit"] == "shards"
    assert float(rows[1]["updates_per_second"]) == report["points"][1]["here"]["updates_per_second"]
    assert figure.read_text().startswith("<?xml")


def test_parts_that_share_cores(capsys, costs):
    out = printed(capsys, "--bundles", 8, "--shards", 2, "--keep", 0, "--cores", 2, "--costs", costs)
    assert "all on one machine of 2 cores" in out and "Gb/s" not in out and "saturates    cores, at 42 updates/s" in out


def test_a_cluster_outside_the_scale_has_its_line(capsys, costs, tmp_path):
    table = tmp_path / "table.csv"
    printed(capsys, "--bundles", 3, "--shards", 1, "--scale", "", "--costs", costs, "--csv", table, "--plot", tmp_path / "figure.png")
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["bundles"] == "3" and row["limit"] and row["smallest_shards"] == row["best_shards"] == ""


def test_names_of_lags():
    assert gorila.lag_names([{"from": 7, "to": 7}, {"from": 8, "to": 9}]) == ["7", "8-9"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--bundles", "0"), "options: bundles: 0, must be 1 to 10000"),
        (("--shards", "2000"), "options: shards: 2000, must be 1 to 1024"),
        (("--gbits", "nan"), "paceline: gbits: nan, must be finite"),
        (("--cores", "inf"), "paceline: cores: inf, must be finite"),
        (("--gbits", "0"), "options: gbits 0, must be above 0"),
        (("--seed", "-1"), "paceline: seed: -1, must be 0 to 18446744073709551615"),
        (("--seed", str(2**64)), f"paceline: seed: {2**64}, must be 0 to 18446744073709551615"),
        (("--scale", f"10,{2**63}"), f"paceline: scale: {2**63}, must be -9223372036854775808 to 9223372036854775807"),
        (("--costs", "/"), "costs: /: not read: Is a directory"),
        (("--csv", "/"), "--csv /: a folder, must be a file"),
        (("--report", "/dev/null/a.json"), "--report /dev/null/a.json: /dev/null must be a folder, and is a file"),
        (("--plot", "."), "--plot .: a folder, must be a file"),
        (("--cores", "2", "--scale", "10"), "options: scale [10], must be empty with cores 2"),
        (("--cores", "-1"), "options: cores: -1, must be 0.01 to 1048576, or 0"),
        (("--costs", "nothing.json"), "costs: nothing.json: no such file"),
    ],
)
def test_wrong_arguments_are_one_sentence(capsys, arguments, said):
    assert main(["bench", "gorila", *arguments]) == 1
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_files_are_checked_before_the_simulation(capsys, costs, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("simulated"))
    for option in ("--csv", "--plot", "--report"):
        assert main(["bench", "gorila", "--costs", str(costs), option, str(tmp_path)]) == 1
        assert f"{option} {tmp_path}: a folder, must be a file" in capsys.readouterr().err


def test_the_format_of_the_figure_is_checked_before_the_simulation(capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("simulated"))
    assert main(["bench", "gorila", "--plot", "figure.xyz"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("paceline: --plot figure.xyz: .xyz, must be one of .") and err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_sentence(capsys, costs, tmp_path):
    options = ("--bundles", "2", "--shards", "1", "--keep", "0", "--scale", "", "--costs", str(costs))
    full = tmp_path / "full.csv"
    full.symlink_to("/dev/full")
    assert main(["bench", "gorila", *options, "--csv", str(full)]) == 1
    assert capsys.readouterr().err == f"paceline: {full}: not written: No space left on device\n"
    assert main(["bench", "gorila", *options, "--report", str(tmp_path / "new" / "report.json")]) == 0
    assert json.loads((tmp_path / "new" / "report.json").read_text())["result"]


def test_wrong_costs_are_one_sentence(capsys, tmp_path):
    path = tmp_path / "costs.json"
    for content, said in (
        ("[1]", "list, must be a JSON object"),
        ("{", "must be a JSON object"),
        ('{"step": NaN}', "NaN, must be a JSON object"),
        ('{"speed": 1}', "speed"),
    ):
        path.write_text(content)
        assert main(["bench", "gorila", "--costs", str(path)]) == 1
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["bench", "gorila", "--scale", "ten"])
    assert "'ten', must be integers" in capsys.readouterr().err
    with pytest.raises(PacelineError, match=r"costs\.step: -1"):
        bench.run("gorila", {"costs": COSTS | {"step": -1.0}})
