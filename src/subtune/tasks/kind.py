"""What is asked of a kind of task, from its rows to its scores.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens of a batch or split that the head reads, ``o``
outputs of the head, ``u`` units that are predicted: examples, words or rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from subtune.tasks.examples import Examples, Reads
    from subtune.tasks.task import TaskSpec


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of task: everything that differs from one to the next.

    Attributes:
        name: what configurations call it.
        metrics: those that its tasks may have.
        coefficients: metrics that are undefined where all labels are the same.
        has_label_words: whether its tasks list label words.
        texts: how many columns of text its tasks have, at least and at most; names that they have
            where a task gives none.
        label: the column of labels, where a task names none.
        head: the head that is read, by its name in `subtune.models.families.base`.
        auto_class: transformers' class of exported models; ``peft_type``: PEFT's word for it.
        problem_type: transformers' word for how its classes tell kinds apart, if they do.
        reads: which tokens the head reads.
        nats: what the loss is multiplied by to be −log p(y|x).
        formats: endings of the files that users have.
        outputs: width of the head, ``o``.
        columns: the Arrow columns of one split and their types, as `datasets.Features` takes them.
        read: rows of a user's file, each with its place, such as ``line 3``.
        from_rows: the columns of one split; raises `SubtuneError` for a row that is none.
        check_split: refuses what cannot be learnt from or judged by.
        texts_of: of the columns of one split, each row's texts.
        encode: columns of examples, from those of some rows: ``idx``, ``input_ids``,
            ``token_type_ids``, ``label``, and what `reads` and `predict` need.
        losses: each run's sum ``[k]`` over ``u`` units, from logits ``[k, q, o]``, the batch's
            labels and the example of each token that is read ``[q]``.
        units: how many units the labels of some examples are.
        predict: predictions of a split's units, from finite logits ``[q, o]``.
        score: the task's metrics, of predictions.
        table: predictions as they are recorded.
    """

    name: str
    metrics: tuple[str, ...]
    coefficients: tuple[str, ...]
    has_label_words: bool
    texts: tuple[int, int]
    default_text: tuple[str, ...]
    label: str
    head: str
    auto_class: str
    peft_type: str
    problem_type: str | None
    reads: Reads
    nats: float
    formats: tuple[str, ...]
    outputs: Callable[[TaskSpec], int]
    columns: Callable[[TaskSpec], Mapping[str, Any]]
    read: Callable[[TaskSpec, Path, bool], Iterable[tuple[str, Mapping[str, Any]]]]
    from_rows: Callable[..., dict[str, list]]
    check_split: Callable[[TaskSpec, str, str, Mapping[str, list]], None]
    texts_of: Callable[[TaskSpec, Mapping[str, Sequence]], Iterable[Sequence[str]]]
    encode: Callable[..., dict[str, list]]
    losses: Callable[[Tensor, Tensor, Tensor], Tensor]
    predict: Callable[[Examples, np.ndarray], np.ndarray]
    score: Callable[[TaskSpec, Examples, np.ndarray], dict[str, float]]
    table: Callable[[TaskSpec, Examples, np.ndarray], pd.DataFrame]
