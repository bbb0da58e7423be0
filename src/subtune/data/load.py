"""Rows of every task in one shape, whatever source they come from."""

from collections.abc import Iterable, Mapping

import datasets

from subtune.data import builtin, files, hub, official, tsv, versions
from subtune.data.rows import split_from_columns, split_from_rows
from subtune.specs import DataSpec
from subtune.tasks import TASKS


def load(
    spec: DataSpec,
    glue_dir: str | None = None,
    paths: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> datasets.DatasetDict:
    """Splits of a task, with the columns of its kind.

    Labels of a split that is predicted are not read.

    Args:
        spec: what to load.
        glue_dir: where the ``tsv`` source reads.
        paths: split to path, for the ``files`` source.
        directory: where the task's official files lie, for the ``files`` source without paths.
    """
    task = spec.task
    if spec.source == "hub":
        return hub.read(task, spec.version, spec.splits)
    by_split = versions.paths_of(spec, glue_dir, paths, directory)
    if spec.source == "files":
        if directory:
            columns = official.columns_of(task, by_split)
        else:
            columns = files.columns_of(task, {split: path for split, (path,) in by_split.items()})
        return datasets.DatasetDict(
            {split: split_from_columns(task, of_split) for split, of_split in columns.items()}
        )
    named_rows: Iterable[tuple[str, str, Iterable[Mapping[str, str]]]]
    if spec.source == "tsv":
        named_rows = (
            (split, str(path), tsv.rows(path, task, labelled=split in task.labelled))
            for split, (path,) in by_split.items()
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
