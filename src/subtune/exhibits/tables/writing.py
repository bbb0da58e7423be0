"""Tables: their numbers as text, and their files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

EMPTY = "–"
# Stands for the score of a run that diverged.
DIVERGED = "diverged"
# Stands after the name of a method whose scores differ.
MARK = "†"
PREAMBLE = r"% \usepackage[T1]{fontenc} \usepackage{booktabs,graphicx}"
NO_WIDER = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
# Characters that have a meaning in Markdown.
MARKDOWN = r"([\\`*\[<|])"
# Characters that pdfLaTeX does not know.
LATEX = str.maketrans({"−": "$-$", "⌈": r"$\lceil$", "⌉": r"$\rceil$"})


@dataclass(frozen=True)
class Emphasis:
    """The look of a table in Markdown and LaTeX.

    ``bold``: which cells are bold. ``marks``: text after a cell. ``note``: what the marks mean.
    ``wide``: columns that wrap in LaTeX, to their share of the text's width.
    """

    bold: pd.DataFrame | None = None
    marks: pd.DataFrame | None = None
    note: str = ""
    wide: Mapping[str, float] = field(default_factory=dict)


PLAIN = Emphasis()


class Styled(NamedTuple):
    """A table for CSV, and how Markdown and LaTeX show it.

    ``shown``: the table that they show instead, if people and programs read different columns.
    """

    table: pd.DataFrame
    emphasis: Emphasis
    shown: pd.DataFrame | None = None


def write(made: pd.DataFrame | Styled, outputs: Sequence[str | Path]) -> None:
    """Write a table to each output, in the format of its suffix: .csv, .md or .tex."""
    table, emphasis, shown = made if isinstance(made, Styled) else Styled(made, PLAIN)
    shown = table if shown is None else shown
    for path in map(Path, outputs):
        if path.suffix == ".csv":
            table.to_csv(path, index=False)
        else:
            cells = shown.astype(object).where(shown.notna(), EMPTY).map(_text)
            text = _markdown if path.suffix == ".md" else _latex
            path.write_text(text(cells, emphasis), encoding="utf-8")


def _text(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _markdown(table: pd.DataFrame, emphasis: Emphasis) -> str:
    # Names have stars, which would make text bold. Titles must not become links or pictures.
    cells = table.replace(MARKDOWN, r"\\\1", regex=True)
    headings = [re.sub(MARKDOWN, r"\\\1", str(heading)) for heading in table]
    if emphasis.bold is not None:
        cells = cells.where(~emphasis.bold, "**" + cells + "**")
    if emphasis.marks is not None:
        cells = cells + emphasis.marks
    text = cells.set_axis(headings, axis=1).to_markdown(index=False, disable_numparse=True) + "\n"
    return f"{text}\n{emphasis.note}\n" if emphasis.note else text


def _latex(table: pd.DataFrame, emphasis: Emphasis) -> str:
    """Return a tabular for booktabs, made smaller by graphicx if it is wider than the text."""
    cells = table if emphasis.marks is None else table + emphasis.marks
    latex = cells.style.hide(axis="index").format(escape="latex")
    latex = latex.format_index(escape="latex", axis="columns")
    if emphasis.bold is not None:
        styles = emphasis.bold.map(lambda is_bold: "textbf:--rwrap" if is_bold else "")
        latex = latex.apply(lambda _: styles, axis=None)
    columns = "".join(
        rf"p{{{emphasis.wide[name]:g}\textwidth}}" if name in emphasis.wide else "l"
        for name in table
    )
    tabular = latex.to_latex(hrules=True, column_format=columns).strip()
    note = rf"\par\smallskip{{\footnotesize {emphasis.note}\par}}" if emphasis.note else ""
    lines = [PREAMBLE, rf"\resizebox{{{NO_WIDER}}}{{!}}{{%", tabular + "}", note]
    return "\n".join(line for line in lines if line).translate(LATEX) + "\n"


def signed(value: float) -> str:
    """Return a difference with its sign, or nothing."""
    return EMPTY if pd.isna(value) else f"{value:+.4f}"


def interval(low: float, high: float) -> str:
    """Return the ends of an interval, or nothing."""
    return EMPTY if pd.isna(low) else f"{signed(low)} to {signed(high)}"


def share(value: float) -> str:
    """Return a share with two significant digits: ``0.095 %``, ``13 %``."""
    percent = 100 * value
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def cell(values: pd.Series) -> str:
    """Return a score, or mean and standard deviation over seeds, or *diverged*, or nothing."""
    if values.empty:
        return EMPTY
    if values.isna().any():
        return DIVERGED
    if len(values) == 1:
        return f"{values.iloc[0]:.4f}"
    return f"{values.mean():.4f} ± {values.std():.4f}"
