"""Repositories on the hub with each task's rows, as Parquet files.

None of it is part of an id: a dataset's version is the commit.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError
from subtune.hub.commits import GLUE, SQUAD, UNIVERSAL_DEPENDENCIES
from subtune.tasks import DIAGNOSTIC, TASKS

Row = Mapping[str, Any]


class Repository(NamedTuple):
    """A repository of datasets.

    ``files`` is the pattern of a split's files. ``row`` makes a row of the task of the hub's, or
    is None where labels are numbers there already. ``instead`` is what a user without a network
    can do.
    """

    name: str
    files: str
    instead: str
    row: Callable[[Row], Row] | None = None

    def pattern(self, task: str, split: str) -> str:
        """The files of a split; GLUE's diagnostic set is a task of its own there."""
        folder, part = ("ax", "test") if split == DIAGNOSTIC else (task, split)
        return self.files.format(task=folder, split=part)


def _words_with_tags(row: Row) -> Row:
    """Contractions stand before their parts without a tag, and words that the text leaves out
    have one; neither has a number as its head, and neither is read."""
    cells = zip(row["tokens"], row["xpos"], row["head"], strict=True)
    words = [
        (word, tag) for word, tag, head in cells if tag not in (None, "_") and str(head).isdecimal()
    ]
    return {"form": [word for word, _ in words], "xpos": [tag for _, tag in words]}


OF_GLUE = Repository(GLUE, "{task}/{split}-*.parquet", "set `source: tsv` and a `glue_dir`")
REPOSITORIES = {
    "squad": Repository(
        SQUAD,
        "plain_text/{split}-*.parquet",
        "name a directory with SQuAD's files in `directories.squad`",
        row=dict,
    ),
    "ud_ewt": Repository(
        UNIVERSAL_DEPENDENCIES,
        "en_ewt/{split}/*.parquet",
        "name a directory with the treebank's files in `directories.ud_ewt`",
        row=_words_with_tags,
    ),
}


def is_on_hub(task: str) -> bool:
    """Return whether the hub has a built-in task: GLUE's, and those in `REPOSITORIES`."""
    return task in REPOSITORIES or bool(TASKS[task].submission)


def repository_of(task: str) -> Repository:
    """The repository with a built-in task.

    Raises:
        SubtuneError: the hub does not have it.
    """
    if not is_on_hub(task):
        raise SubtuneError(
            f"source: {TASKS[task].title} is not on the hub; name a directory with its files in "
            f"`directories.{task}`"
        )
    return REPOSITORIES.get(task, OF_GLUE)
