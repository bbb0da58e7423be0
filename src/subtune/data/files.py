"""A user's own task: one CSV, TSV or JSON-lines file per split."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from subtune.data.columns import columns_from_rows, is_label
from subtune.errors import SubtuneError, one_of
from subtune.formats import delimited, json_lines
from subtune.formats.text import NO_CHARACTER
from subtune.tasks import COEFFICIENTS, Task, TaskSpec

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


def columns_of(task: TaskSpec, paths: Mapping[str, Path]) -> dict[str, dict[str, list]]:
    """The columns of each split's file, as `columns_from_rows` has them.

    Raises:
        SubtuneError: a file cannot be read as what its ending says, a row is not one of the task,
            or the rows cannot be learnt from or judged by.
    """
    by_split = {}
    for split, path in paths.items():
        labelled = split in task.labelled
        rows = _with_text(task, path, _rows(path, task, labelled))
        by_split[split] = columns_from_rows(task, rows, labelled=labelled, source=str(path))
        judged = labelled and not set(COEFFICIENTS).isdisjoint(task.metrics)
        if split == "train" or judged:
            _require_two_labels(task, path, by_split[split]["label"])
    return by_split


def _rows(path: Path, task: TaskSpec, labelled: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a file, each with the line on which it begins."""
    columns = (*task.text, *((task.label,) if labelled else ()))

    def is_row(cells: Mapping[str, str]) -> bool:
        return labelled and is_label(task, cells.get(task.label, ""))

    try:
        if path.suffix == ".jsonl":
            yield from json_lines.rows(path, columns)
        else:
            yield from delimited.rows(path, "," if path.suffix == ".csv" else "\t", columns, is_row)
    except ValueError as error:
        raise SubtuneError(f"{path}: not a readable {path.suffix} file: {error}") from None


def _with_text(
    task: TaskSpec, path: Path, rows: Iterable[tuple[int, dict[str, Any]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same rows with their places; each has something to read."""
    for line, row in rows:
        text = " ".join(str(row.get(column, "?")) for column in task.text)
        if not text.strip():
            raise SubtuneError(f"{path}: line {line}: found no text, expected some to learn from")
        if no_character := NO_CHARACTER.search(text):
            raise SubtuneError(f"{path}: line {line}: found {no_character[0]!r}, expected text")
        yield f"line {line}", row


def _require_two_labels(task: TaskSpec, path: Path, labels: list) -> None:
    if len(set(labels)) == 1:
        label = task.labels[labels[0]] if task.labels else labels[0]
        raise SubtuneError(
            f"{path}: found the label {label!r} in every row, expected at least two labels"
        )
