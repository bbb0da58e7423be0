"""The Penn Treebank's parsed files (Marcus et al. 1993): sentences as trees in brackets."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.paths import is_directory
from subtune.tasks.formats.text import shown

COLUMNS = ("form", "xpos")
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


def paths(directory: Path) -> dict[str, list[Path]]:
    """Return the files of each split of the Wall Street Journal part, in their order.

    Args:
        directory: the disc's root, or one below it, down to that of the sections ``00`` to ``24``.

    Raises:
        SubtuneError: the directory is not there, or lacks a section.
    """
    if not is_directory(directory):
        raise SubtuneError(f"found no directory {str(directory)!r}, expected the Penn Treebank's")
    numbers = [number for sections in SECTIONS.values() for number in sections]
    by_root = {
        root: {number: _files(root / f"{number:02}") for number in numbers}
        for root in (directory / folder for folder in FOLDERS)
    }
    root, by_section = max(by_root.items(), key=lambda item: sum(map(bool, item[1].values())))
    missing = [f"{number:02}" for number in numbers if not by_section[number]]
    if len(missing) == len(numbers):
        raise SubtuneError(
            f"{directory}: found no sections of the Wall Street Journal, expected folders 00 to 24 "
            "with .mrg files in it or in its parsed/mrg/wsj"
        )
    if missing:
        raise SubtuneError(
            f"{root}: found no .mrg files of section{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}, expected those of 00 to 24"
        )
    return {
        split: [path for number in sections for path in by_section[number]]
        for split, sections in SECTIONS.items()
    }


def _files(folder: Path) -> list[Path]:
    if not is_directory(folder):
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() == ".mrg")


def sentences(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the line on which its tree begins.

    ``form`` has the words and ``xpos`` their tags, as they stand in the file, which writes a
    bracket as ``-LRB-``. Leaves that are no words are left out, and so are sentences of nothing
    else.

    Args:
        path: a UTF-8 file.
        columns: those that are read, of `COLUMNS`.

    Raises:
        SubtuneError: the file is not UTF-8, has no such column, no words, or brackets that do not
            match.
    """
    for column in columns:
        if column not in COLUMNS:
            raise SubtuneError(f"{path}: no such column: {one_of(column, COLUMNS)}")
    empty = True
    for line, tags, words in _trees(path, text.read(path)):
        if words:
            empty = False
            by_column = {"form": words, "xpos": tags}
            yield f"line {line}", {column: by_column[column] for column in columns}
    if empty:
        raise SubtuneError(f"{path}: found no sentences, expected at least one")


def _trees(path: Path, content: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the line on which each tree begins, and the tags and words of its leaves."""
    # Lines are counted from where the last tree began.
    line, counted, depth = 1, 0, 0
    tags: list[str] = []
    words: list[str] = []
    previous = None

    for token in TOKEN.finditer(content):
        kind = token.lastgroup
        if depth == 0 and kind in ("leaf", "opening"):
            line += content.count("\n", counted, token.start())
            counted = token.start()
        if kind == "leaf":
            if token["tag"] != NO_WORD:
                tags.append(token["tag"])
                words.append(token["word"])
        elif kind == "opening":
            if depth and not token["label"]:
                raise _error(
                    path,
                    token,
                    "found the beginning of a tree, expected a ')' for every '(' of the tree that "
                    f"begins in line {line}",
                )
            depth += 1
        elif kind == "stray":
            raise _error(path, token, f"found {shown(token[0])}, expected words as (TAG word)")
        elif depth == 0:
            raise _error(path, token, "found a ')' too many, expected one for every '('")
        elif previous == "opening":
            raise _error(path, token, "found brackets without a word, expected words as (TAG word)")
        else:
            depth -= 1
        if depth == 0:
            yield line, tags, words
            tags, words = [], []
        previous = kind
    if depth:
        raise SubtuneError(
            f"{path}: line {line}: found a tree that does not end, expected a ')' for every '('"
        )


def _error(path: Path, token: re.Match[str], problem: str) -> SubtuneError:
    line = token.string.count("\n", 0, token.start()) + 1
    return SubtuneError(f"{path}: line {line}: {problem}")
