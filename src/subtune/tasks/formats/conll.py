"""Sentences of CoNLL files: a line per word, a blank line after each sentence.

CoNLL-U is as https://universaldependencies.org/format.html has it.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.text import shown

CONLLU = ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"]
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
    names, between, like = [], "", ""
    if is_conllu:
        names, between, like = CONLLU, "tabs", f" ({', '.join(CONLLU)})"
    # The first line of a sentence, and the cells of each word.
    first, words = 0, list[list[str]]()
    for number, line in enumerate([*text.read(path, encoding).split("\n"), ""], start=1):
        line, place = line.removesuffix("\r"), f"{path}: line {number}"
        if is_conllu and line.startswith("#"):
            continue
        between = between or ("tabs" if "\t" in line else "spaces" if line.strip() else "")
        cells = line.split("\t") if between == "tabs" else re.findall("[^ \t]+", line)
        if not line.strip() or (cells[0] == DOCUMENT and not is_conllu):
            if words:
                by_name = dict(zip(names, zip(*words, strict=True), strict=True))
                yield f"line {first}", {column: [*by_name[column]] for column in columns}
            words = []
            continue
        if not names:
            names, like = [str(n + 1) for n in range(len(cells))], f", as in line {number}"
        if len(cells) != len(names):
            raise SubtuneError(
                f"{place}: found {len(cells)} columns, expected {len(names)}, separated by "
                f"{between}{like}"
            )
        if is_conllu and ("-" in cells[0] or "." in cells[0]):
            continue
        if is_conllu and cells[0] != str(len(words) + 1):
            raise SubtuneError(
                f"{place}: found the id {shown(cells[0])}, expected {len(words) + 1}; words are "
                "counted from 1, and a blank line ends a sentence"
            )
        for column in columns:
            if column not in names:
                raise SubtuneError(f"{path}: no such column: {one_of(column, names)}")
            if not (cell := cells[names.index(column)]).strip():
                raise SubtuneError(f"{place}: column {column!r}: found {cell!r}, expected text")
        first = first if words else number
        words.append(cells)
