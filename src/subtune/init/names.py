"""Names in a configuration, from names of files and models."""

import re
import unicodedata
from collections.abc import Collection
from pathlib import Path

from subtune.config.checks import HEADINGS
from subtune.tasks import TASKS

# Most characters of a name, with room for an ending if the name is taken.
LONGEST = 56
# The end of a file's name that says that it has training rows.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")


def task_named_after(path: Path) -> str:
    """Return a task's name for its training file: ``reviews`` for ``reviews-train.csv``.

    A file called ``train.csv`` gives the name of its folder.
    """
    subject = SPLIT.sub("", path.stem) or SPLIT.sub("", path.resolve().parent.name)
    return named_like(subject, [*TASKS, *HEADINGS], "task")


def named_like(text: str, taken: Collection[str], kind: str) -> str:
    """Return a text as a name; if it is taken or empty, with ``kind`` at its end."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-._+")[:LONGEST]
    if not words:
        return f"my-{kind}"
    return f"{words}-{kind}" if words.casefold() in taken else words
