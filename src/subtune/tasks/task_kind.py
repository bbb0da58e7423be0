"""The interface of all kinds of tasks, from reading a row to computing scores.

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

from subtune.core.errors import SubtuneError, format_missing_column, quote, shorten
from subtune.tasks import metrics
from subtune.tasks.examples import IGNORED, Examples
from subtune.tasks.row_sets import SET, find_sets

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from subtune.tasks.task import TaskSpec


# The number that stands for a missing label, as in GLUE's test sets on the hub.
NO_LABEL = -1
# In regression tasks, labels are split into this many quantile bins, which serve as strata.
RANGES = 10
# The column of a split with the place of each row in its file, such as ``line 3``.
PLACE = "place"
# Characters that occur only in damaged files: NUL and surrogates.
NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
# The cells of a row by column.
Cells = dict[str, Any]
# The place of a row, such as ``line 3``, and the cells of the row.
PlacedRow = tuple[str, Cells]
# The columns of one split by name, as lists of equal length.
Columns = dict[str, list]


def _require_text(text: str) -> str:
    if not text.strip() or NO_CHARACTER.search(text):
        raise ValueError(f"found {quote(text)}, expected text")
    return text


# Text that is not blank.
Text = Annotated[str, AfterValidator(_require_text)]


def pair_with_places(rows: Iterable[Cells]) -> Iterator[PlacedRow]:
    """Pair each row with its place, such as ``row 1`` for the first row."""
    return ((f"row {number}", row) for number, row in enumerate(rows, start=1))


class TaskKind(ABC):
    """Interface for everything that differs between kinds of tasks.

    Attributes:
        value_type: the type of compared values, a key of `subtune.tasks.metrics.METRICS`.
        metrics: the metrics that a task can use.
        default_metrics: the metrics of a task that lists none. If empty, a task must list metrics.
        text: the text columns of all tasks of this kind. If empty, a task lists its own columns.
        text_columns: the allowed numbers of text columns.
        label: the default label column.
        has_label_columns: true if a row may have any number of labels, possibly in one column each.
        outputs: the number of outputs ``o`` of the head; None means the number of label words.
        labels_are: the end of the error message for equal labels; empty if equal labels are
            allowed.
        head: the type of the head, a name in `subtune.models.families`.
        problem_type: the ``problem_type`` of exported models in transformers.
        overlaps: true if long rows are cut into overlapping examples.
    """

    name: str
    value_type: str = "classes"
    metrics: tuple[str, ...]
    default_metrics: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_columns: tuple[int, ...] = (1, 2)
    label: str = "label"
    has_label_columns: bool = False
    outputs: int | None = None
    labels_are: str = "in every row"
    head: str
    problem_type: str | None = None
    overlaps: bool = False

    @property
    def has_label_words(self) -> bool:
        """True if labels are words from a fixed list, such as ``positive``."""
        return self.outputs is None

    @property
    def has_numbers(self) -> bool:
        return self.value_type == "numbers"

    def loss_to_nats_factor(self, outputs: int) -> float:
        """Return the factor by which the loss is multiplied to get −log p(y|x)."""
        return 1.0

    @abstractmethod
    def column_types(self, task: TaskSpec) -> Mapping[str, Any]:
        """Map the columns that depend on the kind to types. The type of lists is ``[type]``."""

    def from_rows(
        self, task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
    ) -> Columns:
        """Convert the rows of one split to columns. Error messages begin with ``source``.

        The columns are ``idx`` (the indices of the rows, from 0), `PLACE`, those of `column_types`,
        and `SET` (see `subtune.tasks.row_sets`).
        """
        table, groups = [], []
        for number, (where, row) in enumerate(rows):
            place = f"{source}: {where}"
            for column in task.columns_read(labelled):
                if column not in row:
                    raise SubtuneError(f"{place}: {format_missing_column(column, row)}")
            table.append((number, where, *self.parse_row(task, row, labelled, place)))
            group = row.get(task.group) if task.group else None
            groups.append(None if group is None else str(group))
        if not table:
            raise SubtuneError(f"{source}: found no rows, expected at least one")
        columns = map(list, zip(*table, strict=True))
        found = dict(zip(("idx", PLACE, *self.column_types(task)), columns, strict=True))
        return found | {SET: find_sets(self.texts(found), groups)}

    @abstractmethod
    def parse_row(self, task: TaskSpec, row: Cells, labelled: bool, place: str) -> tuple:
        """Read the values of a row, in the order of `column_types`, or raise a `SubtuneError`."""

    def require_different_labels(
        self, task: TaskSpec, split: str, path: Path, columns: Columns
    ) -> None:
        """Check that a split has two different labels, if training or a metric requires them."""
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
        """Tokenize rows, and return the resulting examples as columns.

        The columns are ``input_ids``, ``token_type_ids``, ``label`` and the columns that `predict`
        needs. If a row can have several examples, ``row`` contains the index of each example's row.
        """

    def losses(
        self, logits: Tensor, labels: Tensor, example: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sum the losses in a batch for each run ``[k]``. By default, they are cross-entropies.

        Args:
            logits: the logits of all tokens that the head reads ``[k, q, o]``.
            labels: the labels; by default one number per token ``[q]``.
            example: the index of each token's example in the batch ``[q]``.
            weights: the weight of each label word ``[o]``, from `balanced_weights`; None means 1.
        """
        counts, known = labels != IGNORED, labels.clamp(min=0)
        each = -logits.mT.log_softmax(1).gather(1, known.expand(len(logits), 1, -1)) * counts
        if weights is not None:
            each = each * weights[known].to(each.dtype)
        return each.sum((1, 2))

    def loss_divisor(self, labels: Tensor, weights: Tensor | None) -> Tensor | float:
        """Return the divisor for the mean loss: the number of labels, or their total weight."""
        if weights is None:
            return float(len(labels))
        return (weights[labels.clamp(min=0)] * (labels != IGNORED)).sum()

    def balanced_weights(self, task: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """Compute the weight of each label word ``[o]``, like ``balanced`` weights in scikit-learn.

        The mean weight over ``labels`` is 1. A `SubtuneError` is raised if a label word occurs in
        no example or in every example.
        """
        counts = np.bincount(labels, minlength=task.outputs)
        require_weightable_labels(task, counts, len(labels))
        return len(labels) / (len(counts) * counts)

    def strata(self, labels: np.ndarray, ranges: int = RANGES) -> np.ndarray:
        """Return the stratum of each row for stratified sampling, by default its label."""
        return labels

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        """Compute predictions from finite logits ``[q, o]``; by default, return the logits."""
        return logits

    @abstractmethod
    def prediction_table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Build the table of predictions and labels that a record stores."""

    @abstractmethod
    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        """Return the inputs of the metrics from ``table``: predictions and references."""

    def score(self, task: TaskSpec, table: pd.DataFrame) -> dict[str, float]:
        """Compute the metrics of the task from a table that `prediction_table` has built."""
        return metrics.compute_metrics(self.value_type, task.metrics, *self.metric_inputs(table))


def require_weightable_labels(task: TaskSpec, counts: np.ndarray, labels: int) -> None:
    """Check that each label word occurs in some, but not in all, of ``labels`` examples."""
    for word, count in zip(task.labels or (), counts, strict=True):
        if count in (0, labels):
            raise SubtuneError(
                f"found label {shorten(word)!r} in {'all' if count else 'none'} of {labels:,} "
                "training examples, expected some examples with and some without this label"
            )
