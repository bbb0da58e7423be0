"""How every table names things, shows numbers and is written."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

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


def cell(values: pd.Series) -> str:
    """A score, or the mean and standard deviation over seeds, or nothing."""
    if values.empty:
        return EMPTY
    if len(values) == 1:
        return f"{values.iloc[0]:.4f}"
    return f"{values.mean():.4f} ± {values.std():.4f}"
