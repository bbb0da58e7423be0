"""Mini tasks: small English tasks in the form of GLUE's, written by templates with a fixed seed.

Every task has the columns, label words and splits of the GLUE task it stands for. No sentence pair
occurs twice, so that nothing of the dev set was seen in training. One label in twenty is wrong, as
where people disagree, so that no method reaches a perfect score.
"""

import hashlib
import json
import random

from subtune.data.minitasks import GENERATORS, Row, example
from subtune.errors import SubtuneError, one_of
from subtune.tasks import Task

TRAIN_ROWS = 200
EVALUATION_ROWS = 100
TEST_ROWS = 40
WRONG_LABELS = 0.05


def version(task: Task) -> str:
    """Hash of all rows, so that a changed template makes a new dataset."""
    text = json.dumps(splits(task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def splits(task: Task) -> dict[str, list[Row]]:
    """Rows of every split, the same on every machine. Test rows carry no labels, as in GLUE."""
    if task.name not in GENERATORS:
        raise SubtuneError(f"source: mini task {one_of(task.name, GENERATORS)}")
    sizes = dict.fromkeys(task.evaluation, EVALUATION_ROWS) | dict.fromkeys(task.test, TEST_ROWS)
    seen: set[tuple[str, ...]] = set()
    result = {}
    for split, size in {"train": TRAIN_ROWS, **sizes}.items():
        rng = random.Random(f"{task.name}/{split}")
        rows: list[Row] = []
        while len(rows) < size:
            row = example(task.name, rng, mismatched=split.endswith("mismatched"))
            texts = tuple(row[column] for column in task.text)
            if texts not in seen:
                seen.add(texts)
                # The scores of a regression vary by themselves.
                if task.labels and rng.random() < WRONG_LABELS:
                    row["label"] = rng.choice([w for w in task.labels if w != row["label"]])
                rows.append(row)
        if split in task.test:
            rows = [{column: row[column] for column in task.text} for row in rows]
        result[split] = rows
    return result
