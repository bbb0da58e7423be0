"""Sentences with a label per word: CoNLL files, and the Penn Treebank's parsed ones."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.text import shown

CONLLU = ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"]
# A line of this word stands between two documents.
DOCUMENT = "-DOCSTART-"
# Sections of the Wall Street Journal part, as part-of-speech taggers split them (Collins 2002,
# Section 5; Toutanova et al. 2003, Section 3).
SECTIONS = {"train": range(0, 19), "validation": range(19, 22), "test": range(22, 25)}
# Folders of the sections, below a directory that a user names.
FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "treebank_3/parsed/mrg/wsj")
# The tag that marks words which were moved or left out.
NO_WORD = "-NONE-"
# A leaf with its tag and word, a bracket that opens and its label, one that closes, or a word that
# stands where none may.
TOKEN = re.compile(
    r"(?P<leaf>\(\s*(?P<tag>[^\s()]+)\s+(?P<word>[^\s()]+)\s*\))"
    r"|(?P<opening>\(\s*(?P<label>[^\s()]*))|(?P<closing>\))|(?P<stray>[^\s()]+)"
)


def conll_sentences(
    path: Path, columns: Collection[str], encoding: str | None = None
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the place of its first word.

    A word has a line, and a blank line ends a sentence. A file whose name ends in ``.conllu`` is
    as https://universaldependencies.org/format.html has it: the columns of `CONLLU` between tabs,
    comments that begin with ``#``, and lines that are no words, whose id holds ``-`` or ``.``. In
    other files the columns are called ``1``, ``2``, …, and stand between tabs where the first line
    has one, and between spaces where it has none. `text.read` explains ``encoding``.

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


def treebank_paths(directory: Path, key: str) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split of the Wall Street Journal part, in their order.

    The directory is the disc's root, or one below it, down to that of the sections ``00`` to
    ``24``. An error message begins with ``key``.

    Raises:
        SubtuneError: a section is not there.
    """
    folders = (directory / folder for folder in FOLDERS)
    root = next((folder for folder in folders if (folder / "00").is_dir()), directory)
    by_section = {
        section: sorted((root / f"{section:02}").glob("*.[mM][rR][gG]")) for section in range(25)
    }
    if missing := [f"{section:02}" for section, files in by_section.items() if not files]:
        raise SubtuneError(
            f"{key}: {root}: found no .mrg files of section {', '.join(missing)}, expected those "
            "of the Wall Street Journal, 00 to 24, in it or in its parsed/mrg/wsj"
        )
    return {
        split: tuple(path for section in sections for path in by_section[section])
        for split, sections in SECTIONS.items()
    }


def treebank_sentences(
    path: Path, columns: Collection[str]
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the line on which its tree begins.

    A file has trees in brackets (Marcus et al. 1993). ``form`` has the words and ``xpos`` their
    tags, as they stand in the file, which writes a bracket as ``-LRB-``. Leaves that are no words
    are left out, and so are sentences of nothing else.

    Raises:
        SubtuneError: the file is not UTF-8, or has brackets that do not match.
    """
    content = text.read(path)
    line, depth = 0, 0
    for token in TOKEN.finditer(content):
        if depth == 0:
            line = _line_of(content, token)
            by_column: dict[str, list[str]] = {"form": [], "xpos": []}
        kind = token.lastgroup
        if kind == "leaf" and token["tag"] != NO_WORD:
            by_column["form"].append(token["word"])
            by_column["xpos"].append(token["tag"])
        depth += {"opening": 1, "closing": -1}.get(str(kind), 0)
        nested = kind == "opening" and depth > 1 and not token["label"]
        if kind == "stray" or depth < 0 or nested:
            raise SubtuneError(
                f"{path}: line {_line_of(content, token)}: found {shown(token[0])}, expected words "
                f"as (TAG word), and a ')' for every '(' of the tree that begins in line {line}"
            )
        if depth == 0 and by_column["form"]:
            yield f"line {line}", {column: by_column[column] for column in columns}
    if depth:
        raise SubtuneError(
            f"{path}: line {line}: found a tree that does not end, expected a ')' for every '('"
        )


def _line_of(content: str, token: re.Match) -> int:
    return content.count("\n", 0, token.start()) + 1
