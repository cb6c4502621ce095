"""How many times as fast as others, as a bar chart in SVG that reads on light and dark grounds."""

from __future__ import annotations

import math
from typing import Any

import report_tables

WIDTH, LEFT, BAR, GAP = 760, 300, 18, 14
LIGHT, DARK, TEXT = "#9fa8da", "#3f51b5", "#263238"

# Label, record, ratio in fp32, ratio in bf16: names of the reports' own ratios.
BARS = [
    ("Atari frames, one core: ale-py", "emulator", "hmean_vs_ale", ""),
    ("8 Atari games in a vector: ale-py", "envs", "mean_8_vs_ale", ""),
    ("8 Atari games in a vector: EnvPool", "envs", "mean_8_vs_envpool", ""),
    ("DQN on Pong: stable-baselines3", "train", "train_w8_fp32_vs_sb3", "train_w8_bf16_vs_sb3"),
    ("DQN on Pong: PyTorch, fastest loop", "train", "train_w8_fp32_vs_torch_loop", "train_w8_bf16_vs_torch_loop"),
    ("PPO on Pong: stable-baselines3", "onpolicy", "ppo_vs_sb3_fp32", "ppo_vs_sb3_bf16"),
    ("PPO on Pong: PyTorch, compiled loop", "onpolicy", "ppo_vs_torch_loop_faster_fp32", "ppo_vs_torch_loop_faster_bf16"),
    ("A2C on Pong: stable-baselines3", "onpolicy", "a2c_vs_sb3", ""),
]


def ratios(record: dict[str, Any]) -> dict[str, float]:
    """A record's, and of vectors of environments those of the harmonic means over games."""
    if "ratio" in record:
        return dict(record["ratio"])
    found = dict(record["report"]["ratio"])
    if record["name"] == "emulator":
        found["hmean_vs_ale"] = record["report"]["hmean"]["every_vs_ale"]
    if record["name"] == "envs":
        means = report_tables.mean_rates(record["report"]["results"])
        for n, rates in means.items():
            for key, name in (("ale", "ale-py"), ("envpool", "envpool")):
                if name in rates:
                    found[f"mean_{n}_vs_{key}"] = rates["paceline"] / rates[name]
    return found


def svg(records: dict[str, dict[str, Any]]) -> str:
    """The chart of what was measured."""
    bars = []
    for label, name, fp32, bf16 in BARS:
        known = ratios(records[name]) if name in records else {}
        if fp32 in known:
            bars.append((label, known[fp32], known.get(bf16)))
    most = math.ceil(max([1.0, *(max(a, b or 0) for _, a, b in bars)]))
    height = 64 + len(bars) * (BAR + GAP) + 34
    unit = (WIDTH - LEFT - 70) / most
    said = "; ".join(f"{label} {a:.1f}" + (f", in bf16 {b:.1f}" if b else "") for label, a, b in bars)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title desc" '
        'font-family="system-ui, sans-serif" font-size="13">',
        '  <title id="title">How many times as fast as other libraries Paceline is</title>',
        f'  <desc id="desc">{said}.</desc>',
        f'  <rect width="{WIDTH}" height="{height}" rx="8" fill="#fafafa" stroke="#cfd8dc"/>',
        f'  <text x="20" y="28" font-size="15" font-weight="600" fill="{TEXT}">Times as fast as ...</text>',
        f'  <rect x="{WIDTH - 180}" y="17" width="12" height="12" fill="{DARK}"/>'
        f'<text x="{WIDTH - 162}" y="28" fill="{TEXT}">fp32</text>'
        f'<rect x="{WIDTH - 110}" y="17" width="12" height="12" fill="{LIGHT}"/><text x="{WIDTH - 92}" y="28" fill="{TEXT}">bf16</text>',
    ]
    for i, (label, a, b) in enumerate(bars):
        y = 50 + i * (BAR + GAP)
        out.append(f'  <text x="{LEFT - 12}" y="{y + 13}" text-anchor="end" fill="{TEXT}">{label}</text>')
        longest = max(a, b or 0)
        if b:
            out.append(f'  <rect x="{LEFT}" y="{y}" width="{b * unit:.1f}" height="{BAR}" fill="{LIGHT}"/>')
        out.append(f'  <rect x="{LEFT}" y="{y}" width="{a * unit:.1f}" height="{BAR}" fill="{DARK}"/>')
        text = f"{a:.1f}" + (f" and {b:.1f}" if b else "")
        out.append(f'  <text x="{LEFT + longest * unit + 8:.1f}" y="{y + 13}" font-weight="600" fill="{TEXT}">{text}</text>')
    bottom = 50 + len(bars) * (BAR + GAP)
    x = LEFT + unit
    out.append(f'  <line x1="{x:.1f}" y1="42" x2="{x:.1f}" y2="{bottom}" stroke="#b71c1c" stroke-dasharray="3 3"/>')
    out.append(f'  <text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#b71c1c">as fast (1)</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
