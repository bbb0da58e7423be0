"""Texts or pairs of texts with any number of labels each, such as the topics of a message.

Shapes: ``k`` runs, ``n`` examples, ``o`` label words.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from subtune.core.errors import SubtuneError
from subtune.tasks.formats.text import in_words, shown
from subtune.tasks.metrics import METRICS
from subtune.tasks.sentences import NO_LABEL, Sentences, number_of
from subtune.tasks.task_kind import Columns, Row, require_some

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from subtune.tasks.task import TaskSpec

# Cells of tables that say whether a row has a label.
FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def flag_in(cell: Any) -> int | None:
    """Return the 0 or 1 that a cell means, or None."""
    return FLAGS.get(str(cell).strip().casefold())


def words_in(cell: Any) -> list[str] | None:
    """Return the labels in a cell, or None if it holds none.

    It is a list, or the text of one as JSON or Python writes it, or labels between ``|`` or ``;``.
    """
    if isinstance(cell, str) and not cell.lstrip().startswith("["):
        cell = [word for word in re.split(r"[|;]", cell) if word.strip()]
    for read in (json.loads, ast.literal_eval) if isinstance(cell, str) else ():
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            cell = read(cell.strip())
            break
    if isinstance(cell, list) and all(isinstance(word, str | int) for word in cell):
        return [str(word).strip() for word in cell]
    return None


class MultiLabel(Sentences):
    """Any number of label words for a text or a pair of texts: a sigmoid for each."""

    name = "multilabel"
    compares = "label_sets"
    metrics = tuple(METRICS["label_sets"])
    default_metrics = metrics
    has_label_words = True
    has_label_columns = True
    problem_type = "multi_label_classification"
    label_type: ClassVar[list[str]] = ["int32"]

    def nats(self, outputs: int) -> float:
        """Return the number of labels: log p is a sum over them, and a loss their mean."""
        return float(outputs)

    def label_of(self, task: TaskSpec, row: Row, place: str) -> list[int]:
        """Return 0 or 1 for each label word."""
        if isinstance(task.label, str):
            return self.parse_label(task, row[task.label], place)
        flags: dict[str, Any] = {column: flag_in(row[column]) for column in task.label}
        if wrong := [column for column, flag in flags.items() if flag is None]:
            found = in_words(row[wrong[0]])
            raise SubtuneError(f"{place}: column {wrong[0]!r}: found {found}, expected 0 or 1")
        return [*flags.values()]

    def parse_label(self, task: TaskSpec, text: Any, place: str) -> list[int]:
        """Return 0 or 1 for each label word, from a cell with those of a row."""
        words, known = words_in(text), task.labels or ()
        if words is None:
            found = shown(text) if isinstance(text, str) else in_words(text)
            raise SubtuneError(
                f'{place}: label: found {found}, expected a list such as ["{known[0]}"], or '
                f"labels between '|' or ';'"
            )
        numbers = [number_of(word, task, place) for word in words]
        for number in numbers:
            if numbers.count(number) > 1:
                raise SubtuneError(
                    f"{place}: label: found {known[number]!r} twice, expected each label once"
                )
        return [int(number in numbers) for number in range(len(known))]

    def no_label(self, task: TaskSpec) -> list[int]:
        """Return -1 for each label word."""
        return [NO_LABEL] * len(task.labels or ())

    def require_sound(self, task: TaskSpec, split: str, path: Path, columns: Columns) -> None:
        """Refuse training rows that all have the same labels."""
        if split == "train" and len(set(map(tuple, columns["label"]))) == 1:
            [*words] = np.compress(columns["label"][0], task.labels or ())
            found = f"the labels {', '.join(words)}" if words else "no label"
            raise SubtuneError(f"{path}: found {found} in every row, expected rows that differ")

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """Return each row's rarest label, or -1 if it has none."""
        counts = np.where(labels, labels.sum(0), np.inf)
        return np.where(labels.any(1), counts.argmin(1), NO_LABEL)

    def balanced(self, task: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """Return how many rows have a label not, for each that has it, ``[o]``."""
        having = labels.sum(0)
        require_some(task, having, len(labels))
        return (len(labels) - having) / having

    def losses(
        self, logits: Tensor, labels: Tensor, example: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return each run's sum of the mean binary cross-entropy over labels ``[n, o]``.

        ``weights`` are those of labels that an example has.
        """
        is_so = labels.to(logits.dtype)
        each = ((1 - 2 * is_so) * logits).logaddexp(logits.new_zeros(()))
        if weights is not None:
            each = each * (1 + (weights.to(logits.dtype) - 1) * is_so)
        return each.mean(2).sum(1)

    def total(self, labels: Tensor, weights: Tensor | None) -> float:
        """Return the number of examples."""
        return float(len(labels))

    def compared(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        predicted = (table.filter(like="logit_").to_numpy() > 0).astype(int)
        expected: Any = np.stack(table["label"].to_numpy())
        return predicted, expected
