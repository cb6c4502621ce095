"""python/benchmarks/table1.py: the paper's and computed figures, runs, and merged parts."""

import json

import pytest

import table1
from paceline import DQN, PacelineError

TINY = ("--env", "Catch-v0", "--steps", "64", "--warm-up", "40", "--trials", "1")
HEAD = {
    "env": "Pong", "recipe": "r", "device": "cpu", "gpu": "", "threads": 2, "isa": "i", "version": "v", "steps": 1000, "warm_up": 50,
    "trials": 2, "one_core": 10 / 6,
}  # fmt: skip


def run(trial, threads, mode, seconds, **changed):
    shares = {"step": 0.2, "act": 0.1, "learn": 0.6, "wait": 0.1}
    times = {"seconds": seconds, "seconds_env": 1.0, "seconds_act": 1.0, "seconds_train": 1.0}
    return {"trial": trial, "threads": threads, "mode": mode, "steps": 1000, "updates": 250, **times, "shares": shares} | changed


def test_speed_ups_follow_from_the_paper():
    """Its Table 3 follows from its Table 1."""
    report = table1.described(HEAD | {"runs": [run(1, threads, mode, 1.0) for threads, mode in table1.PAPER]})
    table_3 = [1.00, 1.22, 1.31, 1.79, 1.30, 1.70, 1.49, 2.07, 1.59, 2.26, 1.48, 2.15, 1.72, 2.78]
    assert [round(r["paper"]["speedup"], 2) for r in report["results"]] == table_3
    assert [run for run in table1.runs(2) if run.trial == 2] == [(2, threads, mode) for threads, mode in table1.PAPER]


def test_hours_are_extrapolated_to_50_million_steps():
    """1,000 steps in 3.6 and 7.2 seconds extrapolate to 50 and 100 hours for 50 million steps."""
    report = table1.described(HEAD | {"runs": [run(1, 1, "standard", 3.6), run(2, 1, "standard", 7.2), run(1, 8, "both", 1.8)]})
    standard, both = report["results"]
    assert standard["hours"] == pytest.approx([50, 100]) and standard["mean"] == pytest.approx(75)
    assert standard["spread"] == pytest.approx(25 * 2**0.5) and both["spread"] is None
    assert (standard["speedup"], both["speedup"]) == pytest.approx((1, 3))
    assert report["multiplied_by"] == 50_000 and report["missing"] == 25 and report["equal_work"]
    text = table1.text(report)
    assert "75.00 ± 35.36 (25.08 ± 0.52)" in text and "25.00 (9.02 ± 0.16)" in text and "3.00 (2.78)" in text
    assert "times 50,000" in text and "missing: 25 of 28 runs" in text and "device cpu; 2 threads" in text and "NOT" not in text
    assert "device cuda:1, NVIDIA H9; 2 threads" in table1.text(report | {"device": "cuda:1", "gpu": "NVIDIA H9"})
    lazy = table1.described(HEAD | {"runs": [run(1, 1, "standard", 3.6, updates=248)]})
    assert not lazy["equal_work"] and "NOT equal work" in table1.text(lazy)


@pytest.mark.parametrize(
    "sampling, busy, cores, one_core, least",
    [
        # Steps compute, as in TestLimits of core/bench: two updates of 6 ms on two cores, or 10 ms
        # on one, during eight steps.
        (21, 42, 2, 10 / 6, 31),
        # Acting takes 2 ms of one core, in which 2/10 of an update is done. The other 1.8 updates
        # take 6 ms each on two cores.
        (2, 2, 2, 10 / 6, 2 + 1.8 * 6),
        # A GPU's updates take the same time for any number of cores, one core does all work in
        # sequence, or samplers are slowest.
        (2, 2, 16, 1, 12),
        (42, 42, 1, 1, 54),
        (90, 90, 16, 1, 90),
    ],
)
def test_limits_follow_from_the_times(sampling, busy, cores, one_core, least):
    assert table1.limit(100, sampling, busy, 12, cores, one_core) == pytest.approx(100 / least)


def test_gains_and_limits_follow_from_the_totals():
    """Totals of the first case above in 34 s: steps take 40 s of a core, acting 2 s, updates 12 s
    of both cores.
    """
    shares = {"step": 40 / 68, "act": 2 / 68, "learn": 24 / 68, "wait": 2 / 68}
    times = {"seconds_env": 40.0, "seconds_act": 2.0, "seconds_train": 12.0, "shares": shares}
    joint = {"seconds_env": 20.0, "seconds_act": 2.0, "seconds_train": 12.0, "shares": shares}
    runs = [run(1, 8, "both", 33.0), run(1, 8, "synchronized", 34.0, **joint), run(1, 8, "standard", 34.0, **times)]
    runs += [run(1, 1, "standard", 34.0, **times)]
    report = table1.described(HEAD | {"runs": runs})
    one, standard, synchronized = report["gain"]
    # the cores' work is the limit
    assert standard["limit"] == synchronized["limit"] == pytest.approx(34 / 31)
    assert one["limit"] == pytest.approx(34 / 42)  # the only sampler is the limit
    assert (standard["speedup"], synchronized["speedup"]) == (None, 34 / 33)
    assert standard["in_updates"] == 12 / 34 and standard["shares"] == pytest.approx(shares)
    assert (standard["paper"], synchronized["paper"]) == (16.92 / 11.68, 14.60 / 9.02)
    text = table1.text(report)
    assert f"{40 / 68:.1%}" in text and "- (1.45)     1.10" in text and "1.03 (1.62)     1.10" in text


@pytest.fixture
def made(monkeypatch):
    """Settings, after resolution, of every model that the benchmark makes."""
    made, make = [], DQN.from_preset
    names = "env concurrent synchronized actor window train_freq target_update_interval batch_size exploration_final_eps".split()

    def recorded(*arguments, **keywords):
        model = make(*arguments, **keywords)
        made.append({name: model.setting(name) for name in [*names, "exploration_initial_eps"]})
        return model

    monkeypatch.setattr(DQN, "from_preset", recorded)
    return made


@pytest.mark.slow
def test_parts_of_the_table_are_run_and_merged(made, tmp_path, capsys):
    folder = tmp_path / "new" / "table"
    for part in ("1/4", "2/4"):
        assert table1.main([*TINY, "--part", part, "--out", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["part-01-of-04.json", "part-02-of-04.json"]
    printed = capsys.readouterr()
    assert "trial 1, threads 2, both: " in printed.err and "Catch-v0, Table 1 of the paper" in printed.out
    assert table1.main(["--from", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    cells = list(table1.PAPER)[:7]
    assert [(r["threads"], r["mode"]) for r in report["results"]] == [(r["threads"], r["mode"]) for r in report["runs"]] == cells
    for result in report["runs"]:
        assert result["steps"] == 64 and result["updates"] == 16 and sum(result["shares"].values()) == pytest.approx(1)
        assert result["shares"]["learn"] > 0 and 0 < result["seconds_train"] < result["seconds"]
    assert report["missing"] == 7 and report["device"] == "cpu" and report["one_core"] >= 1 and report["equal_work"]
    assert [(row["threads"], row["without"]) for row in report["gain"]] == [
        (1, "standard"), (2, "standard"), (2, "synchronized"), (4, "standard")
    ]  # fmt: skip
    assert all(row["limit"] > 0 for row in report["gain"])
    switches = [(False, False), (True, False), (False, False), (True, False), (False, True), (True, True), (False, False)]
    assert made == [
        {
            "env": "Catch-v0", "concurrent": str(concurrent).lower(), "synchronized": str(synchronized).lower(),
            "actor": "target" if concurrent else "online", "window": "10000", "train_freq": "4", "target_update_interval": "10000",
            "batch_size": "32", "exploration_initial_eps": "0.1", "exploration_final_eps": "0.1",
        } for concurrent, synchronized in switches
    ]  # fmt: skip


@pytest.mark.slow
def test_pong_uses_the_recipe_of_the_paper(capsys):
    if table1.main(["--steps", "32", "--warm-up", "32", "--part", "42/42", "--json"]):
        assert "ROM" in capsys.readouterr().err
        pytest.skip("no ROM of Pong")
    report = json.loads(capsys.readouterr().out)
    assert report["recipe"].startswith("mnih2015 ") and report["env"] == "Pong"
    (result,) = report["runs"]
    assert (result["trial"], result["threads"], result["mode"], result["updates"]) == (3, 8, "both", 8)


def test_parts_of_different_tables_are_refused(tmp_path):
    one = table1.described(HEAD | {"runs": [run(1, 1, "standard", 1.0)]})
    other = table1.described(HEAD | {"steps": 500, "runs": []})
    with pytest.raises(PacelineError, match="^b: steps is 500, must be 1000 as in a$"):
        table1.merged({"a": one, "b": other})
    with pytest.raises(PacelineError, match="^b: trial 1 of standard, threads 1, must not be in a as well$"):
        table1.merged({"a": one, "b": one})
    slower = table1.described(HEAD | {"one_core": 2.0, "runs": [run(1, 1, "concurrent", 1.0)]})
    assert table1.merged({"a": slower, "b": one})["one_core"] == pytest.approx((2 + 10 / 6) / 2)
    for text in ("", "{}", "[]", "3", '{"runs": []}'):
        (tmp_path / "part-01-of-02.json").write_text(text)
        with pytest.raises(PacelineError, match=r"part-01-of-02.json, must be a part that --out has written$"):
            table1.read(str(tmp_path))


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("--steps", "8"), "--steps: 8, must be at least 32"),
        (("--warm-up", "0"), "--warm-up: 0, must be at least 32"),
        (("--trials", "0"), "--trials: 0, must be at least 1"),
        (("--part", "1/15"), "--part: 1/15, must be of at most 14 parts, one for each run"),
        (("--part", "1/2", "--from", "nowhere"), "--part: 1/2, must be left out with --from, which prints all parts"),
        (("--from", "nowhere"), "--from nowhere: no files part-*.json, must be at least one"),
        (("--out", "/dev/null"), "--out /dev/null/part-01-of-01.json: /dev/null must be a folder, and is a file"),
    ],
)
def test_bad_arguments_are_refused(capsys, arguments, text):
    assert table1.main([*TINY, *arguments]) == 1
    assert capsys.readouterr().err == f"paceline: {text}\n"


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b", "-1/2"])
def test_bad_parts_are_refused(capsys, part):
    with pytest.raises(SystemExit):
        table1.main([*TINY, f"--part={part}"])
    assert f"'{part}', must be I/N, part I of N" in capsys.readouterr().err


def test_an_unknown_device_is_refused(tmp_path, capsys):
    """The message is the library's, and no file is written."""
    assert table1.main([*TINY, "--device", "tpu", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith('paceline: device: "tpu", must be ') and len(printed.err.splitlines()) == 1
    assert not printed.out and not list(tmp_path.iterdir())
