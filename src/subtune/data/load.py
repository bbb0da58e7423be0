"""Rows of every task in one shape, whatever source they come from."""

from collections.abc import Iterable, Mapping

import datasets

from subtune.data import builtin, files, hub, tsv, versions
from subtune.data.rows import split_from_columns, split_from_rows
from subtune.specs import DataSpec
from subtune.tasks import TASKS


def load(
    spec: DataSpec, glue_dir: str | None = None, paths: Mapping[str, str] | None = None
) -> datasets.DatasetDict:
    """Splits of a task, with the columns of its kind.

    Labels of a split that is predicted are not read.

    Args:
        spec: what to load.
        glue_dir: where the ``tsv`` source reads.
        paths: split to path, for the ``files`` source.
    """
    task = spec.task
    if spec.source == "hub":
        return hub.read(task, spec.version, spec.splits)
    by_split = versions.paths_of(spec, glue_dir, paths)
    if spec.source == "files":
        return datasets.DatasetDict(
            {
                split: split_from_columns(task, columns)
                for split, columns in files.columns_of(task, by_split).items()
            }
        )
    named_rows: Iterable[tuple[str, str, Iterable[Mapping[str, str]]]]
    if spec.source == "tsv":
        named_rows = (
            (split, str(path), tsv.rows(path, task, labelled=split in task.labelled))
            for split, path in by_split.items()
        )
    else:
        mini = builtin.splits(TASKS[task.name])
        named_rows = (
            (split, f"mini task {task.name} {split}", mini[split]) for split in spec.splits
        )
    return datasets.DatasetDict(
        {
            split: split_from_rows(task, rows, labelled=split in task.labelled, source=name)
            for split, name, rows in named_rows
        }
    )
