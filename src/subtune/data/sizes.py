"""Sizes of tasks, as far as they are known before any download."""

from collections.abc import Mapping

from subtune.data import builtin, files, official
from subtune.tasks import Task
from subtune.tasks.task_size import USUAL_SIZE, TaskSize

# Estimates for English text: special tokens of an example, and tokens per word.
SPECIAL_TOKENS = 3
TOKENS_PER_WORD = 1.3


def size_of(
    task: Task,
    source: str,
    paths: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> TaskSize:
    """Return the size of a task whose rows come from ``source``.

    Args:
        task: whose rows they are; its entry may state the size of what is downloaded.
        source: where its rows come from.
        paths: split to path, of a user's own task.
        directory: where the task's official files lie, if it is read from there.

    Raises:
        SubtuneError: its files hold what cannot be trained on.
    """
    if source == "builtin":
        columns = builtin.columns_of(task)
    elif source != "files":
        return task.size or USUAL_SIZE
    elif directory:
        columns = official.columns_of(task, official.paths(directory, task, task.labelled))
    else:
        columns = files.columns_of(task, files.paths(paths or {}, task))
    texts = {split: list(task.of_kind.texts(of_split)) for split, of_split in columns.items()}
    train, evaluation = texts["train"], sum(len(texts[split]) for split in task.evaluation)
    words = sum(len(text.split()) for row in train for text in row)
    return TaskSize(
        train_rows=len(train),
        evaluation_rows=evaluation,
        test_rows=sum(map(len, texts.values())) - len(train) - evaluation,
        tokens=SPECIAL_TOKENS + TOKENS_PER_WORD * words / len(train),
    )
