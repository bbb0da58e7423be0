"""Rows from the hub, at a pinned revision."""

from collections.abc import Iterable, Sequence

import datasets

from subtune.core.errors import SubtuneError
from subtune.data.repositories import Repository, repository_of
from subtune.data.rows import features, split_from_rows
from subtune.hub.download import snapshot
from subtune.tasks import TaskSpec


def read(task: TaskSpec, revision: str, splits: Iterable[str]) -> datasets.DatasetDict:
    """Download the Parquet files of a task's splits and give them the columns of every source.

    Raises:
        SubtuneError: the hub cannot be reached, or has no such revision, files or rows.
    """
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
        files = sorted(str(path) for path in folder.glob(pattern))
        if not files:
            raise SubtuneError(f"source: {repository.name} at {revision} has no {pattern}")
        labelled = split in task.labelled
        result[split] = read_files(task, repository, files, labelled=labelled)
    return datasets.DatasetDict(result)


def read_files(
    task: TaskSpec, repository: Repository, files: Sequence[str], *, labelled: bool
) -> datasets.Dataset:
    """One split of a repository, from its Parquet files."""
    rows = datasets.Dataset.from_parquet(list(files))
    if repository.row is None:
        return _renamed(rows, task)
    return split_from_rows(
        task, map(repository.row, rows), labelled=labelled, source=repository.name
    )


def _renamed(rows: datasets.Dataset, task: TaskSpec) -> datasets.Dataset:
    """GLUE's rows, whose labels are numbers on the hub."""
    new_names = dict(zip(task.text, ("text_a", "text_b"), strict=False)) | {task.label: "label"}
    rows = rows.rename_columns({old: new for old, new in new_names.items() if old != new})
    columns = features(task)
    return rows.select_columns(list(columns)).cast(columns)
