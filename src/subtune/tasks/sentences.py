"""Classification, multi-label classification and regression of texts or pairs of texts.

Shapes: ``k`` runs, ``n`` examples, ``o`` label words.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import itertools
import json
import math
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError, format_allowed, quote
from subtune.tasks.examples import Examples
from subtune.tasks.metrics import METRICS
from subtune.tasks.task_kind import (
    NO_CHARACTER,
    NO_LABEL,
    RANGES,
    Cells,
    Columns,
    TaskKind,
    TaskSpec,
    require_weightable_labels,
)

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

TEXT_COLUMNS = ("text_a", "text_b")
# The largest absolute value of a label for which squared errors can be summed in float32.
LARGEST_NUMBER = 1e9
# Invisible characters that do not belong to Unicode's category Cf.
INVISIBLE = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x3164, *range(0xFE00, 0xFE10))))
# Numbers, with digits of any script. Python's float would also accept 1_2 and nan.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# Numbers with a decimal comma, except those in which the comma may separate thousands (1,234).
DECIMAL_COMMA = re.compile(r"[+-]?(?![1-9]\d{0,2},\d{3}$)\d+,\d+")
# An integer that was stored as a float, as in pandas columns with missing values.
INTEGER_AS_FLOAT = re.compile(r"^([+-]?\d+)\.0$")
# Characters that may separate the labels in a cell, the most likely first.
SEPARATORS = ("|;", ",", "#")
# The cells of a 0/1 column, in which 1 means that the row has the label.
FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
# Words and marks with the same meanings.
MARKS = FLAGS | dict.fromkeys(("no", "n", "nein", "non"), 0)
MARKS |= dict.fromkeys(("yes", "y", "ja", "oui", "x", "✓", "✔", "☑"), 1)
# The beginning of a list or an object: a bracket, or a tuple, a call or bytes as Python, NumPy and
# R print them.
LIST_CELL = re.compile(r"\s*([\[{]|\(\s*(['\")]|\d+\s*,)|(frozenset|set|array|c)\(|b['\"])")
# The argument of such a call. A tuple is a call without a name.
CALL = re.compile(r"(?s)[a-z]*\((.*?),?(\s*dtype=[^()]*)?\)")
# A list without quotation marks around its labels, as Java and PostgreSQL write it.
UNQUOTED = re.compile(r"[\[{]([^\[\]{}':=\r\n]*)[\]}]")


def parse_number(text: str) -> float | None:
    """Parse a finite number, or return None.

    A comma is read as a decimal point, unless it may separate thousands.
    """
    text = text.strip()
    if DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


@lru_cache(maxsize=10_000)
def plain_label(label: str) -> str:
    """Normalise a label to Unicode NFC, without invisible characters and needless white space.

    An integer that was stored as a float, such as ``1.0``, becomes ``1``. Case is kept.
    """
    letters = unicodedata.normalize("NFC", label)
    visible = (c for c in letters if c not in INVISIBLE and unicodedata.category(c) != "Cf")
    return INTEGER_AS_FLOAT.sub(r"\1", " ".join("".join(visible).split()))


@lru_cache(maxsize=100)
def map_labels_to_indices(words: tuple[str, ...]) -> Mapping[str, int]:
    """Map each label word, normalised by `plain_label`, to its number from 0.

    If no label word contains a digit, the numbers are also keys, as strings such as ``"0"``.
    """
    numbers = {plain_label(word): number for number, word in enumerate(words)}
    if not any(letter.isdigit() for word in words for letter in word):
        numbers |= {str(number): number for number in range(len(words))}
    return numbers


def find_label_index(text: str, task: TaskSpec, place: str) -> int:
    """Return the number of a label word, or raise a `SubtuneError` about the text at ``place``."""
    numbers, text = map_labels_to_indices(task.labels or ()), plain_label(text)
    if text not in numbers:
        raise SubtuneError(f"{place}: label: {format_allowed(text, numbers)}")
    return numbers[text]


def parse_flag(cell: Any) -> int | None:
    """Parse a cell in a 0/1 column, or return None if the cell has another value."""
    return MARKS.get(str(cell).strip().casefold())


def is_list(cell: Any) -> bool:
    """Return whether a cell is a list or an object, possibly written as a string."""
    return bool(LIST_CELL.match(cell)) if isinstance(cell, str) else cell is not None


def parse_label(cell: Any) -> Any:
    """Unpack a list with a single label. Other cells, such as ``[a]``, are returned unchanged."""
    words = parse_labels(cell) if is_list(cell) else None
    is_bare = isinstance(cell, str) and not re.search("['\"\\d]", cell)
    return words[0] if words and len(words) == 1 and not is_bare else cell


def parse_labels(cell: Any, separators: str = SEPARATORS[0]) -> list[str] | None:
    """Parse the labels in a cell, or return None if the cell is not valid.

    A cell can be a list; a list, set or tuple as a string, in the syntax of JSON, Python, NumPy, R
    or PostgreSQL; an object with a single list, such as Label Studio's ``{"choices": ["a", "b"]}``;
    text with labels separated by ``separators``; or None, which means no label.
    """
    if isinstance(cell, str | None) and not is_list(cell):
        cell = (cell or "").strip()
        parts = re.split(f"[{separators}]", cell)
        words = [word.strip() for word in parts if word.strip()]
        # In a label such as C#, the last character is not a separator.
        is_split = separators == SEPARATORS[0] or len(words) == len(parts)
        return words if is_split or not cell else [cell]
    if isinstance(cell, str):
        # NumPy prints lists without commas, as in ['a' 'b'] or [0 1].
        gap = r"(?<=['\"])\s+(?=['\"])" if re.search("['\"]", cell) else r"(?<=\d)\s+(?=\d)"
        cell = re.sub(gap, ", ", cell.strip())
        if call := CALL.fullmatch(cell):
            cell = call[1] if call[1].startswith(("[", "{")) else f"[{call[1]}]"
    for read in (json.loads, ast.literal_eval, _read_unquoted) if isinstance(cell, str) else ():
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            cell = read(cell)
            break
    if isinstance(cell, dict) and len(cell) == 1:
        [cell] = cell.values()
    if isinstance(cell, list | set) and all(isinstance(word, str | int) for word in cell):
        return [str(word).strip() for word in cell]
    return None


def _read_unquoted(cell: str) -> list[str]:
    """Read a list of labels without quotation marks. Raises a ValueError for another text."""
    if inner := UNQUOTED.fullmatch(cell):
        return next(csv.reader([inner[1]], skipinitialspace=True), [])
    raise ValueError(cell)


def _parse_known_labels(cell: Any, known: Collection[str]) -> list[str] | None:
    """Parse a cell with the separators that give the highest share of known labels."""

    def known_share(words: list[str] | None) -> float:
        return sum(plain_label(word) in known for word in words or ()) / len(words or "-")

    return max((parse_labels(cell, separators) for separators in SEPARATORS), key=known_share)


def separate_texts(pairs: Columns) -> Columns:
    """Convert each pair of texts to two adjacent rows with one text each."""
    texts = zip(*(pairs[name] for name in TEXT_COLUMNS), strict=True)
    labels = [label for label in pairs["label"] for _ in TEXT_COLUMNS]
    return {TEXT_COLUMNS[0]: [*itertools.chain(*texts)], "label": labels}


class Sentences(TaskKind):
    """Base class for tasks on texts or pairs of texts. Each row is one example."""

    head = "sequence_classification"
    # The type of the label column.
    label_type: ClassVar[str | list[str]]

    @abstractmethod
    def read_label(self, task: TaskSpec, row: Cells, place: str) -> Any:
        """Read the label of the row at ``place`` as a number or a list of numbers."""

    def column_types(self, task: TaskSpec) -> Mapping[str, Any]:
        return dict.fromkeys(TEXT_COLUMNS[: len(task.text)], "string") | {"label": self.label_type}

    def parse_row(self, task: TaskSpec, row: Cells, labelled: bool, place: str) -> tuple:
        texts = [self._read_text_cell(row, column, place) for column in task.text]
        if not "".join(texts).strip():
            raise SubtuneError(f"{place}: the text is empty; fill it in or leave it out")
        if no_character := NO_CHARACTER.search("".join(texts)):
            raise SubtuneError(f"{place}: found {no_character[0]!r}, expected text")
        if labelled:
            return (*texts, self.read_label(task, row, place))
        several = isinstance(self.label_type, list)
        return (*texts, [NO_LABEL] * task.outputs if several else NO_LABEL)

    def _read_text_cell(self, row: Cells, column: str, place: str) -> str:
        """Return the text of a cell. It may be empty, because one text of a pair may be empty."""
        if isinstance(cell := row[column], str | None):
            return cell or ""
        raise SubtuneError(
            f"{place}: column {column!r}: found {quote(cell)}, expected text or a number"
        )

    def texts(self, columns: Columns) -> Iterable[Sequence[str]]:
        return zip(*(columns[name] for name in TEXT_COLUMNS if name in columns), strict=True)

    def encode(
        self, tokenizer: Tokenizer, rows: Columns, max_length: int, doc_stride: int | None
    ) -> dict[str, list]:
        """Tokenize texts or pairs. In a pair, the longer text is truncated first.

        The additional column ``whole_length`` has the number of tokens before truncation.
        """
        texts = [*self.texts(rows)] if TEXT_COLUMNS[1] in rows else rows[TEXT_COLUMNS[0]]
        tokenizer.enable_truncation(max_length)
        encodings = tokenizer.encode_batch_fast(texts)
        tokenizer.no_truncation()
        # Only examples with `max_length` tokens can have been truncated.
        lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        [full] = np.nonzero(lengths >= max_length)
        whole = tokenizer.encode_batch_fast([texts[number] for number in full])
        lengths[full] = [len(encoding) for encoding in whole]
        return {
            "input_ids": [encoding.ids for encoding in encodings],
            "label": rows["label"],
            "whole_length": lengths.tolist(),
            "token_type_ids": [encoding.type_ids for encoding in encodings],
        }

    def prediction_table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return a table with ``idx`` (the row's index), ``label`` and one logit per output."""
        import pandas as pd

        logits = {f"logit_{number}": column for number, column in enumerate(predictions.T)}
        labels = examples.row_labels
        # In multi-label tasks, the label of a row is a list.
        columns = {"idx": examples.row_indices, "label": [*labels] if labels.ndim > 1 else labels}
        return pd.DataFrame(columns | logits)


class Classification(Sentences):
    """Classification: one label word for a text or a pair of texts."""

    name = "classification"
    metrics = tuple(METRICS["classes"])
    has_scorers = True
    problem_type = "single_label_classification"
    label_type = "int32"

    def read_label(self, task: TaskSpec, row: Cells, place: str) -> int:
        [column] = task.label_columns
        if row[column] not in (task.labels or ()):
            row = {column: parse_label(row[column])}
        return find_label_index(self._read_text_cell(row, column, place), task, place)

    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table.filter(like="logit_").to_numpy().argmax(axis=1), table["label"].to_numpy()


class Regression(Sentences):
    """Regression: one number for a text or a pair of texts."""

    name = "regression"
    metrics = tuple(METRICS["numbers"])
    has_scorers = True
    value_type = "numbers"
    outputs = 1
    problem_type = "regression"
    label_type = "float32"

    def loss_to_nats_factor(self, outputs: int) -> float:
        """Return ½, because for a variance of 1, log p is −½·(y−ŷ)² plus a constant."""
        return 0.5

    def read_label(self, task: TaskSpec, row: Cells, place: str) -> float:
        [column] = task.label_columns
        text = self._read_text_cell(row, column, place).strip()
        score = parse_number(text)
        if score is None:
            raise SubtuneError(f"{place}: label: found {text!r}, expected a number such as 2.5")
        if abs(score) > LARGEST_NUMBER:
            raise SubtuneError(
                f"{place}: label: found {text!r}, expected a number between {-LARGEST_NUMBER:.0e} "
                f"and {LARGEST_NUMBER:.0e}, because float32 cannot sum larger squared errors"
            )
        return score

    def strata(self, labels: np.ndarray, ranges: int = RANGES) -> np.ndarray:
        return labels.argsort(kind="stable").argsort() * ranges // len(labels)

    def losses(
        self, logits: Tensor, labels: Tensor, example: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sum the squared errors of each run, from logits ``[k, n, 1]`` and labels ``[n]``."""
        return (logits.squeeze(2) - labels).square().sum(1)

    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table["logit_0"].to_numpy(), table["label"].to_numpy()


class MultiLabel(Sentences):
    """Multi-label classification of a text or a pair of texts, with one sigmoid per label word."""

    name = "multilabel"
    value_type = "label_sets"
    metrics = tuple(METRICS["label_sets"])
    default_metrics = metrics
    has_label_columns = True
    problem_type = "multi_label_classification"
    label_type: ClassVar[list[str]] = ["int32"]

    def loss_to_nats_factor(self, outputs: int) -> float:
        """Return the number of labels: the loss is a mean over labels, whereas log p is a sum."""
        return float(outputs)

    def read_label(self, task: TaskSpec, row: Cells, place: str) -> list[int]:
        """Read a row's labels as a list with 0 or 1 for each label word."""
        if isinstance(task.label, str):
            cell, known = row[task.label], task.labels or ()
            words = _parse_known_labels(cell, map_labels_to_indices(known))
            if words is None:
                raise SubtuneError(
                    f"{place}: label: found {quote(cell)}, expected a list such as "
                    f"[\"{known[0]}\"], or labels separated by '|', ';', ',' or '#'"
                )
            numbers = [find_label_index(word, task, place) for word in words]
            return [int(number in numbers) for number in range(len(known))]
        flags: dict[str, Any] = {column: parse_flag(row[column]) for column in task.label}
        if wrong := [column for column, flag in flags.items() if flag is None]:
            found = quote(row[wrong[0]])
            raise SubtuneError(f"{place}: column {wrong[0]!r}: found {found}, expected 0 or 1")
        return [*flags.values()]

    def require_different_labels(
        self, task: TaskSpec, split: str, path: Path, columns: Columns
    ) -> None:
        """Check that the training examples do not all have the same labels."""
        if split == "train" and len(set(map(tuple, columns["label"]))) == 1:
            [*words] = np.compress(columns["label"][0], task.labels or ())
            found = f"the labels {', '.join(words)} in every" if words else "no label in any"
            raise SubtuneError(f"{path}: found {found} row, expected rows with different labels")

    def strata(self, labels: np.ndarray, ranges: int = RANGES) -> np.ndarray:
        """Return the rarest label of each row, or -1 for a row without labels."""
        counts = np.where(labels, labels.sum(0), np.inf)
        return np.where(labels.any(1), counts.argmin(1), NO_LABEL)

    def balanced_weights(self, task: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """Compute ``rows without the label / rows with the label`` for each label ``[o]``."""
        with_label = labels.sum(0)
        require_weightable_labels(task, with_label, len(labels))
        return (len(labels) - with_label) / with_label

    def losses(
        self, logits: Tensor, labels: Tensor, example: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sum the losses of each run, from logits ``[k, n, o]`` and labels ``[n, o]``.

        The loss of an example is the mean over its labels. Weights apply to positive labels only.
        """
        positive = labels.to(logits.dtype)
        each = ((1 - 2 * positive) * logits).logaddexp(logits.new_zeros(()))
        if weights is not None:
            each = each * (1 + (weights.to(logits.dtype) - 1) * positive)
        return each.mean(2).sum(1)

    def loss_divisor(self, labels: Tensor, weights: Tensor | None) -> float:
        return float(len(labels))

    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        predicted = (table.filter(like="logit_").to_numpy() > 0).astype(int)
        expected: Any = np.stack(table["label"].to_numpy())
        return predicted, expected
