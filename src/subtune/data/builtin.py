"""The mini tasks that come with the package: one per GLUE task, written by seeded templates."""

import hashlib
import json

from subtune.data import minitasks
from subtune.errors import SubtuneError, one_of
from subtune.tasks import Task


def version(task: Task) -> str:
    """Hash of all rows, so that a changed template makes a new dataset."""
    text = json.dumps(splits(task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def splits(task: Task) -> dict[str, list[dict[str, str]]]:
    """Rows of every split. Test rows carry no labels, as in GLUE."""
    if task.name not in minitasks.GENERATORS:
        raise SubtuneError(f"source: mini task {one_of(task.name, minitasks.GENERATORS)}")
    return minitasks.splits(task.name, task.labels or (), task.evaluation, task.test)
