"""The fields of a task, and the interface of all kinds of tasks, from a row to its scores.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` outputs of the head.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError, locate_errors, quote, shorten
from subtune.core.ids import HashableModel
from subtune.core.user_code import require_planned_code
from subtune.tasks import metrics
from subtune.tasks.examples import IGNORED, Examples

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

# All kinds of tasks by name, which `subtune.tasks.task` lists. Code outside this package uses this
# mapping, and does not refer to single kinds.
KINDS: dict[str, TaskKind] = {}

# The number that stands for a missing label, as in GLUE's test sets on the hub.
NO_LABEL = -1
# In regression tasks, labels are split into this many quantile bins, which serve as strata.
RANGES = 10
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


def default_kind(labels: Sequence[str] | None) -> str:
    """Return the kind of a task for which no kind is given."""
    return "classification" if labels else "regression"


class TaskSpec(HashableModel):
    """The fields of a task that affect results, validated for the task's kind.

    Attributes:
        label: the label column, or one 0/1 column for each label word.
        labels: the label words, numbered from 0; None for tasks without label words.
        kind: the kind of the task, a key of `KINDS`.
        metrics: names of metrics. The best epoch is selected by the first metric on the first split
            of ``evaluation``. Tables select by the same metric, unless the paper uses another one.
        evaluation: the splits that are scored.
        encoding: the encoding of text files; None means UTF-8 or UTF-16.
        sheet: the sheet of Excel files; None means the first.
        group: the column with the group of a row, such as its author. Folds do not split groups.
        metric_code: the hash of the user's own metrics; None if there are none.
    """

    name: str
    text: tuple[str, ...]
    label: str | tuple[str, ...] = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    kind: str = Field(
        default_factory=lambda data: default_kind(data.get("labels")),
        # These two kinds can be derived from `labels`. Therefore, they are not part of an id.
        exclude_if=lambda kind: kind in ("classification", "regression"),
    )
    metrics: tuple[str, ...]
    evaluation: tuple[str, ...] = ("validation",)
    encoding: str | None = None
    sheet: str | None = None
    group: str | None = None
    metric_code: str | None = None

    @property
    def of_kind(self) -> TaskKind:
        return KINDS[self.kind]

    @property
    def outputs(self) -> int:
        """The number of outputs of the head, by default the number of label words."""
        return self.of_kind.outputs or len(self.labels or ())

    @property
    def scorers(self) -> tuple[str, ...]:
        """The metrics that are not built in."""
        return tuple(filter(metrics.is_scorer, self.metrics))

    @property
    def labelled_splits(self) -> tuple[str, ...]:
        """The splits with labels: the training and evaluation splits."""
        return ("train", *self.evaluation)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The label columns: one, or one for each label word."""
        return (self.label,) if isinstance(self.label, str) else self.label

    def columns_read(self, labelled: bool) -> tuple[str, ...]:
        if not labelled:
            return self.text
        return (*self.text, *self.label_columns, *filter(None, [self.group]))

    @model_validator(mode="after")
    def _validate_for_kind(self) -> Self:
        kind, has_one = self.of_kind, isinstance(self.label, str)
        words = "label words" if kind.has_label_words else "none"
        each = f"one column or one for each of {self.outputs} labels"
        number = "1 or 2 columns" if 2 in kind.text_columns else "1 column"
        known = f"metrics for {kind.name!r} tasks: {', '.join(kind.metrics)}"
        if kind.has_scorers:
            known += "; or scorers of scikit-learn"
        others = [
            name
            for name in self.metrics
            if name not in kind.metrics and not (kind.has_scorers and metrics.is_scorer(name))
        ]
        rules = [
            ("labels", kind.has_label_words == (self.labels is not None), words),
            ("label", has_one or kind.has_label_columns, "one column"),
            ("label", has_one or len(self.label) == self.outputs, each),
            ("text", kind.text in ((), self.text), f"{', '.join(kind.text)}, or no `text`"),
            ("label", not kind.text or self.label == kind.label, f"{kind.label!r}, or no `label`"),
            ("text", len(self.text) in kind.text_columns, number),
            ("metrics", bool(self.metrics) and not others, known),
        ]
        for key, is_valid, expected in rules:
            if not is_valid:
                found = others if key == "metrics" else getattr(self, key)
                listed = repr(found) if isinstance(found, str) else ", ".join(found or ()) or "none"
                raise ValueError(f"{key}: found {listed}, expected {expected}")
        if kind.has_label_words and "f1" in self.metrics and self.outputs > 2:
            raise ValueError(
                f"metrics: 'f1' requires exactly two labels, but there are {self.outputs}; use "
                "accuracy, f1_macro or matthews_correlation"
            )
        return self


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
        has_scorers: true if metrics can also be scorers of scikit-learn.
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
    has_scorers: bool = False

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

    @abstractmethod
    def parse_row(self, task: TaskSpec, row: Cells, labelled: bool, place: str) -> tuple:
        """Read the values of a row, in the order of `column_types`, or raise a `SubtuneError`."""

    def require_different_labels(
        self, task: TaskSpec, split: str, path: Path, columns: Columns
    ) -> None:
        """Check that a split has two different labels, if training or a metric requires them."""
        needing = metrics.COEFFICIENTS | {*task.scorers}
        if split != "train" and needing.isdisjoint(task.metrics):
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
        """Compute the metrics of the task from a table that `prediction_table` has built.

        A `SubtuneError` is raised if a scorer fails, or if its code has changed since the plan.
        """
        built_in = [name for name in task.metrics if not metrics.is_scorer(name)]
        scores = metrics.compute_metrics(self.value_type, built_in, *self.metric_inputs(table))
        if task.scorers:
            # Importing scikit-learn takes a second.
            from subtune.tasks.scorers import compute_score

            logits, labels = table.filter(like="logit_").to_numpy(), table["label"].to_numpy()
            with locate_errors("metrics"):
                require_planned_code(task.scorers, task.metric_code)
                for name in task.scorers:
                    scores[name] = compute_score(name, logits, labels, task.metric_code)
        return {name: scores[name] for name in task.metrics}


def require_weightable_labels(task: TaskSpec, counts: np.ndarray, labels: int) -> None:
    """Check that each label word occurs in some, but not in all, of ``labels`` examples."""
    for word, count in zip(task.labels or (), counts, strict=True):
        if count in (0, labels):
            raise SubtuneError(
                f"found label {shorten(word)!r} in {'all' if count else 'none'} of {labels:,} "
                "training examples, expected some examples with and some without this label"
            )
