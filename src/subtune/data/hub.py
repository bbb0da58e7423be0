"""GLUE from the hub, at a pinned revision."""

from collections.abc import Iterable

import datasets

from subtune.data.rows import features
from subtune.download import snapshot
from subtune.errors import SubtuneError
from subtune.pins import GLUE
from subtune.tasks import DIAGNOSTIC, TaskSpec


def read(task: TaskSpec, revision: str, splits: Iterable[str]) -> datasets.DatasetDict:
    """Download the Parquet files of a task's splits and give them the columns of every source.

    Raises:
        SubtuneError: the hub cannot be reached, or has no such revision or files.
    """
    prefixes = {split: _prefix(task, split) for split in splits}
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


def _prefix(task: TaskSpec, split: str) -> str:
    """What a split's file names begin with; the diagnostic set is a task of its own there."""
    return "ax/test" if split == DIAGNOSTIC else f"{task.name}/{split}"


def _one_shape(rows: datasets.Dataset, task: TaskSpec) -> datasets.Dataset:
    new_names = dict(zip(task.text, ("text_a", "text_b"), strict=False)) | {task.label: "label"}
    rows = rows.rename_columns({old: new for old, new in new_names.items() if old != new})
    columns = features(task)
    return rows.select_columns(list(columns)).cast(columns)
