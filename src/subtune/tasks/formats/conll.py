"""Sentences of CoNLL files: a line per word, a blank line after each sentence.

CoNLL-U is as https://universaldependencies.org/format.html has it.
"""

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.text import shown

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# A line of this word stands between two documents.
DOCUMENT = "-DOCSTART-"


def sentences(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the place of its first word.

    A file whose name ends in ``.conllu`` has the columns of `CONLLU` between tabs, comments that
    begin with ``#``, and lines that are no words, whose id holds ``-`` or ``.``. In other files
    the columns are called ``1``, ``2``, …, and stand between tabs where the first line has one,
    and between spaces where it has none.

    Args:
        path: a UTF-8 file.
        columns: those that are read.

    Raises:
        SubtuneError: the file is not UTF-8, has no sentences or no such column, a line has more or
            fewer columns than the others, a word's id is not its number in the sentence, or a cell
            that is read is empty.
    """
    lines = text.read(path).split("\n")
    is_conllu = path.suffix == ".conllu"
    word_lines = _word_lines_of_conllu(path, lines) if is_conllu else _word_lines(path, lines)
    names = CONLLU if is_conllu else None
    sentence: list[list[str]] = []
    numbers: list[int] = []
    empty = True
    for number, cells in chain(word_lines, [(len(lines) + 1, [])]):
        if cells:
            sentence.append(cells)
            numbers.append(number)
        elif sentence:
            if empty:
                index_of = _index_of(path, columns, names or _numbered(len(sentence[0])))
                empty = False
            if is_conllu:
                _require_ids(path, sentence, numbers)
            by_column = {
                column: [cells[index] for cells in sentence] for column, index in index_of.items()
            }
            for column, column_cells in by_column.items():
                _require_texts(path, column, column_cells, numbers)
            yield f"line {numbers[0]}", by_column
            sentence, numbers = [], []
    if empty:
        raise SubtuneError(f"{path}: found no sentences, expected at least one")


def _word_lines_of_conllu(path: Path, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of lines that are words, with the lines' numbers; none for a blank line."""
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            yield number, []
        elif line[0] != "#":
            cells = line.removesuffix("\r").split("\t")
            if len(cells) != len(CONLLU):
                raise SubtuneError(
                    f"{path}: line {number}: found {len(cells)} columns, expected {len(CONLLU)}, "
                    f"separated by tabs ({', '.join(CONLLU)})"
                )
            if not ("-" in cells[0] or "." in cells[0]):
                yield number, cells


def _word_lines(path: Path, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of word lines with the lines' numbers; none where a sentence ends."""
    width, first, separator = 0, 0, ""
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            yield number, []
            continue
        line = line.removesuffix("\r")
        separator = separator or ("\t" if "\t" in line else " ")
        if separator == "\t":
            cells = line.split("\t")
        else:
            cells = [cell for cell in line.replace("\t", " ").split(" ") if cell]
        if cells[0] == DOCUMENT:
            yield number, []
            continue
        if not width:
            width, first = len(cells), number
        if len(cells) != width:
            between = "tabs" if separator == "\t" else "spaces"
            raise SubtuneError(
                f"{path}: line {number}: found {len(cells)} columns, expected {width}, "
                f"separated by {between}, as in line {first}"
            )
        yield number, cells


def _numbered(width: int) -> list[str]:
    return [str(number) for number in range(1, width + 1)]


def _index_of(path: Path, columns: Collection[str], names: Collection[str]) -> dict[str, int]:
    for column in columns:
        if column not in names:
            raise SubtuneError(f"{path}: no such column: {one_of(column, names)}")
    return {column: list(names).index(column) for column in columns}


def _require_ids(path: Path, sentence: list[list[str]], numbers: list[int]) -> None:
    """Refuse words that are not counted from 1: a line is missing."""
    for expected, (cells, number) in enumerate(zip(sentence, numbers, strict=True), start=1):
        if cells[0] != str(expected):
            raise SubtuneError(
                f"{path}: line {number}: found the id {shown(cells[0])}, expected {expected}; "
                "words are counted from 1, and a blank line ends a sentence"
            )


def _require_texts(path: Path, column: str, cells: list[str], numbers: list[int]) -> None:
    for cell, number in zip(cells, numbers, strict=True):
        if not cell or cell.isspace():
            raise SubtuneError(
                f"{path}: line {number}: column {column!r}: found {cell!r}, expected text"
            )
