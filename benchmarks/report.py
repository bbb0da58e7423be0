"""Measurements as Markdown and as a plot."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

# One per model and task: shape and line.
MARKERS = ["o-", "o--", "s-", "s--", "^-", "^--"]
OURS, PEER = "#0072B2", "#999999"


def markdown(measured: dict[str, Any]) -> str:
    """Every table, under the machine that it was measured on."""
    machine = measured["machine"]
    fp32 = measured["products"]["fp32"]
    products = ", ".join(f"{n} {v / 1e9:.0f} GFLOP/s" for n, v in measured["products"].items())
    parts = [
        f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}, "
        f"{machine['date']}. A product of two large matrices: {products}.",
        "LayerNorm at four learning rates, MiniLM, batches of 16, evaluation included:",
        _sweeps(measured["sweeps"], fp32).to_markdown(index=False, disable_numparse=True),
        "Fisher information, MiniLM:",
        _fisher(measured["fisher"]).to_markdown(index=False, disable_numparse=True),
        "A run's training step, LayerNorm, batches of 16, random weights:",
        _scaling(measured["scaling"], measured["products"]).to_markdown(
            index=False, disable_numparse=True
        ),
        "Where the time goes, MiniLM:",
        _profile(measured["profile"]).to_markdown(disable_numparse=True),
    ]
    return "\n\n".join(parts) + "\n"


def _sweeps(rows: list[dict[str, Any]], fp32: float) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "task": row["task"],
            "way": row["way"],
            "seconds": f"{row['seconds']:.0f}",
            "tokens/s": f"{row['tokens_per_second']:,.0f}",
            "of a large product": f"{row['flops_per_second'] / fp32:.0%}",
            "times faster": f"{row['times_faster']:.2f}",
            "dev scores": ", ".join(f"{score:.3f}" for score in row["scores"]),
        }
        for row in rows
    )


def _fisher(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "task": row["task"],
            "examples": row["examples"],
            "asked for": row["asked"],
            "way": row["way"],
            "seconds": f"{row['seconds']:.1f}",
            "times faster": f"{row['times_faster']:.2f}",
            "largest difference": f"{row['largest_difference']:.0e}",
        }
        for row in rows
    )


def _scaling(rows: list[dict[str, Any]], large: dict[str, float]) -> pd.DataFrame:
    """Speed is compared with a large product in the same precision."""
    return pd.DataFrame(
        {
            "model": row["model"],
            "task": row["task"],
            "tokens of a batch": f"{row['tokens']:.0f}",
            "way": row["way"],
            "side by side": row["runs"],
            "ms per run": f"{1000 * row['seconds']:.0f}",
            "of a large product": f"{row['flops_per_second'] / large[precision_of(row)]:.0%}",
            "times faster": f"{row['times_faster']:.2f}",
        }
        for row in rows
    )


def precision_of(row: dict[str, Any]) -> str:
    return "bf16" if "bf16" in row["way"] else "fp32"


def _profile(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Kinds of operators by settings."""
    table = pd.DataFrame(rows)
    table["setting"] = table["task"] + ", " + table["runs"].astype(str) + " side by side"
    table["share"] = table["share"].map("{:.0%}".format)
    return table.pivot_table("share", "kind", "setting", aggfunc="first", sort=False)


def plot(measured: dict[str, Any], path: Path) -> None:
    """Plot speed relative to the peer's loop: each benchmark's ways, and runs side by side."""
    rows = [{"group": f"{r['task']}, sweep", **r} for r in measured["sweeps"]]
    rows += [{"group": f"{r['task']}, Fisher: {r['asked']}", **r} for r in measured["fisher"]]
    groups = pd.DataFrame(rows).groupby("group", sort=False)
    # A group's name has a line of its own, above its bars.
    labels: list[str] = []
    values: list[float] = []
    for group, ways in groups:
        labels += [str(group), *ways["way"]]
        values += [0.0, *ways["times_faster"]]
    colours = [OURS if "subtune" in label else PEER for label in labels]
    height = 0.22 * len(labels) + 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, height), layout="constrained")
    heights = range(len(labels))
    bars = left.barh(heights, values, color=colours)
    left.bar_label(bars, [f"{value:.2f}" if value else "" for value in values], padding=3)
    left.set_yticks(heights, labels)
    for value, label in zip(values, left.get_yticklabels(), strict=True):
        label.set_fontweight("normal" if value else "bold")
    left.set_xlim(right=1.1 * max(values))
    left.set_ylim(len(labels) - 0.5, -0.5)
    left.axvline(1, color="black", linewidth=0.8)
    left.set_xlabel("times faster than the first bar of each group")
    scaling = pd.DataFrame(measured["scaling"]).query("way == 'subtune'")
    for number, ((model, task), rows) in enumerate(scaling.groupby(["model", "task"], sort=False)):
        right.plot(rows["runs"], rows["times_faster"], MARKERS[number], label=f"{model}, {task}")
    right.axhline(1, color="black", linewidth=0.8)
    right.set_xscale("log", base=2, subs=[])
    right.set_xticks(sorted(scaling["runs"].unique()), sorted(scaling["runs"].unique()))
    right.set_xlabel("runs side by side")
    right.set_ylabel("a run's step: times faster than the Trainer's")
    right.set_ylim(bottom=0)
    right.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
