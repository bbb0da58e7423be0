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


def sentences(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, each with the line on which its tree begins.

    ``form`` has the words and ``xpos`` their tags, as they stand in the file, which writes a
    bracket as ``-LRB-``. Leaves that are no words are left out, and so are sentences of nothing
    else.

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
