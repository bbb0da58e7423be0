"""The LayerNorm paper's tables, and how every table is written."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from subtune import reported
from subtune.analysis import Column, methods_only
from subtune.tasks import Task

TITLES = {"full": "Full", "bitfit": "BitFit", "layernorm": "LayerNorm", "random": "Random"}
METRIC_TITLES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "matthews_correlation": "Matthews correlation",
    "pearsonr": "Pearson correlation",
    "spearmanr": "Spearman correlation",
}
EMPTY = "–"


def title_of(method: str) -> str:
    """A method's name as the paper writes it; a user's own method keeps its name."""
    return TITLES.get(method, method)


def table1(ranking: pd.DataFrame) -> pd.DataFrame:
    """Components by summed normalised Fisher information, beside the paper's ranks."""
    return pd.DataFrame(
        {
            "rank": ranking["rank"],
            "component": ranking["component"],
            "information": ranking["information"].map("{:.4f}".format),
            "paper's rank": ranking["reported_rank"],
        }
    )


def table2(chosen: pd.DataFrame, columns: Sequence[Column], model: str) -> pd.DataFrame:
    """Dev scores of every method, ours and below them the paper's.

    ``parameters`` counts a two-label classifier where a task has one, as the paper does.
    """
    table = methods_only(chosen)
    binary = _counts(table)
    full = binary.get("full")
    rows = []
    for method in table["method"].drop_duplicates():
        own = table[table["method"] == method]
        share = f"{binary[method] / full:.3%}" if full else EMPTY
        cells = [_cell(own.loc[own["column"] == c.key, "value"]) for c in columns]
        rows.append([model, title_of(method), f"{binary[method]:,}", share, *cells])
    printed = reported.scores("layernorm", "table2")
    counts = reported.table("parameter_counts.csv")
    counts = counts[counts["source"] == "layernorm"].set_index("method")["printed"]
    for method in printed["method"].drop_duplicates():
        own = printed[printed["method"] == method]
        value = own.set_index("task")["value"]
        cells = [f"{value[c.key]:.4f}" if c.key in value else EMPTY for c in columns]
        rows.append(
            [
                "paper: bert-large-cased, GLUE",
                title_of(method),
                counts.get(method, EMPTY),
                own["params"].iloc[0],
                *cells,
            ]
        )
    heading = ["scores of", "method", "parameters", "% of full", *(c.title for c in columns)]
    return pd.DataFrame(rows, columns=heading)


def choices(chosen: pd.DataFrame, tasks: Sequence[Task]) -> pd.DataFrame:
    """The learning rate and epoch behind every cell of Table 2."""
    table = methods_only(chosen)
    table = table[table["decides"]]
    titles = {task.name: task.title for task in tasks}
    return pd.DataFrame(
        {
            "task": table["task"].map(titles),
            "method": table["method"].map(title_of),
            "seed": table["seed"],
            "learning rate": table["learning_rate"],
            "epoch": table["best_epoch"],
            "trained parameters": table["trainable"],
            "metric": table["metric"],
            "dev score": table["value"].round(4),
            "run": table["run"],
        }
    )


def table4(tasks: Sequence[Task]) -> pd.DataFrame:
    """The metrics; where a task has several, the first decides and is the tables'."""
    return pd.DataFrame(
        {
            "task": [task.title for task in tasks],
            "metric": [_metric_title(task) for task in tasks],
            "also computed": [
                ", ".join(METRIC_TITLES[name] for name in task.metrics[1:]) or EMPTY
                for task in tasks
            ],
        }
    )


def _metric_title(task: Task) -> str:
    name = METRIC_TITLES[task.metrics[0]]
    kinds = [split.removeprefix("validation_") for split in task.evaluation]
    return name if len(kinds) == 1 else " / ".join(f"{kind} {name}" for kind in kinds)


def write(table: pd.DataFrame, outputs: Sequence[str | Path]) -> None:
    """Write a table to each output, in the format of its ending: .csv, .md or .tex."""
    for path in map(Path, outputs):
        if path.suffix == ".csv":
            table.to_csv(path, index=False)
        elif path.suffix == ".md":
            shown = table.astype(object).where(table.notna(), EMPTY)
            path.write_text(shown.to_markdown(index=False, disable_numparse=True) + "\n")
        else:
            latex = table.style.hide(axis="index").format(na_rep=EMPTY, escape="latex")
            latex = latex.format_index(escape="latex", axis="columns")
            path.write_text(latex.to_latex(hrules=True))


def _counts(table: pd.DataFrame) -> dict[str, int]:
    """Trained parameters per method, on the task with the most usual classifier."""
    usual = table.groupby("task")["trainable"].max()
    task = usual[usual == usual.mode().iloc[-1]].index[0]
    rows = table[table["task"] == task]
    return dict(zip(rows["method"], rows["trainable"], strict=True))


def _cell(values: pd.Series) -> str:
    if values.empty:
        return EMPTY
    if len(values) == 1:
        return f"{values.iloc[0]:.4f}"
    return f"{values.mean():.4f} ± {values.std():.4f}"
