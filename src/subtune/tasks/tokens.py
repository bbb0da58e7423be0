"""Token classification: one label word to each word of a text, such as its part of speech.

A word is predicted at its first piece. A text that is longer than a model reads is cut between
words, so that each of its words is in one example.

Shapes: ``n`` examples, ``q`` words, ``o`` label words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks import metrics, special_tokens
from subtune.tasks.classification import CLASSIFICATION
from subtune.tasks.formats import conll, json_lines
from subtune.tasks.kind import Kind, PlacedRow
from subtune.tasks.sentences import NO_LABEL

if TYPE_CHECKING:
    import pandas as pd
    from tokenizers import Tokenizer

    from subtune.tasks.examples import Examples
    from subtune.tasks.task import TaskSpec


def _read(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    """Sentences of a CoNLL file, or of JSON lines with a list of words and one of labels."""
    columns = (*task.text, *((task.label,) if labelled else ()))
    of_format = json_lines if path.suffix == ".jsonl" else conll
    return of_format.sentences(path, columns)


def _from_rows(
    task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
) -> dict[str, list]:
    """``idx``, ``words`` and ``label``: the numbers of the words' labels, -1 without labels."""
    number_of = {label: number for number, label in enumerate(task.labels or ())}
    table: dict[str, list] = {"idx": [], "words": [], "label": []}
    for number, (where, row) in enumerate(rows):
        place = f"{source}: {where}"
        words = _list(task.text[0], row, place)
        labels = [NO_LABEL] * len(words)
        if labelled:
            labels = [
                _number(label, number_of, f"{place}: word {word}")
                for word, label in enumerate(_list(task.label, row, place), start=1)
            ]
            if len(labels) != len(words):
                raise SubtuneError(
                    f"{place}: found {len(words)} words and {len(labels)} labels, expected a label "
                    "of each word"
                )
        table["idx"].append(number)
        table["words"].append(words)
        table["label"].append(labels)
    if not table["idx"]:
        raise SubtuneError(f"{source}: found no sentences, expected at least one")
    return table


def _list(column: str, row: Mapping[str, Any], place: str) -> list[str]:
    if column not in row:
        raise SubtuneError(f"{place}: no such column: {one_of(column, row)}")
    cells = row[column]
    if not isinstance(cells, list) or not all(isinstance(cell, str) for cell in cells):
        raise SubtuneError(f"{place}: column {column!r}: expected a list of texts")
    if not cells:
        raise SubtuneError(f"{place}: column {column!r}: found an empty list, expected words")
    return cells


def _number(label: str, number_of: Mapping[str, int], place: str) -> int:
    if label not in number_of:
        raise SubtuneError(f"{place}: label: {one_of(label, number_of)}")
    return number_of[label]


def _require_two_labels(
    task: TaskSpec, split: str, path: Path, columns: Mapping[str, list]
) -> None:
    labels = set().union(*columns["label"])
    if split == "train" and len(labels) == 1:
        label = (task.labels or ())[labels.pop()]
        raise SubtuneError(
            f"{path}: found the label {label!r} of every word, expected at least two labels"
        )


def _encode(
    tokenizer: Tokenizer,
    rows: Mapping[str, list],
    max_length: int,
    doc_stride: int | None,
    *,
    with_token_types: bool,
) -> dict[str, list]:
    """Examples of whole words; of a word that is longer than an example, its first pieces.

    ``reads`` has the position of each word's first piece.
    """
    special = special_tokens.of(tokenizer, 1)
    room = special.room(max_length)
    before = len(special.ids[0])

    @cache
    def pieces_of(word: str) -> list[int]:
        # Tokenizers that know where words begin know it by the space before.
        pieces = tokenizer.encode(f" {word}", add_special_tokens=False).ids[:room]
        return pieces or [_unknown(tokenizer, word)]

    columns: dict[str, list] = {"row": [], "input_ids": [], "reads": [], "label": []}
    if with_token_types:
        columns["token_type_ids"] = []
    for row, words, labels in zip(rows["idx"], rows["words"], rows["label"], strict=True):
        pieces = [pieces_of(word) for word in words]
        for part in _parts(list(map(len, pieces)), room):
            ids, types = special.around([piece for word in pieces[part] for piece in word])
            lengths = np.array([len(word) for word in pieces[part]])
            columns["row"].append(row)
            columns["input_ids"].append(ids)
            columns["reads"].append(before + lengths.cumsum() - lengths)
            columns["label"].append(labels[part])
            if with_token_types:
                columns["token_type_ids"].append(types)
    return columns


def _parts(lengths: Sequence[int], room: int) -> Iterator[slice]:
    """Neighbouring words that fit together."""
    start = total = 0
    for number, length in enumerate(lengths):
        if total + length > room:
            yield slice(start, number)
            start, total = number, 0
        total += length
    yield slice(start, len(lengths))


def _unknown(tokenizer: Tokenizer, word: str) -> int:
    """The piece of a word of which the tokenizer leaves nothing."""
    number = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    if number is None:
        raise SubtuneError(f"the tokenizer makes nothing of the word {word!r}")
    return number


def _predict(examples: Examples, logits: np.ndarray) -> np.ndarray:
    """The number of each word's label, ``[q]``."""
    return logits.argmax(axis=1)


def _score(task: TaskSpec, examples: Examples, predicted: np.ndarray) -> dict[str, float]:
    return metrics.compute_all(task.metrics, predicted, np.concatenate(examples.labels))


def _table(examples: Examples, predicted: np.ndarray) -> pd.DataFrame:
    """``idx`` (the text's number), ``word`` (its number there), ``label`` and ``prediction``."""
    import pandas as pd

    text = examples.row.repeat([len(labels) for labels in examples.labels])
    starts = np.searchsorted(text, text)
    return pd.DataFrame(
        {
            "idx": text,
            "word": np.arange(len(text)) - starts,
            "label": np.concatenate(examples.labels),
            "prediction": predicted,
        }
    )


TOKENS = Kind(
    name="tokens",
    metrics=("accuracy", "f1_macro"),
    default_metrics=("accuracy",),
    text=(),
    text_columns=(1,),
    label="label",
    has_label_words=True,
    formats=(".conllu", ".conll", ".txt", ".jsonl"),
    head="token_classification",
    outputs=CLASSIFICATION.outputs,
    reads="marked",
    auto_class="AutoModelForTokenClassification",
    peft_type="TOKEN_CLS",
    problem_type=None,
    nats=1.0,
    least_length=4,
    overlaps=False,
    columns=lambda task: {"words": ["string"], "label": ["int32"]},
    read=_read,
    from_rows=_from_rows,
    require_sound=_require_two_labels,
    texts=lambda columns: columns["words"],
    encode=_encode,
    # The head reads words, as a classifier reads examples.
    losses=CLASSIFICATION.losses,
    predict=_predict,
    score=_score,
    table=_table,
)
