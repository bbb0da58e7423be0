"""The Penn Treebank's parsed files (Marcus et al. 1993): sentences as trees in brackets."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import text
from subtune.tasks.formats.text import shown

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


def paths(directory: Path, key: str) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split of the Wall Street Journal part, in their order.

    The directory is the disc's root, or one below it, down to that of the sections ``00`` to
    ``24``. An error message begins with ``key``.

    Raises:
        SubtuneError: the directory has no such sections, or lacks one.
    """
    roots = [directory / folder for folder in FOLDERS if (directory / folder / "00").is_dir()]
    if not roots:
        raise SubtuneError(
            f"{key}: {directory}: found no sections of the Wall Street Journal, expected folders "
            "00 to 24 with .mrg files in it or in its parsed/mrg/wsj"
        )
    by_split = {}
    for split, sections in SECTIONS.items():
        by_section = {f"{number:02}": _files(roots[0] / f"{number:02}") for number in sections}
        if missing := [section for section, files in by_section.items() if not files]:
            raise SubtuneError(
                f"{key}: {roots[0]}: found no .mrg files of section {', '.join(missing)}, expected "
                "those of 00 to 24"
            )
        by_split[split] = tuple(path for files in by_section.values() for path in files)
    return by_split


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix.lower() == ".mrg")


def sentences(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the line on which its tree begins.

    ``form`` has the words and ``xpos`` their tags, as they stand in the file, which writes a
    bracket as ``-LRB-``. Leaves that are no words are left out, and so are sentences of nothing
    else.

    Raises:
        SubtuneError: the file is not UTF-8, or has brackets that do not match.
    """
    for line, tags, words in _trees(path, text.read(path)):
        if words:
            by_column = {"form": words, "xpos": tags}
            yield f"line {line}", {column: by_column[column] for column in columns}


def _trees(path: Path, content: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the line on which each tree begins, and the tags and words of its leaves."""
    # Lines are counted from where the last tree began.
    line, counted, depth = 1, 0, 0
    tags: list[str] = []
    words: list[str] = []
    for token in TOKEN.finditer(content):
        kind = token.lastgroup
        if depth == 0:
            line += content.count("\n", counted, token.start())
            counted = token.start()
        if kind == "leaf" and token["tag"] != NO_WORD:
            tags.append(token["tag"])
            words.append(token["word"])
        depth += {"opening": 1, "closing": -1}.get(str(kind), 0)
        nested = kind == "opening" and depth > 1 and not token["label"]
        if kind == "stray" or depth < 0 or nested:
            place = f"{path}: line {content.count(chr(10), 0, token.start()) + 1}"
            raise SubtuneError(
                f"{place}: found {shown(token[0])}, expected words as (TAG word), and a ')' for "
                f"every '(' of the tree that begins in line {line}"
            )
        if depth == 0:
            yield line, tags, words
            tags, words = [], []
    if depth:
        raise SubtuneError(
            f"{path}: line {line}: found a tree that does not end, expected a ')' for every '('"
        )
