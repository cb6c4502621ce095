"""The program of `make demo`."""

import re
from pathlib import Path

import pytest

import paceline

DEMO = Path(__file__).resolve().parents[2] / "examples" / "python" / "demo.py"


@pytest.mark.slow
def test_quick_demo_runs(process, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    if not DEMO.is_file():
        pytest.skip("no checkout around the tests")
    done = process(f"import runpy, sys; runpy.run_path({str(DEMO)!r}, run_name='__main__')", "--quick", "--output", "made", timeout=300)
    try:
        paceline.make("Pong").close()
        learnt = 3
    except paceline.PacelineError:
        learnt = 2
        assert "left out: " in done.stdout
    says = r"This was the beginning\. At this machine's .* takes \d+ minutes; .* after 0\.\d\d million steps and ends at 1\d\.\d: "
    assert learnt == 2 or re.search(says, done.stdout)
    assert "made/demo.png\nmade/demo.gif\n" in done.stdout
    with image.open(tmp_path / "made/demo.png") as curves, image.open(tmp_path / "made/demo.gif") as video:
        assert curves.width > 450 * (learnt if learnt == 2 else learnt + 1) and video.n_frames > 100
        assert video.size == (8 + 308 + 176 + 168 * (learnt - 2), 238)
