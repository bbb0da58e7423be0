"""Rows of every task in one shape, whatever source they come from."""

from collections.abc import Mapping

import datasets

from subtune.data import builtin, files, hub, official, tsv, versions
from subtune.data.rows import split_from_columns, split_from_rows
from subtune.selections.specs import DataSpec
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
    if spec.source == "builtin":
        mini = builtin.columns_of(TASKS[task.name])
        return datasets.DatasetDict(
            {split: split_from_columns(task, mini[split]) for split in spec.splits}
        )
    result = {}
    for split, (path,) in by_split.items():
        labelled = split in task.labelled
        rows = tsv.rows(path, task, labelled=labelled)
        result[split] = split_from_rows(task, rows, labelled=labelled, source=str(path))
    return datasets.DatasetDict(result)
