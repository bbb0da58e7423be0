"""Results from which tables and figures are made, their shared parts, and how they are written."""

import math
import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.candidates import summary
from subtune.analysis.tables import order_columns
from subtune.tasks.metrics import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The tables whose columns are those of ``scores`` in `subtune.analysis.tables`.
WITH_SCORE_COLUMNS = ("scores", "chosen", "sizes", "test_scores")


@dataclass(frozen=True)
class ExperimentResults:
    """Numbers of an experiment's runs, and facts about its tasks from the configuration.

    Attributes:
        tables: tables by name: those of `subtune.steps.scores.SCORE_TABLES`, those of
            `subtune.papers.paper.INFORMATION`, ``train_scores``, ``test_scores``, ``claims`` and
            ``reproduction``; an experiment may lack some. ``sizes`` has all numbers of training
            rows in every metric, ``chosen`` only the largest number. Claims also read ``printed``,
            the paper's own scores, and ``train_rows``, each task's number of training rows.
        tasks: each task's ``title``, the titles of its ``columns`` and ``metrics``, its splits for
            ``evaluation``, and the ``source`` of its rows in words.
        printed: the function that returns a table of the experiment's paper by its name.
        models: directories of models by name.
        selections: each method's selection as canonical JSON.
    """

    tables: Mapping[str, pd.DataFrame]
    tasks: Mapping[str, Mapping[str, Any]]
    printed: Callable[[str], pd.DataFrame]
    models: Mapping[str, Path] = field(default_factory=dict)
    selections: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse scores with a column that is not declared, so that no exhibit can read it."""
        for name in {*WITH_SCORE_COLUMNS} & self.tables.keys():
            order_columns(self.tables[name], "scores")

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    @property
    def task_titles(self) -> dict[str, str]:
        return {task: about["title"] for task, about in self.tasks.items()}

    @property
    def column_titles(self) -> dict[str, str]:
        return {key: t for about in self.tasks.values() for key, t in about["columns"].items()}

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The table of `subtune.analysis.candidates.summary`, which takes a second to make."""
        return summary(self["chosen"], self["row_scores"])

    def on_tasks(self, tasks: Collection[str]) -> "ExperimentResults":
        """Return the results of these tasks; the same results, with their summary, if it is all."""
        if set(tasks) >= self.tasks.keys():
            return self
        return replace(
            self,
            tasks={task: about for task, about in self.tasks.items() if task in tasks},
            tables={
                name: table[table["task"].isin(tasks)] if "task" in table else table
                for name, table in self.tables.items()
            },
        )


EMPTY = "–"
# The text of a diverged run's score.
DIVERGED = "diverged"
# A mark after the name of a method whose scores differ from full fine-tuning's.
MARK = "†"
PREAMBLE = r"% \usepackage[T1]{fontenc} \usepackage{booktabs,graphicx}"
NO_WIDER = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
# The most characters in a line of the terminal.
WIDEST = 100
# Characters with a special meaning in Markdown.
MARKDOWN = r"([\\`*\[<|])"
# Characters that pdfLaTeX does not know.
LATEX = str.maketrans({"−": "$-$", "⌈": r"$\lceil$", "⌉": r"$\rceil$"})


@dataclass(frozen=True)
class Styled:
    """A table for CSV, and its layout in Markdown and LaTeX.

    Attributes:
        table: the table for CSV.
        shown: the table for Markdown and LaTeX; default: the same table.
        bold: whether each cell of a column is bold; other columns are not.
        before: Markdown above the table.
        note: a sentence below the table.
        wide: the columns that wrap in LaTeX, with their shares of the text's width.
    """

    table: pd.DataFrame
    shown: pd.DataFrame | None = None
    bold: pd.DataFrame | None = None
    before: str = ""
    note: str = ""
    wide: Mapping[str, float] = field(default_factory=dict)


def write_table(table: pd.DataFrame | Styled, outputs: Sequence[str | Path]) -> None:
    """Write a table to each output, in the format of its suffix: .csv, .md or .tex."""
    styled = table if isinstance(table, Styled) else Styled(table)
    shown = styled.table if styled.shown is None else styled.shown
    cells = shown.astype(object).where(shown.notna(), EMPTY)
    cells = cells.map(lambda value: f"{value:.5g}" if isinstance(value, float) else str(value))
    bold = pd.DataFrame(index=shown.index) if styled.bold is None else styled.bold
    bold = bold.reindex(columns=shown.columns, fill_value=False)
    for path in map(Path, outputs):
        if path.suffix == ".csv":
            styled.table.to_csv(path, index=False)
        elif path.suffix == ".md":
            # Stars in names must not make text bold, and titles must not become links or pictures.
            escaped = cells.replace(MARKDOWN, r"\\\1", regex=True)
            escaped = escaped.where(~bold, "**" + escaped + "**")
            escaped = escaped.rename(columns=lambda heading: escape_markdown(str(heading)))
            markdown = escaped.to_markdown(index=False, disable_numparse=True)
            parts = [styled.before, markdown, styled.note]
            path.write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")
        else:
            path.write_text(_latex(cells, bold, styled.note, styled.wide), encoding="utf-8")


def escape_markdown(text: str) -> str:
    """Return a text with Markdown's special characters escaped."""
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
        escaped = note.replace("%", r"\%").replace("`", "").replace("_", r"\_")
        lines.append(rf"\par\smallskip{{\footnotesize {escaped}\par}}")
    return "\n".join(lines).translate(LATEX) + "\n"


def wrap_text(text: str) -> list[str]:
    """Wrap a text to the terminal's width; all lines but the first are indented."""
    width = min(WIDEST, shutil.get_terminal_size().columns)
    return textwrap.wrap(text, width, subsequent_indent="    ")


def format_number(value: float, form: str = ".4f", missing: str = EMPTY) -> str:
    """Return a number in a format, or a dash if it is missing."""
    return missing if pd.isna(value) else format(value, form)


def format_interval(low: float, high: float, form: str = "+.4f") -> str:
    """Return the ends of an interval in a format, or a dash if they are missing."""
    return EMPTY if pd.isna(low) else f"{low:{form}} to {high:{form}}"


def format_scores(values: pd.Series) -> str:
    """Return a score as text, or the mean and standard deviation of several seeds.

    The text is *diverged* if a seed has no score, and a dash if there are no seeds.
    """
    if values.empty:
        return EMPTY
    if values.isna().any():
        return DIVERGED
    if len(values) == 1:
        return f"{values.iloc[0]:.4f}"
    return f"{values.mean():.4f} ± {values.std():.4f}"


# Sizes for a figure in a paper's text. PDF files hold whole TrueType fonts.
SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "figure.titlesize": 8,
    "figure.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "lines.linewidth": 1,
    "pdf.fonttype": 42,
}
DOTS_PER_INCH = 220
# The width of a figure in inches, and of a narrow one.
WIDTH, NARROW = 6.3, 3.15
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^v<>P*X"


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(SETTINGS)
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", outputs: Sequence[str | Path]) -> None:
    """Write a figure to each output, in the format of its suffix, without a time stamp."""
    for path in map(Path, outputs):
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)
        # Further formats keep the layout of the first.
        figure.set_layout_engine(None)


def new_panels(
    count: int, width: float, height_of_panel: float, most_columns: int = 4
) -> "tuple[Figure, list[Axes]]":
    """Return a figure and its panels.

    Args:
        count: the number of panels.
        width: the figure's width in inches.
        height_of_panel: a panel's height as a share of its width.
        most_columns: the maximum number of panels in a row.
    """
    # Rows have four panels, or three if that leaves fewer empty.
    columns = min(4, count)
    if count > 4:
        columns = min((4, 3), key=lambda width: -count % width)
    columns = min(columns, most_columns)
    rows = math.ceil(count / columns)
    height = 0.8 + rows * height_of_panel * width / columns * 1.2
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[count:]:
        spare.remove()
    return figure, list(axes[:count])


def empty_figure() -> "Figure":
    """Return a figure that says why it is empty."""
    figure = new_figure(WIDTH, 1)
    figure.suptitle("every run diverged: there is nothing to draw")
    return figure


def name_panel(
    panel: "Axes", title: str, metric: str, model: str | None = None, grid: str = "0.9"
) -> None:
    """Write a panel's title, with its model if one is given, and its metric. Draw its grid."""
    panel.set_title(f"{title} ({model})" if model else title)
    panel.set_ylabel(TITLES[metric], fontsize=7)
    panel.grid(color=grid)
    panel.tick_params(labelsize=6)


def format_rate(learning_rate: float | None) -> str | None:
    """Return a learning rate as the papers write it: 7e-4."""
    if pd.isna(learning_rate):
        return None
    mantissa, _, exponent = f"{learning_rate:.3e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
