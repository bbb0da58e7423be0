"""Token classification, and extractive question answering.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` label words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel

from subtune.core.errors import SubtuneError, explain_pydantic_errors, format_allowed
from subtune.tasks.examples import IGNORED, Examples
from subtune.tasks.metrics import METRICS
from subtune.tasks.task_kind import NO_LABEL, Cells, Columns, TaskKind, TaskSpec, Text

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

# The maximum numbers of tokens of a question and of a predicted answer, as in BERT's code.
LONGEST_QUESTION = 64
LONGEST_ANSWER = 30
# SentencePiece's mark for the start of a word.
WORD_START = "▁"
# The character offset of tokens outside the context.
OUTSIDE = -1
# The cells of a row by column. Each cell is a list of words or a list of their labels.
LISTS_OF_WORDS = TypeAdapter(dict[str, Annotated[list[Text], Field(min_length=1)]])


class TokenClassification(TaskKind):
    """Token classification: one label word for each word of a text, such as its part of speech.

    The label of a word is predicted from its first subword token. A text that is longer than the
    maximum length is split between words, so that each word is in exactly one example.
    """

    name = "tokens"
    metrics = ("accuracy", "f1_macro")
    default_metrics = ("accuracy",)
    text_columns = (1,)
    labels_are = "of every word"
    head = "token_classification"

    def column_types(self, task: TaskSpec) -> Mapping[str, Any]:
        return {"words": ["string"], "label": ["int32"]}

    def parse_row(self, task: TaskSpec, row: Cells, labelled: bool, place: str) -> tuple:
        """Read the words and the numbers of their labels, which are -1 in unlabelled rows."""
        read = {column: row[column] for column in task.columns_read(labelled)}
        with explain_pydantic_errors(place):
            words, *given = LISTS_OF_WORDS.validate_python(read, strict=True).values()
        if not labelled:
            return words, [NO_LABEL] * len(words)
        numbers = {label: number for number, label in enumerate(task.labels or ())}
        for word, label in enumerate(given[0], start=1):
            if label not in numbers:
                raise SubtuneError(f"{place}: word {word}: label: {format_allowed(label, numbers)}")
        if len(given[0]) != len(words):
            raise SubtuneError(
                f"{place}: found {len(words)} words but {len(given[0])} labels, expected one label "
                "per word"
            )
        return words, [numbers[label] for label in given[0]]

    def texts(self, columns: Columns) -> Iterable[Sequence[str]]:
        return columns["words"]

    def encode(
        self, tokenizer: Tokenizer, rows: Columns, max_length: int, doc_stride: int | None
    ) -> dict[str, list]:
        """Tokenize whole words. ``reads`` contains the position of the first token of each word."""
        room = max_length - tokenizer.num_special_tokens_to_add(is_pair=False)
        space = space_before_word(tokenizer)

        @cache
        def encode_word(word: str) -> Encoding:
            subwords = tokenizer.encode(space + word, add_special_tokens=False)
            subwords.truncate(room)
            return subwords if subwords.ids else _encode_unknown(tokenizer, word)

        examples = []
        for row, words, labels in zip(rows["idx"], rows["words"], rows["label"], strict=True):
            subwords = [encode_word(word) for word in words]
            for part in _split_words(list(map(len, subwords)), room):
                merged = Encoding.merge(subwords[part], growing_offsets=False)
                whole = tokenizer.post_process(merged)
                lengths = np.array([len(word) for word in subwords[part]])
                reads = whole.sequence_ids.index(0) + lengths.cumsum() - lengths
                examples.append((row, whole.ids, reads, labels[part], whole.type_ids))
        names = ("row", "input_ids", "reads", "label", "token_type_ids")
        return dict(zip(names, map(list, zip(*examples, strict=True)), strict=True))

    def loss_divisor(self, labels: Tensor, weights: Tensor | None) -> Tensor | float:
        return (
            (labels != IGNORED).sum() if weights is None else super().loss_divisor(labels, weights)
        )

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        return logits.argmax(axis=1)

    def prediction_table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return a table of words: ``idx`` (of the text), ``word``, ``label``, ``prediction``."""
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


def space_before_word(tokenizer: Tokenizer) -> str:
    """Return the space to put before a word that is tokenized alone, or no space.

    Most tokenizers recognise the start of a word only by a preceding space. The normalizers of
    Llama 2 and Mistral add this space themselves, and a second space would be a token.
    """
    normalizer = tokenizer.normalizer
    adds_space = normalizer and normalizer.normalize_str("a").startswith((" ", WORD_START))
    return "" if adds_space else " "


def _split_words(lengths: Sequence[int], room: int) -> Iterator[slice]:
    """Split words, given their numbers of tokens, into slices of at most ``room`` tokens."""
    start = total = 0
    for number, length in enumerate(lengths):
        if total + length > room:
            yield slice(start, number)
            start, total = number, 0
        total += length
    yield slice(start, len(lengths))


def _encode_unknown(tokenizer: Tokenizer, word: str) -> Encoding:
    """Encode a word as the unknown token, because the tokenizer returns no tokens for it."""
    name = getattr(tokenizer.model, "unk_token", None) or ""
    number = tokenizer.token_to_id(name)
    if number is None:
        raise SubtuneError(
            f"the tokenizer has no token for the word {word!r}; use a model whose tokenizer has an "
            "unknown token"
        )
    # The tokenizer itself may split the name of the unknown token into subword tokens.
    return Tokenizer(WordLevel({name: number}, name)).encode(name)


class Span(TaskKind):
    """Extractive question answering: the answer is a span of a context (Rajpurkar et al., 2016).

    A context that is longer than the maximum length is split into overlapping windows, each of
    which is an example. The model predicts the start and end of the answer among all tokens of a
    window. In a window without the answer, the label is the first token, which is a special token.
    """

    name = "span"
    metrics = tuple(METRICS["answers"])
    default_metrics = metrics
    value_type = "answers"
    text = ("question", "context")
    label = "answers"
    outputs = 2
    labels_are = ""
    head = "question_answering"
    overlaps = True

    def loss_to_nats_factor(self, outputs: int) -> float:
        """Return 2: the loss is a mean over start and end, whereas log p is a sum."""
        return 2.0

    def column_types(self, task: TaskSpec) -> Mapping[str, Any]:
        texts = {"question": "string", "context": "string", "answers": ["string"]}
        return texts | {"label": ["int32"]}

    def parse_row(self, task: TaskSpec, row: Cells, labelled: bool, place: str) -> tuple:
        """Read the question, its context, and the texts and starts of the accepted answers."""
        accepted = row[self.label] if labelled else {"text": [], "answer_start": []}
        return (*(row[text] for text in task.text), accepted["text"], accepted["answer_start"])

    def texts(self, columns: Columns) -> Iterable[Sequence[str]]:
        return zip(columns["question"], columns["context"], strict=True)

    def encode(
        self, tokenizer: Tokenizer, rows: Columns, max_length: int, doc_stride: int | None
    ) -> dict[str, list]:
        """Tokenize contexts into windows ``doc_stride`` tokens apart, each with the question.

        The column ``label`` has the positions of the first and last token of the first answer. The
        columns ``first`` and ``last`` have each token's start and end as character offsets in the
        context, or `OUTSIDE` for tokens outside the context.
        """
        text_room = max_length - tokenizer.num_special_tokens_to_add(is_pair=True)
        asked, read = (
            tokenizer.encode_batch(rows[name], add_special_tokens=False) for name in self.text
        )
        examples = []
        given = (rows[name] for name in ("idx", "context", "answers", "label"))
        for question, windows, row, context, texts, starts in zip(asked, read, *given, strict=True):
            question.truncate(min(LONGEST_QUESTION, text_room // 2))
            room = text_room - len(question)
            # In the tokenizers library, the stride is the number of tokens shared by two windows.
            windows.truncate(room, stride=room - min(doc_stride or room, room))
            for window in (windows, *windows.overflowing):
                whole = tokenizer.post_process(question, window)
                inside = np.array([part == 1 for part in whole.sequence_ids])
                places = np.full((len(whole), 2), OUTSIDE)
                places[inside] = np.reshape(window.offsets, (-1, 2))
                label = [0, 0]
                if texts:
                    label = _find_answer_positions(places, starts[0], starts[0] + len(texts[0]))
                first, last = places.T.tolist()
                window_cells = whole.ids, label, first, last, whole.type_ids
                examples.append((row, context, texts, *window_cells))
        names = ("row", "context", "answers", "input_ids", "label", "first", "last")
        columns = map(list, zip(*examples, strict=True))
        return dict(zip((*names, "token_type_ids"), columns, strict=True))

    def losses(
        self, logits: Tensor, labels: Tensor, example: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sum the mean loss for start and end, from logits ``[k, q, 2]`` and labels ``[n, 2]``."""
        numbers = labels.new_ones(len(labels)).cumsum(0) - 1
        # Each window has its own softmax, and windows differ in length.
        outside = example != numbers[:, None]
        first = (example < numbers[:, None]).sum(1)
        per_window = logits[:, None].masked_fill(outside[..., None], float("-inf"))
        per_run = (labels + first[:, None]).expand(len(logits), -1, -1)
        losses = per_window.logsumexp(2) - logits.gather(1, per_run)
        return losses.sum((1, 2)) / 2

    def predict(self, examples: Examples, logits: np.ndarray) -> np.ndarray:
        """Return the start and end of each answer as character offsets, ``[questions, 2]``.

        Each answer is the first span, in any window and of at most `LONGEST_ANSWER` context tokens,
        with the highest sum of its start and end logits.
        """
        best: dict[int, tuple[float, int, int]] = {}
        ends = examples.lengths.cumsum()
        places = (examples.column(name) for name in ("first", "last"))
        windows = zip(ends - examples.lengths, ends, examples.row, *places, strict=True)
        for start, end, row, first, last in windows:
            inside = np.flatnonzero(np.asarray(first) != OUTSIDE)
            score, begins, stops = _find_best_span(logits[start:end][inside])
            if row not in best or score > best[row][0]:
                span = (first[inside[begins]], last[inside[stops]]) if len(inside) else (0, 0)
                best[row] = (score, *span)
        return np.array([best[row][1:] for row in sorted(best)])

    def prediction_table(self, examples: Examples, predictions: np.ndarray) -> pd.DataFrame:
        """Return a table with one row per question.

        Columns: ``idx`` (the index of the question), ``label`` (the first accepted answer, if any),
        ``prediction``, its ``start`` and ``end`` in the context, and all accepted ``answers``.
        """
        import pandas as pd

        # All windows of a question have the same context and answers.
        rows, windows = np.unique(examples.row, return_index=True)
        columns = (examples.column(name) for name in ("context", "answers"))
        contexts, answers = ([column[window] for window in windows] for column in columns)
        spans = zip(contexts, predictions, strict=True)
        return pd.DataFrame(
            {
                "idx": rows,
                "label": [next(iter(texts), None) for texts in answers],
                "prediction": [context[start:end] for context, (start, end) in spans],
                "start": predictions[:, 0],
                "end": predictions[:, 1],
                "answers": answers,
            }
        )

    def metric_inputs(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table["prediction"].tolist(), table["answers"].map(list).tolist()


def _find_answer_positions(places: np.ndarray, start: int, end: int) -> list[int]:
    """Find the positions of an answer's first and last token; 0 and 0 if it is not complete.

    The answer consists of the characters ``range(start, end)``. ``places`` contains the start and
    the end of each token, ``[tokens, 2]``.
    """
    [inside] = np.nonzero(places[:, 0] != OUTSIDE)
    begins, ends = places[inside].T
    if not len(inside) or begins[0] > start or ends[-1] < end:
        return [0, 0]
    first = inside[begins <= start].max()
    return [int(first), int(max(first, inside[ends >= end].min()))]


def _find_best_span(logits: np.ndarray) -> tuple[float, int, int]:
    """Find the highest sum of a start and an end logit, with the positions of the two tokens."""
    tokens = len(logits)
    if not tokens:
        return -np.inf, 0, 0
    pairs = np.full((LONGEST_ANSWER, tokens), -np.inf)
    for longer, sums in enumerate(pairs[:tokens]):
        sums[: tokens - longer] = logits[: tokens - longer, 0] + logits[longer:, 1]
    start, longer = divmod(int(pairs.T.argmax()), LONGEST_ANSWER)
    return float(pairs[longer, start]), start, start + longer
