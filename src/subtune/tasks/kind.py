"""What is asked of a kind of task, from a user's file to a score.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` outputs of the head,
``u`` units, of which each has a loss: examples, or words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from tokenizers import Tokenizer
    from torch import Tensor

    from subtune.tasks.examples import Examples, Reads
    from subtune.tasks.task import TaskSpec

# A row's cells by column, and the place of the row, such as ``line 3``.
Row = Mapping[str, Any]
PlacedRow = tuple[str, Row]


class FromRows(Protocol):
    """The columns of one split. ``source`` is what error messages call it.

    Raises:
        SubtuneError: a row is not one of the task.
    """

    def __call__(
        self, task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
    ) -> dict[str, list]: ...


class Encode(Protocol):
    """Examples of some rows: ``input_ids``, ``label``, and what `Kind.predict` needs.

    ``token_type_ids`` are there where ``with_token_types``. Without ``row`` each row is an example;
    it numbers the rows that examples belong to, from 0.
    """

    def __call__(
        self,
        tokenizer: Tokenizer,
        rows: Mapping[str, list],
        max_length: int,
        doc_stride: int | None,
        *,
        with_token_types: bool,
    ) -> dict[str, list]: ...


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of task: everything that differs from one to the next.

    Attributes:
        name: what configurations call it.
        metrics: those that its tasks may have.
        default_metrics: those of a task that names none; without them it must.
        text: columns of text that all its tasks have; without them a task names its own.
        text_columns: how many it may have.
        label: the column of labels of a task that names none, and of all where ``text`` is fixed.
        has_label_words: whether its tasks list label words.
        formats: endings of the files that users have.
        head: the head that is read, by its name in `subtune.families.base`.
        outputs: the head's width ``o``.
        reads: the tokens that it reads.
        auto_class: transformers' class of exported models.
        peft_type: PEFT's word for it; none where PEFT's own class does not read all inputs.
        problem_type: what transformers' configuration says of it, if anything.
        nats: what a loss is multiplied by to be −log p(y|x).
        least_length: the least ``max_length`` at which every model reads something of each text.
        overlaps: whether rows longer than a model reads are cut into examples that overlap.
        columns: of a split's rows, beside ``idx``, each with the type of its values; a list holds
            the type of its elements.
        read: rows of a user's file, of which ``labelled`` says whether labels are read.
        from_rows: as `FromRows`.
        require_sound: refuses a user's split that cannot be learnt from or judged by.
        texts: of some rows' columns, each row's texts.
        encode: as `Encode`.
        losses: each run's sum ``[k]`` over units, of logits ``[k, q, o]``, the batch's labels, and
            the example of each token that is read, ``[q]``.
        predict: what finite logits ``[q, o]`` of a split say of it.
        score: the task's metrics, of what `predict` returns.
        table: what `predict` returns, as it is recorded.
    """

    name: str
    metrics: tuple[str, ...]
    default_metrics: tuple[str, ...]
    text: tuple[str, ...]
    text_columns: tuple[int, ...]
    label: str
    has_label_words: bool
    formats: tuple[str, ...]
    head: str
    outputs: Callable[[TaskSpec], int]
    reads: Reads
    auto_class: str
    peft_type: str | None
    problem_type: str | None
    nats: float
    least_length: int
    overlaps: bool
    columns: Callable[[TaskSpec], Mapping[str, Any]]
    read: Callable[[TaskSpec, Path, bool], Iterable[PlacedRow]]
    from_rows: FromRows
    require_sound: Callable[[TaskSpec, str, Path, Mapping[str, list]], None]
    texts: Callable[[Mapping[str, list]], Iterable[Sequence[str]]]
    encode: Encode
    losses: Callable[[Tensor, Tensor, Tensor], Tensor]
    predict: Callable[[Examples, np.ndarray], np.ndarray]
    score: Callable[[TaskSpec, Examples, np.ndarray], dict[str, float]]
    table: Callable[[Examples, np.ndarray], pd.DataFrame]
