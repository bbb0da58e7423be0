"""Tables as someone has them, before it is known which columns matter."""

from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.init.defaults import DEFAULTS
from subtune.tasks.formats.delimited import DIVIDERS
from subtune.tasks.formats.paths import is_directory, is_file
from subtune.tasks.sentences import FORMATS, rows_of


class Table(NamedTuple):
    """A file's columns in order, and its rows by column, each with its line."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[int, dict[str, Any]]]

    def cells(self, column: str) -> list[Any]:
        """A column from top to bottom; None where a row has no such cell."""
        return [row.get(column) for _, row in self.rows]


def read(option: str, path: Path) -> Table:
    """Read a whole file.

    Args:
        option: of the command line, which an error message begins with.

    Raises:
        SubtuneError: the file is not there, cannot be read as what its ending says, or has no rows.
    """
    if is_directory(path):
        raise SubtuneError(f"{option}: found the directory {str(path)!r}, expected a file")
    if not is_file(path):
        raise SubtuneError(f"{option}: found no file {str(path)!r}")
    if path.suffix not in FORMATS:
        expected = one_of(path.suffix, FORMATS)
        raise SubtuneError(f"{option}: {expected} as the ending of {path}")
    try:
        # Quotation marks that nothing closes are looked for once it is known what labels are.
        rows = list(rows_of(path, (), is_row=lambda cells: False))
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise SubtuneError(f"{path}: {reason}, expected a file to read") from None
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    columns = dict.fromkeys(column for _, row in rows for column in row)
    divided = [sign for sign in DIVIDERS if sign in next(iter(columns), "")]
    if len(columns) == 1 and divided:
        raise SubtuneError(
            f"{path}: found no column but {cut(next(iter(columns)))!r}, expected cells with ',' "
            "between them in .csv, and tabs in .tsv"
        )
    return Table(path, tuple(columns), rows)


def require_column(option: str, table: Table, column: str) -> None:
    """Check that a table has a column.

    Raises:
        SubtuneError: it has not.
    """
    if column not in table.columns:
        expected = one_of(column, table.columns)
        raise SubtuneError(f"{option}: no such column in {table.path}: {expected}")


def label_column(table: Table) -> str:
    """The column that is called as columns of labels are.

    Raises:
        SubtuneError: there is none.
    """
    by_folded = {column.strip().casefold(): column for column in reversed(table.columns)}
    for name in DEFAULTS.label_columns:
        if name in by_folded:
            return by_folded[name]
    names = ", ".join(DEFAULTS.label_columns)
    raise SubtuneError(
        f"--label: missing, and no column of {table.path} is called {names}; expected one of "
        f"{listed(table.columns)}"
    )


def text_columns(table: Table, label: str) -> tuple[str, ...]:
    """The one or two columns that hold sentences, without that of the label.

    Raises:
        SubtuneError: there are none, or more.
    """
    others = [column for column in table.columns if column != label]
    texts = [column for column in others if _holds_sentences(table.cells(column))]
    words = [column for column in others if _holds_words(table.cells(column))]
    # Titles and names are read too, where nothing else is.
    columns = texts or words
    if len(columns) in (1, 2):
        return tuple(columns)
    if not others:
        raise SubtuneError(
            f"--text: {table.path} has no column beside that of the label, {label!r}"
        )
    several = f"several may be the text ({listed(columns)})" if columns else "none holds text"
    raise SubtuneError(
        f"--text: missing, and of the columns of {table.path} {several}; expected one of "
        f"{listed(others)}, and a second one as --text2 where texts are pairs"
    )


def _holds_sentences(cells: list[Any]) -> bool:
    """Whether a column has several words in a cell, and seldom the same ones."""
    words = sum(len(str(cell).split()) for cell in cells)
    is_varied = len(set(map(str, cells))) >= DEFAULTS.text_distinct * len(cells)
    return _holds_words(cells) and is_varied and words >= DEFAULTS.text_words * len(cells)


def _holds_words(cells: list[Any]) -> bool:
    """Whether a column has text in it; a cell without any is refused later, with its line."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    return 2 * len(texts) > len(cells) and not all(map(is_number, texts))


def is_number(text: str) -> bool:
    """Whether a text is a number, or says that it is none."""
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True
