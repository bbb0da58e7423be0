"""Hold the results of an experiment, and declare, format and write tables and figures."""

import math
import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from subtune.analysis.candidates import summarise_methods
from subtune.core.errors import SubtuneError, format_allowed
from subtune.tasks.sentences import parse_number

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes


# Columns with texts from data, which may look like formulas.
WITH_TEXTS = ["text", "second text", "label", "prediction"]


@dataclass(frozen=True)
class ExperimentResults:
    """Tables of an experiment's results, and descriptions of its tasks from the configuration.

    Attributes:
        tables: maps names to tables: `subtune.steps.scores.SCORE_TABLES`,
            `subtune.papers.paper.INFORMATION`, ``train_scores``, ``test_scores``, ``claims`` and
            ``reproduction``, if the experiment has them. ``chosen`` contains the runs on the
            largest training set; ``sizes`` contains the runs on all training set sizes, with their
            scores in all metrics.
        tasks: maps each task's name to a mapping with its ``title``, the titles of its ``columns``
            and ``metrics``, its splits for ``evaluation``, and a description of the ``source`` of
            its data.
        printed: returns the paper's table with a given name.
        models: maps the names of models to their directories.
        selections: maps each method's name to its selection as canonical JSON.
    """

    tables: Mapping[str, pd.DataFrame]
    tasks: Mapping[str, Mapping[str, Any]]
    printed: Callable[[str], pd.DataFrame]
    models: Mapping[str, Path] = field(default_factory=dict)
    selections: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self.tables:
            raise SubtuneError(f"results: {format_allowed(name, self.tables)}")
        return self.tables[name]

    @property
    def task_titles(self) -> dict[str, str]:
        return {task: about["title"] for task, about in self.tasks.items()}

    @property
    def column_titles(self) -> dict[str, str]:
        return {key: t for about in self.tasks.values() for key, t in about["columns"].items()}

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The table from `summarise_methods`, cached because computing it takes a second."""
        return summarise_methods(self["chosen"], self["row_scores"])

    def select_columns(self, columns: Collection[str]) -> "ExperimentResults":
        """Select the results in some score columns, and the other results of their tasks.

        If all columns are selected, ``self`` is returned, with its cached summary.
        """
        if set(columns) >= self.column_titles.keys():
            return self
        tasks = dict[str, Mapping[str, Any]]()
        for task, about in self.tasks.items():
            titles = {key: title for key, title in about["columns"].items() if key in columns}
            if titles:
                tasks[task] = {**about, "columns": titles}
        tables = dict(self.tables)
        for key, values in {"task": tasks, "column": columns}.items():
            for name, table in tables.items():
                if key in table:
                    tables[name] = table[table[key].isin([*values])]
        return replace(self, tasks=tasks, tables=tables)


@dataclass(frozen=True)
class Needs:
    """The results that a table or figure needs.

    Attributes:
        methods: the methods that must have been trained.
        questions: the minimum number of combinations of a model and a task.
        fractions: whether masked runs are needed.
        tables: names of tables in `ExperimentResults` that only some experiments have. A figure
            that needs ``parameter_changes`` shows exactly one method and one task.
    """

    methods: tuple[str, ...] = ()
    seeds: int = 1
    questions: int = 1
    fractions: bool = False
    tables: tuple[str, ...] = ()

    def are_met(self, results: ExperimentResults) -> bool:
        """Return whether the results contain everything needed. Diverged runs are counted."""
        chosen = results["chosen"]
        return (
            {*self.methods} <= {*chosen["method"]}
            and {*self.tables} <= results.tables.keys()
            and self.seeds <= chosen["seed"].nunique()
            and self.questions <= len(chosen[["model", "task"]].drop_duplicates())
            and not (self.fractions and chosen["scope"].isna().all())
        )


@dataclass(frozen=True)
class Table:
    """A table, written as CSV, Markdown and LaTeX.

    Attributes:
        name: the stem of the file names. ``table2`` is shown as Table 2.
        make: takes `ExperimentResults`, and returns a data frame or a `StyledTable` or, for a
            `Figure`, a matplotlib figure.
        needs: the required results. If any of them is missing, the table is left out.
        tasks: the tasks to show. By default, a paper's tables and figures show all tasks except
            `Paper.tasks_apart`; other tables and figures show all tasks.
    """

    name: str
    title: str
    caption: str
    make: Callable[..., Any]
    needs: Needs = Needs()
    tasks: tuple[str, ...] = ()
    endings: ClassVar[tuple[str, ...]] = ("csv", "md", "tex")


@dataclass(frozen=True)
class Figure(Table):
    """A figure, drawn as PNG and PDF."""

    endings: ClassVar[tuple[str, ...]] = ("png", "pdf")


EMPTY = "–"
# Shown as the score of a diverged run, and the sentence of captions that explains it.
DIVERGED = "diverged"
DIVERGED_CAPTION = (
    "A method is listed as diverged if, at every learning rate, the loss or a prediction of at "
    "least one seed was not finite."
)
# Marks a method whose scores differ significantly from full fine-tuning.
MARK = "†"
PREAMBLE = r"% \usepackage[T1]{fontenc} \usepackage{booktabs,graphicx}"
NO_WIDER = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
# Lines in the terminal have at most this many characters.
LONGEST_LINE = 100
# Special characters in Markdown.
MARKDOWN_CHARACTERS = r"([\\`*\[<|])"
# Replacements for characters that pdfLaTeX does not support.
LATEX = str.maketrans(
    {"−": "$-$", "⌈": r"$\lceil$", "⌉": r"$\rceil$"}
    | {"α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\varepsilon$"}
)
# Replacements for characters with a meaning in LaTeX.
LATEX_SPECIAL = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


@dataclass(frozen=True)
class StyledTable:
    """A table to write as CSV, Markdown and LaTeX, with its style.

    Attributes:
        shown: the table that is written as Markdown and LaTeX; default: ``table``.
        bold: whether each cell is bold. Columns that ``bold`` lacks are not bold.
        before: Markdown text above the table.
        note: a sentence below the table.
        wide: maps columns whose text is wrapped in the LaTeX table to their widths, as fractions of
            the text width.
    """

    table: pd.DataFrame
    shown: pd.DataFrame | None = None
    bold: pd.DataFrame = field(default_factory=pd.DataFrame)
    before: str = ""
    note: str = ""
    wide: Mapping[str, float] = field(default_factory=dict)


def write_table(table: pd.DataFrame | StyledTable, outputs: Sequence[str | Path]) -> pd.DataFrame:
    """Write a table to files, in the formats of their suffixes: .csv, .md or .tex.

    The cells that are shown in Markdown and LaTeX are returned as strings.
    """
    styled = table if isinstance(table, StyledTable) else StyledTable(table)
    shown = styled.table if styled.shown is None else styled.shown
    cells = shown.astype(object).where(shown.notna(), EMPTY)
    cells = cells.map(lambda value: f"{value:.5g}" if isinstance(value, float) else str(value))
    bold = styled.bold.reindex(index=cells.index, columns=cells.columns, fill_value=False)
    for path in map(Path, outputs):
        if path.suffix == ".csv":
            texts = styled.table.filter(items=WITH_TEXTS).map(_neutralise_formula)
            styled.table.assign(**texts).to_csv(path, index=False)
        elif path.suffix == ".md":
            # Without escapes, stars in names would be read as bold text, and brackets as links.
            escaped = cells.replace(MARKDOWN_CHARACTERS, r"\\\1", regex=True)
            escaped = escaped.where(~bold, "**" + escaped + "**")
            escaped = escaped.rename(columns=lambda heading: escape_markdown(str(heading)))
            markdown = escaped.to_markdown(index=False, disable_numparse=True)
            parts = [styled.before, markdown, styled.note]
            path.write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")
        else:
            path.write_text(_format_latex(cells, bold, styled.note, styled.wide), encoding="utf-8")
    return cells


def _neutralise_formula(cell: Any) -> Any:
    """Prepend an apostrophe to a string that a spreadsheet would compute, as OWASP recommends."""
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula and parse_number(cell) is None else cell


def escape_markdown(text: str) -> str:
    """Escape the special characters of Markdown."""
    return re.sub(MARKDOWN_CHARACTERS, r"\\\1", text)


def _format_latex(
    table: pd.DataFrame, bold: pd.DataFrame, note: str, wide: Mapping[str, float]
) -> str:
    """Format a table as a ``tabular`` with booktabs. If it is too wide, graphicx scales it down."""
    latex = table.style.hide(axis="index").format(escape="latex")
    latex = latex.format_index(escape="latex", axis="columns")
    styles = bold.map(lambda is_bold: "textbf:--rwrap" if is_bold else "")
    latex = latex.apply(lambda _: styles, axis=None)
    columns = "".join(rf"p{{{wide[name]:g}\textwidth}}" if name in wide else "l" for name in table)
    lines = [PREAMBLE, rf"\resizebox{{{NO_WIDER}}}{{!}}{{%"]
    lines.append(latex.to_latex(hrules=True, column_format=columns).strip() + "}")
    if note:
        escaped = note.replace("`", "").translate(LATEX_SPECIAL)
        lines.append(rf"\par\smallskip{{\footnotesize {escaped}\par}}")
    return "\n".join(lines).translate(LATEX) + "\n"


def wrap_text(text: str) -> list[str]:
    """Wrap a text to the width of the terminal, and indent all lines except the first."""
    width = min(LONGEST_LINE, shutil.get_terminal_size().columns)
    return textwrap.wrap(text, width, subsequent_indent="    ")


def format_number(value: float, form: str = ".4f", missing: str = EMPTY) -> str:
    """Format a number, or return ``missing`` for NaN."""
    return missing if pd.isna(value) else format(value, form)


def format_interval(low: float, high: float, form: str = "+.4f") -> str:
    """Format the ends of an interval, or return a dash for NaN."""
    return EMPTY if pd.isna(low) else f"{low:{form}} to {high:{form}}"


def format_rate(learning_rate: float) -> str:
    """Format a learning rate as in papers, such as ``7e-4``, or return a dash for NaN."""
    if pd.isna(learning_rate):
        return EMPTY
    mantissa, _, exponent = f"{learning_rate:.3e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def format_with_unit(number: float, units: Sequence[str]) -> str:
    """Format a number with the largest of ``units`` that it reaches; each is 1,000 of the last."""
    for unit in units[:-1]:
        if number < 1000:
            return f"{number:.3g} {unit}".rstrip()
        number /= 1000
    return f"{number:.3g} {units[-1]}"


def format_scores(values: pd.Series, scale: float = 1) -> str:
    """Format the mean and standard deviation over seeds, or ``diverged`` if a seed diverged."""
    if values.empty:
        return EMPTY
    if values.isna().any():
        return DIVERGED
    numbers = [values.mean(), values.std()][: len(values)]
    return " ± ".join(f"{scale * number:.{4 if scale == 1 else 2}f}" for number in numbers)


# The font sizes fit the text of a paper. Font type 42 embeds TrueType fonts in PDF files.
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
# The widths of a figure and of a narrow figure, in inches.
WIDTH, NARROW = 6.3, 3.15
# The palette of Okabe and Ito, whose colours colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^v<>P*X"


def new_figure(width: float, height: float) -> "matplotlib.figure.Figure":
    """Create an empty figure. The size is in inches."""
    import matplotlib.figure

    matplotlib.rcParams.update(SETTINGS)
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "matplotlib.figure.Figure", outputs: Sequence[str | Path]) -> None:
    """Write a figure to files, in the formats of their suffixes, without a time stamp."""
    for path in map(Path, outputs):
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)
        # All files must have the layout that was computed for the first format.
        figure.set_layout_engine(None)


def new_panels(
    count: int, width: float, height_of_panel: float, most_columns: int = 4
) -> "tuple[matplotlib.figure.Figure, list[Axes]]":
    """Create a figure with a grid of panels. ``width`` is in inches."""
    # A row has four panels, or three if this leaves fewer cells of the grid empty.
    columns = min(count, most_columns, min((4, 3), key=lambda columns: -count % columns))
    rows = math.ceil(count / columns)
    height = 0.8 + rows * height_of_panel * width / columns * 1.2
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[count:]:
        spare.remove()
    return figure, list(axes[:count])


def empty_figure() -> "matplotlib.figure.Figure":
    """Create a figure that only states why there is nothing to draw."""
    figure = new_figure(WIDTH, 1)
    figure.suptitle("All runs diverged, so there is nothing to draw.")
    return figure
