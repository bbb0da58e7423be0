r"""Format the cells of tables as LaTeX macros, so that a manuscript cites results by name.

After ``\input{numbers.tex}``, ``\subtune{TABLE}{ROW}{COLUMN}`` prints a cell. An unknown name is an
error of LaTeX.
"""

import re
from collections.abc import Mapping

import pandas as pd

from subtune.exhibits.output import LATEX, LATEX_SPECIAL

# Characters that are left out of names, because LaTeX does not allow them there.
NOT_IN_NAMES = re.compile(r"[^\w .,:;()/+<>=-]+")
MACROS = r"""% \subtune{TABLE}{ROW}{COLUMN} prints a cell. The lines below list all names.
\providecommand{\subtunecell}[4]{\expandafter\def\csname subtune|#1|#2|#3\endcsname{#4}}
\providecommand{\subtune}[3]{\ifcsname subtune|#1|#2|#3\endcsname\csname subtune|#1|#2|#3\endcsname%
  \else\PackageError{subtune}{unknown: table #1, row #2, column #3}{See numbers.tex}\fi}"""


def format_latex_numbers(tables: Mapping[str, pd.DataFrame]) -> str:
    """Format tables of strings, by name, as a LaTeX file with one macro for each cell.

    The name of a row consists of the cells of its first columns, as many as distinguish all rows.
    """
    lines = [MACROS]
    for table, cells in tables.items():
        columns = [*map(_format_name, map(str, cells.columns))]
        for row, values in zip(_name_rows(cells), cells.itertuples(index=False), strict=True):
            for column, value in zip(columns, values, strict=True):
                text = value.translate(LATEX_SPECIAL | LATEX)
                lines.append(rf"\subtunecell{{{table}}}{{{row}}}{{{column}}}{{{text}}}")
    return "\n".join(lines) + "\n"


def _name_rows(cells: pd.DataFrame) -> list[str]:
    names = [""] * len(cells)
    for number in range(1, len(cells.columns) + 1):
        first = cells.iloc[:, :number].map(_format_name)
        names = [", ".join(row) for row in first.to_numpy()]
        if len({*names}) == len(names):
            return names
    return [f"{name}, {number}" for number, name in enumerate(names, 1)]


def _format_name(text: str) -> str:
    named = text.replace("%", " percent ").replace("'", "")
    return " ".join(NOT_IN_NAMES.sub(" ", named).split())
