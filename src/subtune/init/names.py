"""Names in a configuration, made of names of files and models."""

import re
import unicodedata
from collections.abc import Collection
from pathlib import Path

from subtune.config.checks import HEADINGS
from subtune.tasks import TASKS

# As long as names of a configuration may be, with room for what is put behind one that is taken.
LONGEST = 56
# At the end of a file's name, which split it is.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")


def task_named_after(path: Path) -> str:
    """A task's name by its training file: of ``reviews-train.csv`` it is ``reviews``.

    A file that is called as its split has the name of its folder.
    """
    subject = SPLIT.sub("", path.stem) or SPLIT.sub("", path.resolve().parent.name)
    return named_like(subject, [*TASKS, *HEADINGS], "task")


def named_like(text: str, taken: Collection[str], kind: str) -> str:
    """A text as a name; where it is taken, or has no letter or digit, with ``kind`` behind it."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-._+")[:LONGEST]
    if not words:
        return f"my-{kind}"
    return f"{words}-{kind}" if words.casefold() in taken else words
