"""python/benchmarks/gorila_scale.py: calibration with one bundle, and held-out points."""

import json

import pytest

import gorila_scale


def cost(call=0.0, object=0.0, byte=0.0):
    return {"call": call, "object": object, "byte": byte}


TRUE = {
    "parameters": 100_000, "step": 0.001, "gradient": 0.02, "pause": 0.003, "sigma": 0.05, "apply": 1e-9, "push": cost(4e-4, 1e-3, 1e-9),
    "visit": cost(5e-4, 1e-3, 1e-9), "get": cost(1e-4, 4e-4, 1e-9), "keep": cost(6e-4), "wait": cost(4e-4), "ray": cost(7e-4, 5e-3),
    "message": 1024.0, "inline": 102_400.0,
}  # fmt: skip


IDLE = 0.3


def true_run(env, bundles, shards, updates):
    """What the simulator says of the true costs."""
    result = gorila_scale.simulate(TRUE, bundles, shards, IDLE)
    learner = 4 * TRUE["step"] + TRUE["gradient"]
    return {"rate": result["updates_per_second"], "cores": result["core_seconds"], "learner": learner, "idle": IDLE, "others": 0.0}


def test_calibration_finds_the_gradient_the_pause_and_the_core_seconds(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(gorila_scale, "CORES", 2)  # the costs above are found on two cores
    wrong = TRUE | {"gradient": 0.05, "pause": 0.0, "ray": cost(7e-4, 0.001)}
    one = true_run("Pong", 1, 1, 0)
    fitted = gorila_scale.calibrate("Pong", wrong, one)
    assert fitted["gradient"] == pytest.approx(TRUE["gradient"])
    assert fitted["pause"] == pytest.approx(TRUE["pause"], rel=0.15)
    assert fitted["ray"]["object"] == pytest.approx(TRUE["ray"]["object"], rel=0.05)

    monkeypatch.setattr(gorila_scale, "run", true_run)
    args = gorila_scale.argparse.Namespace(env="Pong", trials=2, updates=10, points=((2, 1), (4, 3)))
    report = gorila_scale.measure(args, wrong) | {"ray": "0"}
    assert [(p["bundles"], p["shards"]) for p in report["points"]] == [(2, 1), (4, 3)]
    assert all(
        p["ratio"] == pytest.approx(1, abs=0.05) and p["cores_ratio"] == pytest.approx(1, abs=0.05) and len(p["measured"]) == 2
        for p in report["points"]
    )
    assert "prediction: 100 bundles, 31 shards" in gorila_scale.text(report)
    assert json.loads(json.dumps(report)) == report

    record, figure = tmp_path / "gorila.json", tmp_path / "gorila.svg"
    record.write_text(json.dumps({"report": report}))
    assert gorila_scale.main(["--record", str(record), "--plot", str(figure)]) == 0
    assert "4 x 3" in figure.read_text() and "prediction: 100 bundles, 31 shards" in capsys.readouterr().out


def test_a_point_that_is_predicted_badly_misses_its_gate():
    points = [{"bundles": 2, "shards": 1, "ratio": 1.14}, {"bundles": 8, "shards": 4, "ratio": 0.8}]
    says = "8 bundles, 4 shards: predicted less measured updates/s: 20 %, must be at most 15 %"
    assert gorila_scale.missed({"points": points}) == [says]


def test_points_are_bundles_and_shards():
    assert gorila_scale.points("2x1,8x4") == ((2, 1), (8, 4))
    with pytest.raises(gorila_scale.argparse.ArgumentTypeError, match="must be such as 2x1,4x3"):
        gorila_scale.points("2")


@pytest.mark.slow
def test_a_real_cluster(capsys):
    pytest.importorskip("ray")
    arguments = ("--env", "Catch-v0", "--points", "2x1", "--trials", "1", "--updates", "40", "--visits", "4", "--json")
    assert gorila_scale.main(list(arguments)) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["measured"][0] > 0 and point["predicted"][0] > 0
