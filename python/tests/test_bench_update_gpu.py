"""`paceline bench update --device`: ratios of times, refusals, PyTorch's side on a CPU."""

import pytest

from paceline import bench, cli
from paceline.bench import _update_gpu, update


class Rival:
    """PyTorch's side, with known times."""

    version, left_out = "3.0", ["bf16 compiled graph: no compiler"]

    def turn(self, threads):
        assert threads == 1
        return {("update", 32, "tf32 eager"): [1.0], ("row", 32, "tf32 compiled graph"): [0.25], ("row", 32, "fp32 graph"): [0.5]}


def of_a_gpu(name, options):
    assert name == "update" and options == {"trials": 3, "batch": 32, "device": "cuda:1", "row": 1000}
    result = {"batch": 32, "threads": 1, "flop": 2e9, "flop_done": 2e9, "peak_gflops": None}
    results = [
        result | {"work": w, "precision": p, "ms": [ms]}
        for w, p, ms in (("update", "tf32", 0.2), ("row", "tf32", 0.1), ("row", "fp32", 0.5))
    ]
    results.append(result | {"work": "act", "batch": 8, "precision": "fp32", "ms": [0.05]})
    results.append(result | {"work": "sample", "precision": "fp32", "flop": 0, "flop_done": 0, "ms": [0.3]})
    return {"isa": "avx2", "device": "cuda:1 (NVIDIA H9)", "row": 1000, "enqueued": 256, "results": results}


def test_report_of_a_gpu_has_ratios_to_pytorch(monkeypatch):
    monkeypatch.setattr(bench, "run", of_a_gpu)
    report = update.measure(2, Rival(), "cuda:1")
    assert report["device"] == "cuda:1 (NVIDIA H9)" and report["row"] == 1000
    assert report["ratio"] == pytest.approx(
        {"update_tf32_vs_torch_eager": 5.0, "row_tf32_vs_torch_compiled_graph": 2.5, "row_fp32_vs_torch_graph": 1.0}
    )
    row = next(r for r in report["ours"] if (r["work"], r["precision"]) == ("row", "tf32"))
    assert row["gflops"] == pytest.approx(20_000) and "of_peak" not in row
    text = update.text(report)
    assert "of 1,000 updates in a row         tf32         0.1000    20.00   2.50 (compiled graph)" in text
    assert (
        "cuda:1 (NVIDIA H9)" in text
        and "acting, 8 rows" in text
        and "waits after 256 updates" in text
        and "left out: PyTorch, bf16 compiled graph: no compiler" in text
    )


def test_report_says_why_pytorch_is_left_out(monkeypatch):
    monkeypatch.setattr(bench, "run", of_a_gpu)
    report = update.measure(1, None, "cuda:1", torch_left_out="PyTorch is not installed")
    assert report["torch"] is None and "left out: PyTorch: PyTorch is not installed" in update.text(report)


@pytest.mark.parametrize(
    "option, value, text",
    [
        ("--device", "gpu", '"gpu", must be "cpu", "cuda" or "cuda:0"'),
        ("--device", "cuda:255", "device: cuda:255: "),
        ("--batch", "0", "--batch: 0, must be at least 1"),
        ("--row", "0", "--row: 0, must be at least 1"),
        ("--precisions", "fp32,fp8", "'fp32,fp8', must be fp32, tf32 or bf16"),
        ("--rounds", "0", "--rounds: 0, must be at least 1"),
    ],
)
def test_bad_arguments_are_refused(capsys, option, value, text):
    try:
        status = cli.main(["bench", "update", option, value])
    except SystemExit as end:
        status = end.code
    assert status != 0
    assert text in capsys.readouterr().err


def test_pytorch_on_a_cpu_measures_eager_updates():
    """Eager updates run on any device. Variants with CUDA graphs are left out with a reason."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, on which bench update is a test")
    side = _update_gpu.TorchGPU(torch, "cpu", batch=2, row=2, trials=1, act=(1,))
    assert set(side.updates) == {f"{p} eager" for p in _update_gpu.PRECISIONS}
    assert len(side.left_out) == 6 and all(": " in reason for reason in side.left_out)
    times = side.turn(1)
    assert set(times) == {(w, n, f"{p} eager") for p in _update_gpu.PRECISIONS for w, n in (("update", 2), ("row", 2), ("act", 1))}
    assert all(len(ms) == 1 and ms[0] > 0 for ms in times.values())
    side, why = _update_gpu.contender("cuda", 2, 2, 1)
    assert side is None and why.startswith("PyTorch ") and why.endswith("finds no GPU")
