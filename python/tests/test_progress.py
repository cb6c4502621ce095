"""The progress line of progress_bar=True and of `paceline train`, with a simulated clock."""

import io
import math
import re

import pytest

from paceline.progress import ProgressLine, Rate


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def bursts(seconds, period, busy):
    """Returns a function of time: 1000 counts a second on average, all in the first part of each
    period.
    """
    whole = math.floor(seconds / period)
    return 1000 * period * (whole + min(1, (seconds - whole * period) / busy))


@pytest.mark.parametrize("period, within", [(0.3, 0.005), (0.9, 0.01), (2.3, 0.02), (3.7, 0.06)])
def test_rates_are_smooth_under_bursts(period, within):
    rate = Rate()
    for tenth in range(600):
        rate.add(tenth / 10, bursts(tenth / 10, period, 0.4 * period))
        if tenth > 120:
            assert rate.per_second() == pytest.approx(1000, rel=within)


def test_rates_cover_the_last_ten_seconds():
    rate = Rate()
    assert math.isnan(rate.per_second())
    count = 0
    for second in range(60):
        rate.add(second, count)
        if second == 29:
            assert rate.per_second() == pytest.approx(100)
        if 30 < second < 39:
            assert 20 < rate.per_second() < 100
        if second >= 40:
            assert rate.per_second() == pytest.approx(20)
        count += 100 if second < 30 else 20
    rate.add(100_000, count + 99_940)  # after a long gap the rate is that of the last two points
    assert rate.per_second() == pytest.approx(1, rel=0.01)


def learn(monkeypatch, out, total=90_000, seconds=90.0, steps_per_second=1000, **more):
    """Updates a progress line twenty times a second and stops after `seconds`."""
    monkeypatch.setattr("sys.stderr", out)
    clock = Clock()
    stats = {"num_timesteps": 0, "updates": 0, "mean_return": math.nan, "loss": 0.25}
    line = ProgressLine(total, "Pong", lambda: stats, clock)
    for tick in range(1, int(seconds * 20) + 1):
        clock.now = 100 + tick / 20
        stats.update(num_timesteps=tick * steps_per_second // 20, updates=tick, mean_return=tick / 100, **more)
        line.update()
    line.close()
    return out.getvalue()


def test_without_a_terminal_a_line_is_printed_every_ten_seconds(monkeypatch):
    out = learn(monkeypatch, io.StringIO(), seconds=45)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", out)
    lines = out.splitlines()
    assert len(lines) == 5  # every ten seconds and at the end
    assert re.split(r"  +", lines[1]) == [
        "Pong", "20,000 / 90,000 steps", "1,000 steps/s", "20 updates/s", "return", "4.00", "0:20, 1:10 left", "loss 0.25000",
    ]  # fmt: skip
    assert "45,000 / 90,000 steps" in lines[-1] and "0:45, 0:45 left" in lines[-1]


def test_the_last_line_has_no_time_left(monkeypatch):
    out = learn(monkeypatch, io.StringIO(), seconds=90, epsilon=0.05)
    assert out.splitlines()[-1].endswith("  1:30  epsilon 0.050  loss 0.25000") and len(out.splitlines()) == 9


def test_the_line_of_a_terminal_is_rewritten(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = learn(monkeypatch, Terminal(), seconds=20)
    assert out.startswith("\r") and out.endswith("\n") and out.count("\n") == 1
    lines = out[1:-1].split("\r")
    assert 195 <= len(lines) <= 201
    assert all(len(line) < 60 for line in lines)
    assert lines[-1].startswith("Pong            20,000 / 90,000 steps    1,000 steps/s")


def test_long_times_are_shown_in_hours(monkeypatch):
    out = learn(monkeypatch, io.StringIO(), total=10_000_000, seconds=60)
    assert "1:00, 2:45:40 left" in out.splitlines()[-1]
