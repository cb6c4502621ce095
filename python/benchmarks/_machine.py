"""The machine and the commit that records of benchmarks name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def machine() -> str:
    """The processor, its cores that may be used, and the vector instructions in use."""
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|CPU part)\s*: (.+)$", text, re.M)
    flags = re.search(r"^flags\s*: (.+)$", text, re.M)
    vector = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flags and flag in flags[1].split()]
    cores = len(os.sched_getaffinity(0))
    return f"{cores} core{'s' if cores > 1 else ''} of {model[1] if model else 'an unknown processor'} ({', '.join(vector)})"


def commit() -> str:
    """The checkout's commit; with "+" where files were changed since."""
    said = subprocess.run(["git", "describe", "--always", "--dirty=+", "--exclude=*"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"
