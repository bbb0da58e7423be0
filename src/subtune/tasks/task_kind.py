"""The interface of a kind of task, from a row of cells to a score.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` outputs of the head.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError, cut, one_of, shown
from subtune.tasks import metrics
from subtune.tasks.examples import GROUP, IGNORED, Examples

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from subtune.tasks.task import TaskSpec


# The label of a row or word without one, as on the hub.
NO_LABEL = -1
# Characters of broken files: NUL and surrogates.
NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
# A row's cells by column, and the row's place, such as ``line 3``.
Cells = dict[str, Any]
PlacedRow = tuple[str, Cells]
# The columns of one split, as lists of equal length.
Columns = dict[str, list]


def _not_blank(text: str) -> str:
    if not text.strip() or NO_CHARACTER.search(text):
        raise ValueError(f"found {shown(text)}, expected text")
    return text


# Text that is not blank.
Text = Annotated[str, AfterValidator(_not_blank)]


def number_rows(rows: Iterable[Cells]) -> Iterator[PlacedRow]:
    """Yield rows with their numbers as places."""
    return ((f"row {number}", row) for number, row in enumerate(rows, start=1))


class TaskKind(ABC):
    """The interface of a kind of task: everything that differs between kinds.

    Attributes:
        name: the kind's name in configurations.
        compares: the key of its metrics in `subtune.tasks.metrics.METRICS`.
        metrics: the metrics that a task may name.
        default_metrics: the metrics of a task that names none; if empty, a task must name some.
        text: the text columns of every task; if empty, a task names its own.
        text_columns: the allowed numbers of text columns.
        label: the default label column.
        has_label_words: true if a task has label words.
        has_label_columns: true if each label word may have a column, and a row no label.
        outputs: the head's width ``o``; None: the number of label words.
        labels_are: the end of the message that all labels are the same; empty if they may be.
        reader: the name of the files' reader in `subtune.data.sources.READERS`.
        head: a name in `subtune.models.families`.
        problem_type: the problem type of exported models in transformers.
        overlaps: true if long rows are cut into overlapping examples.
    """

    name: str
    compares: str = "classes"
    metrics: tuple[str, ...]
    default_metrics: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_columns: tuple[int, ...]
    label: str = "label"
    has_label_words: bool
    has_label_columns: bool = False
    outputs: int | None = None
    labels_are: str = "in every row"
    reader: str
    head: str
    problem_type: str | None = None
    overlaps: bool = False

    @property
    def has_numbers(self) -> bool:
        """True if labels are numbers, which can be standardised."""
        return self.compares == "numbers"

    def nats(self, outputs: int) -> float:
        """Return the factor from the loss to −log p(y|x), for a head with ``outputs`` outputs."""
        return 1.0

    @abstractmethod
    def column_types(self, task: TaskSpec) -> Mapping[str, Any]:
        """Map each column of a split, except ``idx``, to its type.

        ``[type]`` is a list of this type.
        """

    def from_rows(
        self, task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
    ) -> Columns:
        """Return the columns of one split: ``idx``, the rows' numbers from 0, `column_types`, and
        ``group`` if the task names such a column.

        Args:
            task: the task.
            rows: cells with their places.
            labelled: whether the rows have labels.
            source: the beginning of messages, such as a file.

        Raises:
            SubtuneError: ``source`` has no rows, or a row does not fit the task.
        """
        table, groups = [], []
        for number, (where, row) in enumerate(rows):
            place = f"{source}: {where}"
            for column in task.columns_read(labelled):
                if column not in row:
                    raise SubtuneError(f"{place}: no such column: {one_of(column, row)}")
            table.append((number, *self.read_cells(task, row, labelled, place)))
            # A row without a group is a group of its own.
            groups.append(str(row.get(task.group or "") or f"row {number}"))
        if not table:
            raise SubtuneError(f"{source}: found no rows, expected at least one")
        columns = map(list, zip(*table, strict=True))
        found = dict(zip(("idx", *self.column_types(task)), columns, strict=True))
        return found | ({GROUP: groups} if task.group else {})

    @abstractmethod
    def read_cells(self, task: TaskSpec, row: Cells, labelled: bool, place: str) -> tuple:
        """Return a row's cells in the order of `column_types`.

        Raises:
            SubtuneError: the row at ``place`` does not fit the task.
        """

    def require_sound(self, task: TaskSpec, split: str, path: Path, columns: Columns) -> None:
        """Refuse labels that are all the same, in training rows or if a metric needs several."""
        if split != "train" and metrics.COEFFICIENTS.isdisjoint(task.metrics):
            return
        labels = set(np.hstack(columns["label"]).tolist())
        if self.labels_are and split in task.labelled_splits and len(labels) == 1:
            [label] = labels
            label = task.labels[label] if task.labels else label
            raise SubtuneError(
                f"{path}: found the label {label!r} {self.labels_are}, expected at least two labels"
            )

    @abstractmethod
    def texts(self, columns: Columns) -> Iterable[Sequence[str]]:
        """Return the texts of each row."""

    @abstractmethod
    def encode(
        self, tokenizer: Tokenizer, rows: Columns, max_length: int, doc_stride: int | None
    ) -> dict[str, list]:
        """Return the columns of the rows' examples.

        They are ``input_ids``, ``token_type_ids`` and ``label``, and columns that `predict` needs.
        Unless each row is one example, ``row`` has the number of each example's row, from 0.
        """

    def losses(
        self, logits: Tensor, labels: Tensor, example: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return each run's sum of losses ``[k]``, from logits ``[k, q, o]`` and a batch's labels.

        By default, the loss is the cross-entropy.

        Args:
            logits: the logits of all tokens that the head reads.
            labels: by default, a number per token ``[q]``.
            example: the example of each token ``[q]``.
            weights: the weight of each label word ``[o]``, from `balanced_weights`.
        """
        counts, known = labels != IGNORED, labels.clamp(min=0)
        each = -logits.mT.log_softmax(1).gather(1, known.expand(len(logits), 1, -1)) * counts
        if weights is not None:
            each = each * weights[known].to(each.dtype)
        return each.sum((1, 2))

    def loss_divisor(self, labels: Tensor, weights: Tensor | None) -> Tensor | float:
        """Return the divisor of the mean loss: the number of labels, or the sum of their
        weights."""
        if weights is None:
            return float(len(labels))
        return (weights[labels.clamp(min=0)] * (labels != IGNORED)).sum()

    def balanced_weights(self, task: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """Return scikit-learn's balanced weight of each label word ``[o]``.

        It is inverse to the word's frequency in ``labels``, and its mean over labels is 1.

        Raises:
            SubtuneError: a label word has no row, or all rows.
        """
        counts = np.bincount(labels, minlength=task.outputs)
        require_some(task, counts, len(labels))
        return len(labels) / (len(counts) * counts)

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """Return the number of each row's stratum, of which each fold has about the same share."""
        return labels

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        """Return a split's predictions from finite logits ``[q, o]``: by default the logits."""
        return logits

    @abstractmethod
    def prediction_table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return a table of predictions and labels for the record."""

    @abstractmethod
    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        """Return the predictions and references that metrics compare, from recorded predictions."""

    def score(self, task: TaskSpec, table: pd.DataFrame) -> dict[str, float]:
        """Return the task's metrics for a table from `prediction_table`."""
        return metrics.compute_all(self.compares, task.metrics, *self.metric_inputs(table))


def require_some(task: TaskSpec, counts: np.ndarray, labels: int) -> None:
    """Refuse label words that no row or every row has: they have no weight by frequency."""
    for word, count in zip(task.labels or (), counts, strict=True):
        if count in (0, labels):
            raise SubtuneError(
                f"found label {cut(word)!r} in {'all' if count else 'none'} of {labels:,} rows to "
                "train on, expected some with and some without it"
            )
