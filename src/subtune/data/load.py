"""Rows of every task in one shape, whatever source they come from."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import datasets

from subtune.data import builtin, files, hub, tsv
from subtune.data.rows import split_from_columns, split_from_rows
from subtune.specs import DataSpec


def load(
    spec: DataSpec, glue_dir: str | None = None, paths: Mapping[str, str] | None = None
) -> datasets.DatasetDict:
    """All splits of a task: columns ``idx``, ``text_a``, ``text_b`` (pairs only) and ``label``.

    Rows of a test split without labels have label -1.

    Args:
        spec: what to load.
        glue_dir: where the ``tsv`` source reads.
        paths: split to path, for the ``files`` source.
    """
    task = spec.task
    if spec.source == "hub":
        return hub.read(task, spec.version)
    if spec.source == "files":
        by_split = files.splits(paths or {}, task)
        return datasets.DatasetDict(
            {split: split_from_columns(task, columns) for split, columns in by_split.items()}
        )
    named_rows: Iterable[tuple[str, str, Iterable[Mapping[str, str]]]]
    if spec.source == "tsv":
        named_rows = (
            (split, str(path), tsv.rows(path, task, labelled=split not in task.test))
            for split, path in tsv.paths(Path(str(glue_dir)), task).items()
        )
    else:
        mini = builtin.splits(task)
        named_rows = ((split, f"mini task {task.name} {split}", mini[split]) for split in mini)
    return datasets.DatasetDict(
        {
            split: split_from_rows(task, rows, labelled=split not in task.test, source=name)
            for split, name, rows in named_rows
        }
    )
