"""How every table names things, shows numbers and is written."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

TITLES = {
    "full": "Full",
    "bitfit": "BitFit",
    "layernorm": "LayerNorm",
    "random": "Random",
    "frozen": "Frozen",
    "full-bitfit": "Full BitFit",
    "lora-I": "LoRA-I",
    "lora-II": "LoRA-II",
}
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


def write(
    table: pd.DataFrame, outputs: Sequence[str | Path], bold: pd.DataFrame | None = None
) -> None:
    """Write a table to each output, in the format of its ending: .csv, .md or .tex.

    Args:
        table: what to write.
        outputs: where.
        bold: which cells are bold, where the format knows bold.
    """
    for path in map(Path, outputs):
        if path.suffix == ".csv":
            table.to_csv(path, index=False)
        elif path.suffix == ".md":
            shown = table.astype(object).where(table.notna(), EMPTY)
            if bold is not None:
                shown = shown.where(~bold, "**" + shown.astype(str) + "**")
            path.write_text(shown.to_markdown(index=False, disable_numparse=True) + "\n")
        else:
            latex = table.style.hide(axis="index").format(na_rep=EMPTY, escape="latex")
            latex = latex.format_index(escape="latex", axis="columns")
            if bold is not None:
                marks = bold.map(lambda is_bold: "textbf:--rwrap" if is_bold else "")
                latex = latex.apply(lambda _, marks=marks: marks, axis=None)
            path.write_text(latex.to_latex(hrules=True))


def cell(values: pd.Series) -> str:
    """A score, or the mean and standard deviation over seeds, or nothing."""
    if values.empty:
        return EMPTY
    if len(values) == 1:
        return f"{values.iloc[0]:.4f}"
    return f"{values.mean():.4f} ± {values.std():.4f}"
