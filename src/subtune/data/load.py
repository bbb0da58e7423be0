"""Rows of every task in one shape, whatever source they come from."""

from collections.abc import Mapping, Sequence

import datasets

from subtune.core.errors import SubtuneError
from subtune.data import builtin, files
from subtune.data.repositories import Repository, repository_of
from subtune.data.rows import features, split_from_rows
from subtune.hub.download import snapshot
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS, TaskSpec


def load(
    spec: DataSpec,
    glue_dir: str | None = None,
    paths: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> datasets.DatasetDict:
    """Return splits of a task, with the columns of its kind.

    Labels of a split that is predicted are not read. `files.paths_of` explains the arguments after
    the first.
    """
    task = spec.task
    if spec.source == "hub":
        return _download(task, spec.version, spec.splits)
    if spec.source == "builtin":
        columns = builtin.columns_of(TASKS[task.name])
    else:
        by_split = files.paths_of(task, spec.source, spec.splits, glue_dir, paths, directory)
        columns = files.columns_of(task, by_split, spec.source)
    present = [split for split in spec.splits if split in columns]
    return datasets.DatasetDict(
        {split: datasets.Dataset.from_dict(columns[split], features(task)) for split in present}
    )


def _download(task: TaskSpec, revision: str, splits: Sequence[str]) -> datasets.DatasetDict:
    repository = repository_of(task.name)
    patterns = {split: repository.pattern(task.name, split) for split in splits}
    folder = snapshot(
        repository.name,
        revision,
        [*patterns.values()],
        repo_type="dataset",
        name=f"source: could not download {repository.name}",
        instead=repository.instead,
    )
    result = {}
    for split, pattern in patterns.items():
        parquet = sorted(str(path) for path in folder.glob(pattern))
        if not parquet:
            raise SubtuneError(f"source: {repository.name} at {revision} has no {pattern}")
        result[split] = read_parquet(task, repository, parquet, labelled=split in task.labelled)
    return datasets.DatasetDict(result)


def read_parquet(
    task: TaskSpec, repository: Repository, paths: Sequence[str], *, labelled: bool
) -> datasets.Dataset:
    """Return one split of a repository, from its Parquet files."""
    rows = datasets.Dataset.from_parquet(list(paths))
    if repository.row is not None:
        rows = map(repository.row, rows)
        return split_from_rows(task, rows, labelled=labelled, source=repository.name)
    # GLUE's labels are numbers on the hub.
    new_names = dict(zip(task.text, ("text_a", "text_b"), strict=False)) | {task.label: "label"}
    rows = rows.rename_columns({old: new for old, new in new_names.items() if old != new})
    columns = features(task)
    return rows.select_columns(list(columns)).cast(columns)
