"""Token classification: one label word for each word of a text, such as its part of speech.

A word is predicted at its first piece. A text that is longer than a model reads is cut between
words, so that each of its words is in one example.

Shapes: ``n`` examples, ``q`` words, ``o`` label words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from tokenizers import Tokenizer

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.examples import Examples
from subtune.tasks.formats import tables, tagged, text
from subtune.tasks.sentences import NO_LABEL
from subtune.tasks.task_kind import Columns, PlacedRow, Row, SpecialTokens, TaskKind

if TYPE_CHECKING:
    import pandas as pd

    from subtune.tasks.task import TaskSpec

TEXTS = TypeAdapter(dict[str, Annotated[list[text.Text], Field(min_length=1)]])


class Tokens(TaskKind):
    """One label word for each word of a text."""

    name = "tokens"
    metrics = ("accuracy", "f1_macro")
    default_metrics = ("accuracy",)
    text_columns = (1,)
    has_label_words = True
    labels_are = "of every word"
    formats = (".conllu", ".conll", ".txt", ".jsonl")
    head = "token_classification"

    def columns(self, task: TaskSpec) -> Mapping[str, Any]:
        return {"words": ["string"], "label": ["int32"]}

    def read(self, task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
        """Read a CoNLL file, JSON lines with lists of words and labels, or parsed sentences."""
        columns = task.columns_read(labelled)
        if path.suffix == ".jsonl":
            return tables.json_rows(path)
        if path.suffix.lower() == ".mrg":
            return tagged.treebank_sentences(path, columns)
        return tagged.conll_sentences(path, columns, task.encoding)

    def cells(self, task: TaskSpec, row: Row, labelled: bool, place: str) -> tuple:
        """Return the words, and the numbers of their labels; without labels they are -1."""
        read = {column: row[column] for column in task.columns_read(labelled)}
        try:
            words, *given = TEXTS.validate_python(read, strict=True).values()
        except ValidationError as error:
            raise SubtuneError(f"{place}: {text.problem(error)}") from None
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
        """Return examples of whole words; a word that is too long for one keeps its first pieces.

        ``reads`` has the position of each word's first piece.
        """
        special = SpecialTokens(tokenizer, 1)
        room = max_length - special.count

        @cache
        def pieces_of(word: str) -> list[int]:
            # Some tokenizers know by the space before it where a word begins.
            pieces = tokenizer.encode(f" {word}", add_special_tokens=False).ids[:room]
            return pieces or [_unknown(tokenizer, word)]

        examples = []
        for row, words, labels in zip(rows["idx"], rows["words"], rows["label"], strict=True):
            pieces = [pieces_of(word) for word in words]
            for part in _parts(list(map(len, pieces)), room):
                ids, types = special.around([piece for word in pieces[part] for piece in word])
                lengths = np.array([len(word) for word in pieces[part]])
                reads = special.before + lengths.cumsum() - lengths
                example = {"row": row, "input_ids": ids, "reads": reads, "label": labels[part]}
                examples.append(example | {"token_type_ids": types})
        return {name: [example[name] for example in examples] for name in examples[0]}

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        """Return the number of each word's label, ``[q]``."""
        return logits.argmax(axis=1)

    def table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return ``idx`` (the text's number), ``word`` (its number there), ``label`` and
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

    def compared(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table["prediction"].to_numpy(), table["label"].to_numpy()


def _parts(lengths: Sequence[int], room: int) -> Iterator[slice]:
    """Yield slices of neighbouring words that fit together."""
    start = total = 0
    for number, length in enumerate(lengths):
        if total + length > room:
            yield slice(start, number)
            start, total = number, 0
        total += length
    yield slice(start, len(lengths))


def _unknown(tokenizer: Tokenizer, word: str) -> int:
    """Return the piece for a word of which the tokenizer leaves nothing."""
    number = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    if number is None:
        raise SubtuneError(f"the tokenizer makes nothing of the word {word!r}")
    return number
