"""Token classification: one label word for each word of a text, such as its part of speech.

A word's label is predicted at its first piece. If a text is longer than the model reads, it is cut
between words, so that each word is in one example.

Shapes: ``n`` examples, ``q`` words, ``o`` label words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel

from subtune.core.errors import SubtuneError, one_of, validated
from subtune.tasks.examples import IGNORED, Examples
from subtune.tasks.task_kind import NO_LABEL, Columns, Row, TaskKind, Text

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from subtune.tasks.task import TaskSpec

TEXTS = TypeAdapter(dict[str, Annotated[list[Text], Field(min_length=1)]])


class Tokens(TaskKind):
    """One label word for each word of a text."""

    name = "tokens"
    metrics = ("accuracy", "f1_macro")
    default_metrics = ("accuracy",)
    text_columns = (1,)
    has_label_words = True
    labels_are = "of every word"
    reader = "words"
    head = "token_classification"

    def column_types(self, task: TaskSpec) -> Mapping[str, Any]:
        return {"words": ["string"], "label": ["int32"]}

    def read_cells(self, task: TaskSpec, row: Row, labelled: bool, place: str) -> tuple:
        """Return the words and the numbers of their labels; unlabelled words have -1."""
        read = {column: row[column] for column in task.columns_read(labelled)}
        with validated(place):
            words, *given = TEXTS.validate_python(read, strict=True).values()
        if not labelled:
            return words, [NO_LABEL] * len(words)
        numbers = {label: number for number, label in enumerate(task.labels or ())}
        for word, label in enumerate(given[0], start=1):
            if label not in numbers:
                raise SubtuneError(f"{place}: word {word}: label: {one_of(label, numbers)}")
        if len(given[0]) != len(words):
            raise SubtuneError(
                f"{place}: found {len(words)} words and {len(given[0])} labels, expected a label "
                "of each word"
            )
        return words, [numbers[label] for label in given[0]]

    def texts(self, columns: Columns) -> Iterable[Sequence[str]]:
        return columns["words"]

    def encode(
        self, tokenizer: Tokenizer, rows: Columns, max_length: int, doc_stride: int | None
    ) -> dict[str, list]:
        """Return examples of whole words. A word that is too long is cut to its first pieces.

        ``reads`` has the position of each word's first piece.
        """
        room = max_length - tokenizer.num_special_tokens_to_add(is_pair=False)

        @cache
        def encode_word(word: str) -> Encoding:
            # Some tokenizers recognise the start of a word only by the space before it.
            pieces = tokenizer.encode(f" {word}", add_special_tokens=False)
            pieces.truncate(room)
            return pieces if pieces.ids else _encode_unknown(tokenizer, word)

        examples = []
        for row, words, labels in zip(rows["idx"], rows["words"], rows["label"], strict=True):
            pieces = [encode_word(word) for word in words]
            for part in _fit_slices(list(map(len, pieces)), room):
                whole = tokenizer.post_process(Encoding.merge(pieces[part], growing_offsets=False))
                lengths = np.array([len(word) for word in pieces[part]])
                reads = whole.sequence_ids.index(0) + lengths.cumsum() - lengths
                example = {
                    "row": row,
                    "input_ids": whole.ids,
                    "reads": reads,
                    "label": labels[part],
                }
                examples.append(example | {"token_type_ids": whole.type_ids})
        return {name: [example[name] for example in examples] for name in examples[0]}

    def loss_divisor(self, labels: Tensor, weights: Tensor | None) -> Tensor | float:
        return (
            (labels != IGNORED).sum() if weights is None else super().loss_divisor(labels, weights)
        )

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        return logits.argmax(axis=1)

    def prediction_table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return ``idx`` (the text's number), ``word`` (the number in the text), ``label`` and
        ``prediction``."""
        import pandas as pd

        text = examples.row.repeat([len(labels) for labels in examples.labels])
        return pd.DataFrame(
            {
                "idx": text,
                "word": np.arange(len(text)) - np.searchsorted(text, text),
                "label": np.concatenate(examples.labels),
                "prediction": predictions,
            }
        )

    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table["prediction"].to_numpy(), table["label"].to_numpy()


def _fit_slices(lengths: Sequence[int], room: int) -> Iterator[slice]:
    """Yield slices of neighbouring words that fit into ``room`` together."""
    start = total = 0
    for number, length in enumerate(lengths):
        if total + length > room:
            yield slice(start, number)
            start, total = number, 0
        total += length
    yield slice(start, len(lengths))


def _encode_unknown(tokenizer: Tokenizer, word: str) -> Encoding:
    """Return the unknown token, for a word that the tokenizer removes."""
    name = getattr(tokenizer.model, "unk_token", None) or ""
    number = tokenizer.token_to_id(name)
    if number is None:
        raise SubtuneError(f"the tokenizer has no token for the word {word!r}")
    # The tokenizer itself may cut the token's name into pieces.
    return Tokenizer(WordLevel({name: number}, name)).encode(name)
