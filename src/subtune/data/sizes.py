"""Sizes of tasks, as far as they are known before any download."""

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

import numpy as np

from subtune.core.errors import SubtuneError, cut
from subtune.data import builtin, files
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.tasks import Task
from subtune.tasks.sentences import NO_LABEL
from subtune.tasks.task import USUAL_SIZE, TaskSize
from subtune.tasks.task_kind import Columns

# Estimates for English text: special tokens of an example, and tokens per word.
SPECIAL_TOKENS = 3
TOKENS_PER_WORD = 1.3


def size_of(
    task: Task, source: str, own: Mapping[str, str] | None = None, directory: str | None = None
) -> TaskSize:
    """Return the size of a task whose rows come from ``source``.

    A task's entry may state the size of what is downloaded. ``own`` has the paths of a user's own
    task, by split; ``directory`` is where the task's official files lie.

    Raises:
        SubtuneError: its files hold what cannot be trained on.
    """
    if source == "builtin":
        columns = builtin.columns_of(task)
    elif source == "files":
        splits = [*own] if own else task.labelled
        paths = files.paths_of(task, source, splits, files=own, directory=directory)
        columns = files.columns_of(task, paths)
    else:
        return task.size or USUAL_SIZE
    return size_of_columns(task, columns)


def size_of_columns(task: Task, columns: Mapping[str, Columns]) -> TaskSize:
    """Return the size of a task whose columns, by split, are those of its kind."""
    texts = {split: list(task.of_kind.texts(of_split)) for split, of_split in columns.items()}
    train, evaluation = texts["train"], sum(len(texts.get(s, ())) for s in task.evaluation)
    counts = {"different texts": len(set(map(tuple, train)))}
    weighed = None
    if task.labels:
        of_rows, every = task.of_kind.head == SEQUENCE_CLASSIFICATION, columns["train"]["label"]
        labels = np.array(every) if of_rows else np.concatenate(every)
        if of_rows:
            # Rows of rarer labels are spread over some of the folds.
            [(label, rows)] = Counter(task.of_kind.strata(labels).tolist()).most_common(1)
            name = "none" if label == NO_LABEL else cut(task.labels[label])
            counts[f"rows of label {name!r}"] = rows
        try:
            task.of_kind.balanced(task, labels)
        except SubtuneError as error:
            weighed = str(error)
    words = sum(len(text.split()) for row in train for text in row)
    return TaskSize(
        train_rows=len(train),
        evaluation_rows=evaluation,
        test_rows=sum(map(len, texts.values())) - len(train) - evaluation,
        tokens=SPECIAL_TOKENS + TOKENS_PER_WORD * words / len(train),
        scarcest=min(counts.items(), key=itemgetter(1)),
        weighed=weighed,
    )
