"""Mini tasks in the package, repositories of the hub, and sizes of tasks.

A mini task has a few hundred English rows in the form of a real task. No pair, sentence or story
occurs twice, so no dev row is among the training rows. One label in twenty is wrong, so that no
method reaches a perfect score.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from subtune.core.errors import SubtuneError, cut
from subtune.core.files import package_file
from subtune.data import files
from subtune.hub import GLUE, SQUAD, UNIVERSAL_DEPENDENCIES
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.tasks import DIAGNOSTIC, Task
from subtune.tasks.task import USUAL_SIZE, TaskSize
from subtune.tasks.task_kind import NO_LABEL, Columns, Row, numbered

MINI_TASKS = ("qnli", "sst2", "mnli", "cola", "mrpc", "stsb", "rte", "qqp", "ud_ewt", "squad")
# Estimates for English text: special tokens of an example, and tokens per word.
SPECIAL_TOKENS = 3
TOKENS_PER_WORD = 1.3
# The most texts on which a tokenizer is tried.
TRIED = 200


def mini_rows(task: Task) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every split of a mini task. Test rows have no labels."""
    text = package_file("subtune.data", f"minitasks/{task.name}.jsonl").read_text(encoding="utf-8")
    splits: dict[str, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        row = json.loads(line)
        splits.setdefault(row.pop("split"), []).append(row)
    return splits


def mini_version(task: Task) -> str:
    """Return the hash of all rows of a mini task."""
    text = json.dumps(mini_rows(task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mini_columns(task: Task) -> dict[str, Columns]:
    """Return every split of a mini task, with the columns of the task's kind."""
    split_of = partial(task.of_kind.from_rows, task, source=f"mini task {task.name}")
    return {
        split: split_of(numbered(rows), labelled=split in task.labelled)
        for split, rows in mini_rows(task).items()
    }


class Repository(NamedTuple):
    """A repository of datasets.

    Attributes:
        name: the repository's name on the hub.
        files: the pattern of a split's files.
        instead: advice for users without a network.
        row: the function that turns a row of the hub into one of the task; None if the hub's labels
            are numbers.
    """

    name: str
    files: str
    instead: str
    row: Callable[[Row], Row] | None = None

    def pattern(self, task: str, split: str) -> str:
        """Return the pattern of a split's files. On the hub, GLUE's diagnostic set is a task."""
        folder, part = ("ax", "test") if split == DIAGNOSTIC else (task, split)
        return self.files.format(task=folder, split=part)


def _words_with_tags(row: Row) -> Row:
    """Return a sentence's words and tags, without contractions and omitted words.

    A contraction, which precedes its parts, has no tag. An omitted word has no number as its head.
    """
    cells = zip(row["tokens"], row["xpos"], row["head"], strict=True)
    words = [cell[:2] for cell in cells if cell[1] not in (None, "_") and str(cell[2]).isdecimal()]
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
    """Return whether the hub has a built-in task: it is one of GLUE or in `REPOSITORIES`."""
    return task in REPOSITORIES or task not in files.RELEASES


def size_of(
    task: Task, source: str, own: Mapping[str, str] | None = None, directory: str | None = None
) -> TaskSize:
    """Return the size of a task. For downloads and GLUE's files, the task's entry states it.

    Args:
        task: the task.
        source: the configuration's source.
        own: the path of each split's file, for a user's own task.
        directory: the directory of a task's official files.

    Raises:
        SubtuneError: the files have rows that cannot be trained on.
    """
    if source == "builtin":
        columns = mini_columns(task)
    elif source == "files":
        splits = [*own] if own else task.labelled
        paths = files.paths_of(task, source, splits, files=own, directory=directory)
        columns = files.columns_of(task, paths)
    else:
        return task.size or USUAL_SIZE
    return size_of_columns(task, columns)


def size_of_columns(task: Task, columns: Mapping[str, Columns]) -> TaskSize:
    """Return the size of a task from the columns of its splits."""
    texts = {split: list(task.of_kind.texts(cells)) for split, cells in columns.items()}
    train, evaluation = texts["train"], sum(len(texts.get(s, ())) for s in task.evaluation)
    counts = {"different texts": len(set(map(tuple, train)))}
    weighed = None
    if task.labels:
        by_row, every = task.of_kind.head == SEQUENCE_CLASSIFICATION, columns["train"]["label"]
        labels = np.array(every) if by_row else np.concatenate(every)
        if by_row:
            # The most frequent label must be in every fold; rarer labels need not.
            [(label, rows)] = Counter(task.of_kind.strata(labels).tolist()).most_common(1)
            name = "none" if label == NO_LABEL else cut(task.labels[label])
            counts[f"rows of label {name!r}"] = rows
        try:
            task.of_kind.balanced(task, labels)
        except SubtuneError as error:
            weighed = str(error)
    words = sum(len(text.split()) for row in train for text in row)
    step = -(-len(train) // TRIED)
    return TaskSize(
        train_rows=len(train),
        evaluation_rows=evaluation,
        test_rows=sum(map(len, texts.values())) - len(train) - evaluation,
        tokens=SPECIAL_TOKENS + TOKENS_PER_WORD * words / len(train),
        scarcest=min(counts.items(), key=itemgetter(1)),
        weighed=weighed,
        sample=tuple(map(" ".join, train[::step])),
    )
