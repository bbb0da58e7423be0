"""GLUE from the hub, at a pinned revision."""

import datasets

from subtune.data.rows import features
from subtune.download import snapshot
from subtune.errors import SubtuneError
from subtune.pins import GLUE
from subtune.tasks import DIAGNOSTIC, Task


def read(task: Task, revision: str) -> datasets.DatasetDict:
    """Download one task's Parquet files and give them the columns of every source.

    Raises:
        SubtuneError: the hub cannot be reached, or has no such revision or files.
    """
    prefixes = {s: _prefix(task, s) for s in ("train", *task.evaluation, *task.test)}
    folder = snapshot(
        GLUE,
        revision,
        [f"{prefix}-*.parquet" for prefix in prefixes.values()],
        repo_type="dataset",
        name=f"source: could not download {GLUE}",
        instead="set `source: tsv` and a `glue_dir`",
    )
    result = {}
    for split, prefix in prefixes.items():
        files = sorted(str(path) for path in folder.glob(f"{prefix}-*.parquet"))
        if not files:
            raise SubtuneError(f"source: {GLUE} at {revision} has no {prefix}-*.parquet")
        result[split] = _one_shape(datasets.Dataset.from_parquet(files), task)
    return datasets.DatasetDict(result)


def _prefix(task: Task, split: str) -> str:
    """What a split's file names begin with; the diagnostic set is a task of its own there."""
    return "ax/test" if split == DIAGNOSTIC else f"{task.name}/{split}"


def _one_shape(rows: datasets.Dataset, task: Task) -> datasets.Dataset:
    new_names = dict(zip(task.text, ("text_a", "text_b"), strict=False)) | {task.label: "label"}
    rows = rows.rename_columns({old: new for old, new in new_names.items() if old != new})
    columns = features(task)
    return rows.select_columns(list(columns)).cast(columns)
