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
    """A repository of datasets."""

    name: str
    # The pattern of a split's files.
    files: str
    # Advice for a user without a network.
    instead: str
    # Makes a row of the task of the hub's. None where labels are numbers there already.
    row: Callable[[Row], Row] | None = None

    def pattern(self, task: str, split: str) -> str:
        """Return the files of a split; GLUE's diagnostic set is a task of its own there."""
        folder, part = ("ax", "test") if split == DIAGNOSTIC else (task, split)
        return self.files.format(task=folder, split=part)


def _words_with_tags(row: Row) -> Row:
    """Return a sentence's words and tags, without what is no word of the text.

    Contractions stand before their parts without a tag. Words that the text leaves out have one,
    but no number as their head.
    """
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
    """Return the repository with a built-in task.

    Raises:
        SubtuneError: the hub does not have it.
    """
    if not is_on_hub(task):
        raise SubtuneError(
            f"source: {TASKS[task].title} is not on the hub; name a directory with its files in "
            f"`directories.{task}`"
        )
    return REPOSITORIES.get(task, OF_GLUE)
