"""Write measurements as Markdown tables and as figures.

    python -m benchmarks.report steps.jsonl

Makes ``steps.md`` and ``steps.png`` from the JSON lines of `benchmarks`. If a cell was measured
several times, its shortest time is used.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.measurements import read_lines
from benchmarks.scaling import COMPILED, SUBTUNE, TRAINER

# Marker and line style, one per model and task.
MARKERS = ["o-", "o--", "s-", "s--", "^-", "^--"]
OURS, OTHERS = "#0072B2", "#999999"
# Colour-blind safe colours, one per method and precision.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
ORDER = [TRAINER, TRAINER + COMPILED, SUBTUNE, SUBTUNE + COMPILED]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__.splitlines()[0]
    )
    parser.add_argument("steps", type=Path, nargs="+", help="steps.jsonl files")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    every = [row for path in options.steps for row in read_lines(path)]
    first = next(row for row in every if "products" in row)
    measured = {**first, "scaling": [row for row in every if "way" in row]}
    options.to.mkdir(parents=True, exist_ok=True)
    print(write_report(measured, options.to, "steps"))


def write_report(measured: dict[str, Any], folder: Path, name: str) -> str:
    """Write ``<name>.md`` and the figures to ``folder``; return the Markdown."""
    text = format_markdown(measured)
    (folder / f"{name}.md").write_text(text)
    if "scaling" in measured:
        plot_steps(_fastest_steps(measured["scaling"]), folder / "steps.png")
    if {"sweeps", "fisher", "scaling"} <= measured.keys():
        plot_speed(measured, folder / f"{name}.png")
    return text


def format_markdown(measured: dict[str, Any]) -> str:
    """Format the machine, the speed of large products, and all tables as Markdown."""
    parts = []
    if "machine" in measured:
        machine = measured["machine"]
        parts.append(
            f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}, "
            f"{machine['date']}."
        )
    if "products" in measured:
        rates = measured["products"].items()
        parts.append(
            "A product of two large matrices: "
            + ", ".join(f"{name} {rate / 1e9:,.0f} GFLOP/s" for name, rate in rates)
            + "."
        )
    tables: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
        "scaling": (
            "Training step of one run (batch size 16, random weights):",
            lambda: _step_table(measured["scaling"], measured["products"]),
        ),
        "sweeps": (
            "LayerNorm at four learning rates (MiniLM, batch size 16, with evaluation):",
            lambda: _sweep_table(measured["sweeps"], measured["products"]["fp32"]),
        ),
        "fisher": ("Fisher information (MiniLM):", lambda: _fisher_table(measured["fisher"])),
        "profile": (
            "Share of training time by kind of operator (MiniLM):",
            lambda: _profile_table(measured["profile"]),
        ),
    }
    for name, (title, table) in tables.items():
        if name in measured:
            parts += [title, table().to_markdown(index=False, disable_numparse=True)]
    return "\n\n".join(parts) + "\n"


def _sweep_table(rows: list[dict[str, Any]], fp32: float) -> pd.DataFrame:
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


def _fisher_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
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


def _fastest_steps(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Select the shortest step of each cell, and compare it with that of the Trainer.

    ``times_faster`` is the Trainer's time divided by the cell's time. The Trainer trains the same
    parameters in float32 or, if it was not measured, in another precision.
    """
    cell = ["model", "task", "way", "method", "precision", "runs"]
    measured = pd.DataFrame(row for row in rows if "problem" not in row)
    fastest = measured.loc[measured.groupby(cell, sort=False)["seconds"].idxmin()]
    trainers = fastest[fastest["way"] == TRAINER].sort_values("precision", ascending=False)
    trainer = trainers.drop_duplicates(["model", "task", "method"])
    trainer = trainer.set_index(["model", "task", "method"])["seconds"].rename("trainer")
    fastest = fastest.join(trainer, on=["model", "task", "method"])
    return fastest.assign(times_faster=fastest["trainer"] / fastest["seconds"])


def _step_table(rows: list[dict[str, Any]], large: dict[str, float]) -> pd.DataFrame:
    """Build the table of training steps; ``large`` maps precisions to FLOP/s of a product."""
    of = _fastest_steps(rows).sort_values(
        ["model", "task", "method", "way", "precision", "runs"],
        key=lambda column: column.map(ORDER.index) if column.name == "way" else column,
        kind="stable",
    )
    share = of["flops_per_second"] / of["precision"].map(large)
    table = {
        "model": of["model"],
        "task": of["task"],
        "tokens of a batch": of["tokens"].map("{:.0f}".format),
        "trains": of["method"],
        "way": of["way"],
        "precision": of["precision"],
        "side by side": of["runs"],
        "ms per run": (1000 * of["seconds"]).map(_format_milliseconds),
        "tokens/s": of["tokens_per_second"].map("{:,.0f}".format),
        "of a large product": share.map("{:.1%}".format),
        "times faster": of["times_faster"].map("{:.2f}".format).replace("nan", ""),
        "first epoch, s": of["first_epoch"].map("{:.1f}".format),
    }
    if of["gigabytes"].notna().any():
        table["memory, GB"] = of["gigabytes"].map("{:.1f}".format)
    return pd.DataFrame(table)


def _format_milliseconds(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _profile_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Build a table with a row per kind of operator and a column per task and number of runs."""
    table = pd.DataFrame(rows)
    table["setting"] = table["task"] + ", " + table["runs"].astype(str) + " side by side"
    table["share"] = table["share"].map("{:.0%}".format)
    of_kind = table.pivot_table("share", "kind", "setting", aggfunc="first", sort=False)
    return of_kind.reset_index()


def plot_speed(measured: dict[str, Any], path: Path) -> None:
    """Plot the speed of sweeps, Fisher information and steps, relative to the baselines."""
    rows = [{"group": f"{r['task']}, sweep", **r} for r in measured["sweeps"]]
    rows += [{"group": f"{r['task']}, Fisher: {r['asked']}", **r} for r in measured["fisher"]]
    groups = pd.DataFrame(rows).groupby("group", sort=False)
    # The name of a group takes one line, above its bars.
    labels: list[str] = []
    values: list[float] = []
    for group, ways in groups:
        labels += [str(group), *ways["way"]]
        values += [0.0, *ways["times_faster"]]
    colours = [OURS if "subtune" in label else OTHERS for label in labels]
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
    left.set_xlabel("speed-up over the first bar of each group")
    scaling = _fastest_steps(measured["scaling"])
    scaling = scaling.query("way == 'subtune' and precision == 'fp32' and method == 'layernorm'")
    for number, ((model, task), rows) in enumerate(scaling.groupby(["model", "task"], sort=False)):
        right.plot(rows["runs"], rows["times_faster"], MARKERS[number], label=f"{model}, {task}")
    right.axhline(1, color="black", linewidth=0.8)
    right.set_xscale("log", base=2, subs=[])
    right.set_xticks(sorted(scaling["runs"].unique()), sorted(scaling["runs"].unique()))
    right.set_xlabel("runs side by side")
    right.set_ylabel("speed-up over the Trainer, per run")
    right.set_ylim(bottom=0)
    right.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_steps(of: pd.DataFrame, path: Path) -> None:
    """Plot the time of a step per run against the number of runs, for each model and task.

    The Trainer runs one at a time, so its time is a horizontal line.
    """
    models, tasks = [*of["model"].unique()], [*of["task"].unique()]
    figure, axes = plt.subplots(
        len(models),
        len(tasks),
        figsize=(3 + 4.5 * len(tasks), 1 + 3 * len(models)),
        squeeze=False,
        sharex=True,
        sharey="row",
        layout="constrained",
    )
    kinds = [*of.groupby(["method", "precision"], sort=False).groups]
    colours = dict(zip(kinds, COLOURS, strict=False))
    legend = {}
    for (model, task), cells in of.groupby(["model", "task"], sort=False):
        axis = axes[models.index(model), tasks.index(task)]
        axis.set_title(f"{model}, {task}")
        for (way, *kind), rows in cells.groupby(["way", "method", "precision"], sort=False):
            rows = rows.sort_values("runs")
            milliseconds = 1000 * rows["seconds"]
            is_plain = way in (TRAINER, SUBTUNE)
            look = {"color": colours[tuple(kind)], "linewidth": 1 if is_plain else 2}
            if way.startswith(SUBTUNE):
                [line] = axis.plot(rows["runs"], milliseconds, "o--" if is_plain else "s-", **look)
            else:
                line = axis.axhline(
                    milliseconds.item(), linestyle=":" if is_plain else "-.", **look
                )
            legend[f"{', '.join(kind)}: {way}"] = line
    runs = sorted(of["runs"].unique())
    for axis in axes.flat:
        axis.set_xscale("log", base=2)
        axis.set_xticks(runs, runs)
        axis.set_xticks([], minor=True)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
    for axis in axes[-1]:
        axis.set_xlabel("runs side by side")
    for axis in axes[:, 0]:
        axis.set_ylabel("milliseconds per step and run")
    names = sorted(legend)
    figure.legend([legend[name] for name in names], names, loc="outside right center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
