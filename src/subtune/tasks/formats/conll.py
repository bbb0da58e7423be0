"""Sentences of CoNLL files: a line per word, a blank line after each sentence.

CoNLL-U is as https://universaldependencies.org/format.html has it.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.text import shown

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# A line of this word stands between two documents.
DOCUMENT = "-DOCSTART-"


def sentences(
    path: Path, columns: Collection[str], encoding: str | None = None
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the place of its first word.

    A file whose name ends in ``.conllu`` has the columns of `CONLLU` between tabs, comments that
    begin with ``#``, and lines that are no words, whose id holds ``-`` or ``.``. In other files
    the columns are called ``1``, ``2``, …, and stand between tabs where the first line has one,
    and between spaces where it has none. `text.read` explains ``encoding``.

    Raises:
        SubtuneError: the file cannot be read or has no such column, a line has more or fewer
            columns than the others, a word's id is not its number in the sentence, or a cell that
            is read is empty.
    """
    is_conllu = path.suffix == ".conllu"
    sentence: list[tuple[int, list[str]]] = []
    for number, cells in _word_lines(path, encoding, is_conllu):
        if cells:
            sentence.append((number, cells))
        elif sentence:
            yield f"line {sentence[0][0]}", _by_column(path, columns, sentence, is_conllu)
            sentence = []


def _word_lines(
    path: Path, encoding: str | None, is_conllu: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each word's line; no cells where a sentence ends."""
    lines = text.read(path, encoding).split("\n")
    separator, width, like = "", 0, ""
    if is_conllu:
        separator, width, like = "\t", len(CONLLU), f" ({', '.join(CONLLU)})"
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if is_conllu and line.startswith("#"):
            continue
        separator = separator or ("\t" if "\t" in line else " " if line.strip() else "")
        if separator == "\t":
            cells = line.split("\t")
        else:
            cells = [cell for cell in line.replace("\t", " ").split(" ") if cell]
        if not line.strip() or (cells[0] == DOCUMENT and not is_conllu):
            yield number, []
            continue
        if not width:
            width, like = len(cells), f", as in line {number}"
        if len(cells) != width:
            between = "tabs" if separator == "\t" else "spaces"
            raise SubtuneError(
                f"{path}: line {number}: found {len(cells)} columns, expected {width}, "
                f"separated by {between}{like}"
            )
        if not is_conllu or not ("-" in cells[0] or "." in cells[0]):
            yield number, cells
    yield len(lines) + 1, []


def _by_column(
    path: Path, columns: Collection[str], sentence: list[tuple[int, list[str]]], is_conllu: bool
) -> dict[str, list[str]]:
    """Return a sentence's cells by column, from the number and the cells of each line."""
    names = CONLLU if is_conllu else [str(n) for n in range(1, len(sentence[0][1]) + 1)]
    for expected, (number, cells) in enumerate(sentence, start=1):
        if is_conllu and cells[0] != str(expected):
            raise SubtuneError(
                f"{path}: line {number}: found the id {shown(cells[0])}, expected {expected}; "
                "words are counted from 1, and a blank line ends a sentence"
            )
    by_column = {}
    for column in columns:
        if column not in names:
            raise SubtuneError(f"{path}: no such column: {one_of(column, names)}")
        index = names.index(column)
        for number, cells in sentence:
            if not cells[index].strip():
                raise SubtuneError(
                    f"{path}: line {number}: column {column!r}: found {cells[index]!r}, expected "
                    "text"
                )
        by_column[column] = [cells[index] for _, cells in sentence]
    return by_column
