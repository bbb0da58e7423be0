"""What classification and regression have in common: texts or pairs of texts, with one label each.

Shapes: ``n`` examples, each of one row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import delimited, json_lines
from subtune.tasks.formats.text import NO_CHARACTER
from subtune.tasks.kind import FromRows, PlacedRow

if TYPE_CHECKING:
    import pandas as pd
    from tokenizers import Tokenizer

    from subtune.tasks.examples import Examples
    from subtune.tasks.task import TaskSpec

NO_LABEL = -1
TEXTS = ("text_a", "text_b")
FORMATS = (".csv", ".tsv", ".jsonl")

# The number of a label, of its text and the place that error messages name.
ParseLabel = Callable[["TaskSpec", str, str], float | int]


def columns(label: str) -> Callable[[TaskSpec], Mapping[str, Any]]:
    """Types of the columns, with labels of one type: ``text_b`` is there for pairs only."""

    def types(task: TaskSpec) -> Mapping[str, Any]:
        return dict.fromkeys(TEXTS[: len(task.text)], "string") | {"label": label}

    return types


def reader(parse_label: ParseLabel) -> Callable[[TaskSpec, Path, bool], Iterator[PlacedRow]]:
    """How a user's files are read: CSV, TSV, or JSON-lines."""

    def read(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
        columns = (*task.text, *((task.label,) if labelled else ()))

        def is_row(cells: Mapping[str, str]) -> bool:
            return labelled and _is_label(parse_label, task, cells.get(task.label, ""))

        for line, row in rows_of(path, columns, is_row):
            _require_text(task, f"{path}: line {line}", row)
            yield f"line {line}", row

    return read


def rows_of(
    path: Path, columns: Collection[str], is_row: Callable[[Mapping[str, str]], bool]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file in one of `FORMATS`, by column, each with its line.

    Args:
        path: a UTF-8 file.
        columns: those that are read, and so may not be there twice.
        is_row: whether the cells of a line can be a whole row, as `delimited.rows` asks it.

    Raises:
        SubtuneError: the file cannot be read as what its ending says.
    """
    try:
        if path.suffix == ".jsonl":
            yield from json_lines.rows(path, columns)
        else:
            yield from delimited.rows(path, "," if path.suffix == ".csv" else "\t", columns, is_row)
    except UnicodeDecodeError as error:
        raise SubtuneError(f"{path}: not a readable {path.suffix} file: {error}") from None


def _is_label(parse_label: ParseLabel, task: TaskSpec, cell: str) -> bool:
    """Whether a cell is a label and nothing else, no space around it either."""
    try:
        parse_label(task, cell, "")
    except SubtuneError:
        return False
    return cell == cell.strip()


def _require_text(task: TaskSpec, place: str, row: Mapping[str, Any]) -> None:
    """Each row has something to read."""
    text = " ".join(str(row.get(column, "?")) for column in task.text)
    if not text.strip():
        raise SubtuneError(f"{place}: found no text, expected some to learn from")
    if no_character := NO_CHARACTER.search(text):
        raise SubtuneError(f"{place}: found {no_character[0]!r}, expected text")


def from_rows(parse_label: ParseLabel) -> FromRows:
    """How rows of cells become columns: the texts as they are, and labels as numbers.

    The columns are ``idx``, ``text_a``, ``text_b`` (pairs only) and ``label``; without labels every
    label is -1, as on the hub.
    """

    def make(
        task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
    ) -> dict[str, list]:
        names = TEXTS[: len(task.text)]
        table: dict[str, list] = {name: [] for name in ("idx", *names, "label")}
        for number, (where, row) in enumerate(rows):
            place = f"{source}: {where}"
            for column in (*task.text, *((task.label,) if labelled else ())):
                if column not in row:
                    raise SubtuneError(f"{place}: no such column: {one_of(column, row)}")
                if not isinstance(row[column], str):
                    raise SubtuneError(
                        f"{place}: column {column!r}: found {_in_json(row[column])}, "
                        "expected text or a number"
                    )
            table["idx"].append(number)
            for name, column in zip(names, task.text, strict=True):
                table[name].append(row[column])
            label = parse_label(task, row[task.label], place) if labelled else NO_LABEL
            table["label"].append(label)
        if not table["idx"]:
            raise SubtuneError(f"{source}: found no rows, expected at least one")
        return table

    return make


def _in_json(value: Any) -> str:
    """What a cell holds that is no text, as its file calls it."""
    if isinstance(value, list | tuple):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)


def require_two_labels(
    task: TaskSpec, split: str, path: Path, columns: Mapping[str, list], judged: Iterable[str]
) -> None:
    """Refuse labels that are all the same, in training or where one of ``judged`` needs two.

    Raises:
        SubtuneError: they are.
    """
    labels = columns["label"]
    matters = split == "train" or (
        split in task.labelled and not set(judged).isdisjoint(task.metrics)
    )
    if matters and len(set(labels)) == 1:
        label = task.labels[labels[0]] if task.labels else labels[0]
        raise SubtuneError(
            f"{path}: found the label {label!r} in every row, expected at least two labels"
        )


def texts(columns: Mapping[str, list]) -> Iterable[Sequence[str]]:
    """Each row's texts."""
    return zip(*(columns[name] for name in TEXTS if name in columns), strict=True)


def encode(
    tokenizer: Tokenizer,
    rows: Mapping[str, list],
    max_length: int,
    doc_stride: int | None,
    *,
    with_token_types: bool,
) -> dict[str, list]:
    """Token ids of texts or pairs, the longer text cut first to ``max_length``."""
    tokenizer.enable_truncation(max_length)
    texts = rows["text_a"]
    pairs = list(zip(texts, rows["text_b"], strict=True)) if "text_b" in rows else texts
    encodings = tokenizer.encode_batch(pairs)
    columns = {"input_ids": [encoding.ids for encoding in encodings], "label": rows["label"]}
    if with_token_types:
        columns["token_type_ids"] = [encoding.type_ids for encoding in encodings]
    return columns


def logits_as_they_are(examples: Examples, logits: np.ndarray) -> np.ndarray:
    """``[n, o]``."""
    return logits


def table(examples: Examples, logits: np.ndarray) -> pd.DataFrame:
    """``idx`` (the row's number), ``label`` and a logit per output."""
    import pandas as pd

    columns = {"idx": np.arange(len(logits)), "label": examples.labels}
    columns |= {f"logit_{k}": logits[:, k] for k in range(logits.shape[1])}
    return pd.DataFrame(columns)
