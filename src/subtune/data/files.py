"""A user's own task: one CSV, TSV or JSON-lines file per split."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

from subtune.errors import SubtuneError, one_of
from subtune.tasks import Task, TaskSpec

FORMATS = (".csv", ".tsv", ".jsonl")


def paths(files: Mapping[str, str], task: Task) -> dict[str, Path]:
    """Every split's file.

    Raises:
        SubtuneError: a split is missing or unknown, or a file is not there or of no known format.
    """
    for split in files:
        if split not in (*task.labelled, *task.test):
            expected = one_of(split, (*task.labelled, *task.test))
            raise SubtuneError(f"tasks.{task.name}.files: {expected}")
    for split in task.labelled:
        if split not in files:
            raise SubtuneError(f"tasks.{task.name}.files: {split!r} is missing, expected a path")
    return {split: path_of(files, task, split) for split in files}


def path_of(files: Mapping[str, str], task: TaskSpec, split: str) -> Path:
    """The file of one split.

    Raises:
        SubtuneError: the file is not there, or of no known format.
    """
    key, path = f"tasks.{task.name}.files.{split}", Path(files[split])
    if path.suffix not in FORMATS:
        raise SubtuneError(f"{key}: {one_of(path.suffix, FORMATS)} as the ending of {path}")
    if not path.is_file():
        raise SubtuneError(f"{key}: found no file {str(path)!r}")
    return path


def rows(path: Path) -> list[dict[str, str]]:
    """Rows of a file, all cells as text.

    Raises:
        SubtuneError: the file cannot be read as what its ending says.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix == ".jsonl":
                records = [json.loads(line) for line in file if line.strip()]
                return [{key: str(value) for key, value in row.items()} for row in records]
            delimiter = "," if path.suffix == ".csv" else "\t"
            return list(csv.DictReader(file, delimiter=delimiter, strict=True))
    except (ValueError, AttributeError, csv.Error) as error:
        # json and the codec raise kinds of ValueError; a line that is no object has no items.
        raise SubtuneError(f"{path}: not a readable {path.suffix} file: {error}") from None
