"""How many rows and tokens a task has, as far as that is known before any download."""

import csv
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from subtune.data import builtin, files, official
from subtune.tasks import Task

# Of English text: an example's two or three special tokens, and tokens to a word.
SPECIAL_TOKENS = 3
TOKENS_PER_WORD = 1.3


class TaskSize(NamedTuple):
    """Rows of the training split, of all evaluation splits, of all; tokens of a training row."""

    train_rows: int
    evaluation_rows: int
    all_rows: int
    tokens: float

    @property
    def test_rows(self) -> int:
        """Rows of all test splits."""
        return self.all_rows - self.train_rows - self.evaluation_rows

    def rows_within(self, limit: int | None) -> int:
        """Rows of the training split, at most ``limit``."""
        return min(limit or self.train_rows, self.train_rows)

    def examples_of_a_row(self, max_length: int, doc_stride: int | None) -> int:
        """Into how many examples a row of usual length is cut, where its parts overlap."""
        if doc_stride is None:
            return 1
        return 1 + math.ceil(max(0, self.tokens - max_length) / min(doc_stride, max_length))


@cache
def of_glue() -> dict[str, TaskSize]:
    """GLUE's tasks: rows as published, tokens as `glue_sizes.csv` says."""
    return _published("glue")


@cache
def of_words_and_spans() -> dict[str, TaskSize]:
    """Tasks of other kinds, as `words_and_spans_sizes.csv` says."""
    return _published("words_and_spans")


def _published(name: str) -> dict[str, TaskSize]:
    path = resources.files("subtune.data") / f"{name}_sizes.csv"
    with path.open(encoding="utf-8") as file:
        return {row["task"]: _size(row) for row in csv.DictReader(file)}


def _size(row: Mapping[str, str]) -> TaskSize:
    train, evaluation, test = (int(row[f"{kind}_rows"]) for kind in ("train", "evaluation", "test"))
    return TaskSize(train, evaluation, train + evaluation + test, float(row["tokens"]))


def size_of(
    task: Task,
    source: str,
    paths: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> TaskSize:
    """The size of a task whose rows come from ``source``.

    Args:
        paths: split to path, of a user's own task.
        directory: where the task's official files lie, of one that is read from there.

    Raises:
        SubtuneError: its files hold what cannot be trained on.
    """
    if source == "builtin":
        columns = builtin.columns_of(task)
    elif source != "files":
        return (of_glue() | of_words_and_spans())[task.name]
    elif directory:
        columns = official.columns_of(task, official.paths(directory, task, task.labelled))
    else:
        columns = files.columns_of(task, files.paths(paths or {}, task))
    texts = {split: list(task.of_kind.texts(of_split)) for split, of_split in columns.items()}
    train = texts["train"]
    words = sum(len(text.split()) for row in train for text in row)
    return TaskSize(
        train_rows=len(train),
        evaluation_rows=sum(len(texts[split]) for split in task.evaluation),
        all_rows=sum(map(len, texts.values())),
        tokens=SPECIAL_TOKENS + TOKENS_PER_WORD * words / len(train),
    )
