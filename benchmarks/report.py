"""What was measured, as Markdown and as a plot."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd


def markdown(found: dict[str, Any]) -> str:
    """Every table, under the machine that it was measured on."""
    machine = found["machine"]
    fp32 = found["products"]["fp32"]
    products = ", ".join(f"{n} {v / 1e9:.0f} GFLOP/s" for n, v in found["products"].items())
    parts = [
        f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}, "
        f"{machine['date']}. A product of two large matrices: {products}.",
        "LayerNorm at four learning rates, MiniLM, batches of 16, evaluation included:",
        _sweeps(found["sweeps"], fp32).to_markdown(index=False, disable_numparse=True),
        "Fisher information, MiniLM:",
        _fisher(found["fisher"]).to_markdown(index=False, disable_numparse=True),
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


def plot(found: dict[str, Any], path: Path) -> None:
    """How many times faster than the peer's loop, each way of each benchmark."""
    bars = [(f"{r['task']}: {r['way']}", r["times_faster"]) for r in found["sweeps"]]
    bars += [(f"{r['task']}, {r['asked']}: {r['way']}", r["times_faster"]) for r in found["fisher"]]
    labels, values = zip(*reversed(bars), strict=True)
    figure, axes = plt.subplots(figsize=(7, 0.28 * len(bars) + 1), layout="constrained")
    axes.barh(labels, values, color="#0072B2")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times faster than the loop (first bar of each group)")
    figure.savefig(path, dpi=150)
    plt.close(figure)
