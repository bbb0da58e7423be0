"""Mini tasks: small English tasks in the form of the real ones, by templates and a fixed seed.

Every task has the columns, label words and splits of the task it stands for. No sentence pair,
sentence or story occurs twice, so that nothing of the dev set was seen in training. One label in
twenty is wrong, as where people disagree, so that no method reaches a perfect score.
"""

import hashlib
import json
import random

from subtune.core import resources
from subtune.data.minitasks import MiniTask, Row, questions, sentences, tagging
from subtune.tasks import Task

MINI_TASKS: dict[str, MiniTask] = sentences.MINI_TASKS | tagging.MINI_TASKS | questions.MINI_TASKS
TRAIN_ROWS = 200
EVALUATION_ROWS = 100
TEST_ROWS = 40
WRONG_LABELS = 0.05


def version(task: Task) -> str:
    """Return the hash of all rows, so that a changed template makes a new dataset."""
    text = json.dumps(splits(task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def columns_of(task: Task) -> dict[str, dict[str, list]]:
    """Return the columns of every split, as the task's kind has them."""
    return {
        split: task.of_kind.from_rows(
            task,
            ((f"row {number}", row) for number, row in enumerate(rows, start=1)),
            labelled=split in task.labelled,
            source=f"mini task {task.name} {split}",
        )
        for split, rows in splits(task).items()
    }


def splits(task: Task) -> dict[str, list[Row]]:
    """Return the rows of every split, the same on every machine. Test rows have no labels."""
    mini = MINI_TASKS[task.name]
    of_all = resources.read_yaml("subtune.data.minitasks", "minitasks.yaml")
    words = of_all["shared"] | of_all[task.name]
    sizes = dict.fromkeys(task.evaluation, EVALUATION_ROWS) | dict.fromkeys(task.test, TEST_ROWS)
    seen = set()
    result = {}
    for split, size in {"train": TRAIN_ROWS, **sizes}.items():
        rng = random.Random(f"{task.name}/{split}")
        # Mismatched rows, as in MNLI, speak of other things.
        of_split = words | words["mismatched"] if split.endswith("mismatched") else words
        rows: list[Row] = []
        while len(rows) < size:
            row = mini.draw(rng, of_split)
            texts = str([row[column] for column in task.text])
            if texts not in seen:
                seen.add(texts)
                mini.mislabel(task, rng, row, WRONG_LABELS)
                rows.append(row)
        if split in task.test:
            rows = [{column: row[column] for column in task.text} for row in rows]
        result[split] = rows
    return result
