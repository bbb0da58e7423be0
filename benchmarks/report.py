"""Write measurements as Markdown tables, and the times of training steps as a figure.

    python -m benchmarks.report FOLDER …

Reads the JSON lines that `benchmarks` wrote to the folders. If a training step was measured several
times, its shortest time is used.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.scaling import COMPILED, SUBTUNE, TRAINER

# Colour-blind safe colours, one per method and precision.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
ORDER = [TRAINER, TRAINER + COMPILED, SUBTUNE, SUBTUNE + COMPILED]
TITLES = {
    "scaling": "Training step of one run (batch size 16, random weights):",
    "sweeps": "LayerNorm at four learning rates (MiniLM, batch size 16, with evaluation):",
    "fisher": "Fisher information (MiniLM):",
    "profile": "Share of training time by kind of operator (MiniLM):",
    "methods": "Methods of the leaderboard (MiniLM on SST-2, fp32):",
}
# How columns are formatted. Other columns are shown as they are.
FORMATS = {
    "seconds": "{:.1f}",
    "tokens_per_second": "{:,.0f}",
    "times_faster": "{:.2f}",
    "largest_difference": "{:.0e}",
    "share": "{:.0%}",
    "parameters": "{:,}",
    "milliseconds": "{:,.1f}",
    "megabytes": "{:.0f}",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folders", type=Path, nargs="+", help="folders with *.jsonl files")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    print(write_report(options.folders, options.to))


def write_report(folders: Sequence[Path], to: Path) -> str:
    """Write ``benchmarks.md`` and ``steps.png`` to a folder; return the Markdown."""
    rows = {part: _read_rows(folders, part) for part in ("machine", "products", *TITLES)}
    lines = [
        f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}, "
        f"{machine['date']}."
        for machine in rows["machine"]
    ]
    large = {row["precision"]: row["flops_per_second"] for row in rows["products"]}
    if large:
        rates = [f"{name} {rate / 1e9:,.0f} GFLOP/s" for name, rate in large.items()]
        lines.append(f"A product of two large matrices: {', '.join(rates)}.")
    for part, title in TITLES.items():
        if rows[part]:
            table = _step_table(rows[part], large) if part == "scaling" else _table(rows[part])
            lines += [title, table.to_markdown(index=False, disable_numparse=True)]
    if rows["scaling"]:
        plot_steps(_fastest_steps(rows["scaling"]), to / "steps.png")
    text = "\n\n".join(lines) + "\n"
    (to / "benchmarks.md").write_text(text)
    return text


def _read_rows(folders: Sequence[Path], part: str) -> list[dict[str, Any]]:
    """Read all measurements of a part, in order."""
    paths = [folder / f"{part}.jsonl" for folder in folders]
    lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Build a table with a row per measurement, and with readable names and numbers."""
    table = pd.DataFrame(rows)
    for name in table.columns.intersection([*FORMATS]):
        table[name] = table[name].map(FORMATS[name].format)
    return table.rename(columns=lambda name: name.replace("_", " "))


def _fastest_steps(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Select the shortest step of each cell, and compare it with that of the Trainer.

    ``times_faster`` is the Trainer's time divided by the cell's time. The Trainer trains the same
    parameters in float32 or, if it was not measured, in another precision.
    """
    cell = ["model", "task", "way", "method", "precision", "runs"]
    measured = pd.DataFrame(row for row in rows if "seconds" in row)
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
