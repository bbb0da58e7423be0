"""Tables: their numbers as text, and their files."""

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

EMPTY = "–"
# Stands for the score of a run that diverged.
DIVERGED = "diverged"
# Stands after the name of a method whose scores differ.
MARK = "†"
PREAMBLE = r"% \usepackage[T1]{fontenc} \usepackage{booktabs,graphicx}"
NO_WIDER = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
# Characters of a line on a terminal.
WIDEST = 100
# Characters that have a meaning in Markdown.
MARKDOWN = r"([\\`*\[<|])"
# Characters that pdfLaTeX does not know.
LATEX = str.maketrans({"−": "$-$", "⌈": r"$\lceil$", "⌉": r"$\rceil$"})


@dataclass(frozen=True)
class Styled:
    """A table for CSV, and how Markdown and LaTeX show it.

    ``shown``: the table that they show instead, if people and programs read different columns.
    ``bold``: which cells of some columns are bold. ``before``: Markdown above the table.
    ``note``: a sentence below it. ``wide``: columns that wrap in LaTeX, to their share of the
    text's width.
    """

    table: pd.DataFrame
    shown: pd.DataFrame | None = None
    bold: pd.DataFrame | None = None
    before: str = ""
    note: str = ""
    wide: Mapping[str, float] = field(default_factory=dict)


def write(made: pd.DataFrame | Styled, outputs: Sequence[str | Path]) -> None:
    """Write a table to each output, in the format of its suffix: .csv, .md or .tex."""
    styled = made if isinstance(made, Styled) else Styled(made)
    shown = styled.table if styled.shown is None else styled.shown
    cells = shown.astype(object).where(shown.notna(), EMPTY)
    cells = cells.map(lambda value: f"{value:.5g}" if isinstance(value, float) else str(value))
    bold = pd.DataFrame(index=shown.index) if styled.bold is None else styled.bold
    bold = bold.reindex(columns=shown.columns, fill_value=False)
    for path in map(Path, outputs):
        if path.suffix == ".csv":
            styled.table.to_csv(path, index=False)
        elif path.suffix == ".md":
            parts = [styled.before, _markdown(cells, bold), styled.note]
            path.write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")
        else:
            path.write_text(_latex(cells, bold, styled.note, styled.wide), encoding="utf-8")


def _markdown(table: pd.DataFrame, bold: pd.DataFrame) -> str:
    # Names have stars, which would make text bold. Titles must not become links or pictures.
    cells = table.replace(MARKDOWN, r"\\\1", regex=True)
    headings = [escaped(str(heading)) for heading in table]
    cells = cells.where(~bold, "**" + cells + "**").set_axis(headings, axis=1)
    return cells.to_markdown(index=False, disable_numparse=True)


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(MARKDOWN, r"\\\1", text)


def _latex(table: pd.DataFrame, bold: pd.DataFrame, note: str, wide: Mapping[str, float]) -> str:
    """Return a tabular for booktabs, made smaller by graphicx if it is wider than the text."""
    latex = table.style.hide(axis="index").format(escape="latex")
    latex = latex.format_index(escape="latex", axis="columns")
    styles = bold.map(lambda is_bold: "textbf:--rwrap" if is_bold else "")
    latex = latex.apply(lambda _: styles, axis=None)
    columns = "".join(rf"p{{{wide[name]:g}\textwidth}}" if name in wide else "l" for name in table)
    lines = [PREAMBLE, rf"\resizebox{{{NO_WIDER}}}{{!}}{{%"]
    lines.append(latex.to_latex(hrules=True, column_format=columns).strip() + "}")
    if note:
        lines.append(rf"\par\smallskip{{\footnotesize {note}\par}}")
    return "\n".join(lines).translate(LATEX) + "\n"


def wrapped(text: str) -> list[str]:
    """Return a text as lines that are as wide as the terminal; all but the first are indented."""
    width = min(WIDEST, shutil.get_terminal_size().columns)
    return textwrap.wrap(text, width, subsequent_indent="    ")


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
