"""Span prediction: the part of a context that answers a question (SQuAD, Rajpurkar et al., 2016).

A context that is longer than a model reads is cut into windows that overlap; each is an example.
Start and end of the answer are predicted among all tokens of a window. One without the answer
points at its first token, the special one.

Shapes: ``k`` runs, ``n`` windows, ``q`` tokens of all windows, ``l`` tokens of the longest, ``r``
questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from subtune.core.errors import SubtuneError
from subtune.tasks import special_tokens
from subtune.tasks.formats import squad
from subtune.tasks.kind import Kind, PlacedRow
from subtune.tasks.metrics import answers

if TYPE_CHECKING:
    import pandas as pd
    from tokenizers import Tokenizer
    from torch import Tensor

    from subtune.tasks.examples import Examples
    from subtune.tasks.task import TaskSpec

# As in BERT's published code for SQuAD: of a question and of a predicted answer, in tokens.
LONGEST_QUESTION = 64
LONGEST_ANSWER = 30
# Where a token is none of the context's.
OUTSIDE = -1
METRICS = {"exact_match": answers.exact_match, "f1": answers.f1}


def _read(task: TaskSpec, path: Path, labelled: bool) -> Iterator[PlacedRow]:
    """Questions of a file in SQuAD's layout."""
    return squad.questions(path, labelled=labelled)


def _from_rows(
    task: TaskSpec, rows: Iterable[PlacedRow], *, labelled: bool, source: str
) -> dict[str, list]:
    """``idx``, ``question``, ``context``, and of each accepted answer its text and offset."""
    names = ("idx", "question", "context", "answers", "label")
    table: dict[str, list] = {name: [] for name in names}
    question, context = task.text
    for number, (_, row) in enumerate(rows):
        of_row = row[task.label] if labelled else {"text": [], "answer_start": []}
        values = (number, row[question], row[context], of_row["text"], of_row["answer_start"])
        for name, value in zip(names, values, strict=True):
            table[name].append(value)
    if not table["idx"]:
        raise SubtuneError(f"{source}: found no questions, expected at least one")
    return table


class Piece(NamedTuple):
    """A token of a text: its id, and where it begins and ends there."""

    id: int
    first: int
    last: int


def _encode(
    tokenizer: Tokenizer,
    rows: Mapping[str, list],
    max_length: int,
    doc_stride: int | None,
    *,
    with_token_types: bool,
) -> dict[str, list]:
    """Windows. Each begins ``doc_stride`` tokens of the context after the one before.

    ``label`` has the positions of the first answer's first and last token. ``first`` and ``last``
    say where in the context each token begins and ends, and `OUTSIDE` of other tokens.
    """
    special = special_tokens.of(tokenizer, 2)
    of_texts = special.room(max_length)
    longest_question = min(LONGEST_QUESTION, of_texts // 2)
    names = ("row", "input_ids", "label", "first", "last", "context", "answers")
    columns: dict[str, list] = {name: [] for name in names}
    if with_token_types:
        columns["token_type_ids"] = []
    contexts: dict[str, list[Piece]] = {}
    for row, question, context, texts, starts in zip(
        *(rows[name] for name in ("idx", "question", "context", "answers", "label")), strict=True
    ):
        asked = _pieces(tokenizer, question)[:longest_question]
        if context not in contexts:
            contexts[context] = _pieces(tokenizer, context)
        room = of_texts - len(asked)
        before = len(special.ids[0]) + len(asked) + len(special.ids[1])
        for window in _windows(contexts[context], room, doc_stride or room):
            ids, types = special.around([p.id for p in asked], [p.id for p in window])
            label = [0, 0]
            if texts:
                label = _positions(window, starts[0], starts[0] + len(texts[0]), before)
            around = ([OUTSIDE] * before, [OUTSIDE] * len(special.ids[2]))
            values = {
                "row": row,
                "input_ids": ids,
                "label": label,
                "first": [*around[0], *(p.first for p in window), *around[1]],
                "last": [*around[0], *(p.last for p in window), *around[1]],
                "context": context,
                "answers": texts,
                "token_type_ids": types,
            }
            for name, column in columns.items():
                column.append(values[name])
    return columns


def _pieces(tokenizer: Tokenizer, text: str) -> list[Piece]:
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return [Piece(id, *offsets) for id, offsets in zip(encoding.ids, encoding.offsets, strict=True)]


def _windows(pieces: Sequence[Piece], room: int, doc_stride: int) -> Iterator[Sequence[Piece]]:
    """Windows that leave out no token, the last of which ends with the text."""
    start = 0
    while start + room < len(pieces):
        yield pieces[start : start + room]
        start += min(doc_stride, room)
    yield pieces[start:]


def _positions(window: Sequence[Piece], start: int, end: int, before: int) -> list[int]:
    """Of the tokens in which an answer starts and ends, or 0 twice where it is not inside."""
    if not window or window[0].first > start or window[-1].last < end:
        return [0, 0]
    first = max(number for number, piece in enumerate(window) if piece.first <= start)
    last = min(number for number, piece in enumerate(window) if piece.last >= end)
    return [before + first, before + max(first, last)]


def _losses(logits: Tensor, labels: Tensor, example: Tensor) -> Tensor:
    """The mean of start's and end's cross-entropy, of logits ``[k, q, 2]``, labels ``[n, 2]``."""
    tokens = labels.new_zeros(len(labels)).index_add(0, example, labels.new_ones(len(example)))
    first = tokens.cumsum(0) - tokens
    # Windows have unequal lengths: each one's softmax is over its own tokens.
    highest = logits.new_full((len(logits), len(labels), 2), float("-inf"))
    highest = highest.index_reduce(1, example, logits.detach(), "amax")
    exponentials = (logits - highest[:, example]).exp()
    sums = logits.new_zeros(highest.shape).index_add(1, example, exponentials)
    per_run = (labels + first[:, None]).expand(len(logits), -1, -1)
    losses = sums.log() + highest - logits.gather(1, per_run)
    return losses.sum((1, 2)) / 2


def _predict(examples: Examples, logits: np.ndarray) -> np.ndarray:
    """Where in its context each question's answer begins and ends, ``[r, 2]``, by their numbers.

    Of all windows' pairs of a first and a last token of the context, at most `LONGEST_ANSWER`
    tokens long, it is the one whose logits have the highest sum; of equals the first.
    """
    best: dict[int, tuple[float, int, int]] = {}
    ends = examples.lengths.cumsum()
    windows = zip(
        *(ends - examples.lengths, ends, examples.row),
        *(examples.column(name) for name in ("first", "last")),
        strict=True,
    )
    for start, end, row, first, last in windows:
        inside = np.flatnonzero(np.asarray(first) != OUTSIDE)
        score, begins, stops = _best_pair(logits[start:end][inside])
        if row not in best or score > best[row][0]:
            span = (first[inside[begins]], last[inside[stops]]) if len(inside) else (0, 0)
            best[row] = (score, *span)
    return np.array([best[row][1:] for row in sorted(best)])


def _best_pair(logits: np.ndarray) -> tuple[float, int, int]:
    """The highest sum of a start's and a later end's logit ``[tokens, 2]``, and which they are."""
    tokens = len(logits)
    pairs = np.full((LONGEST_ANSWER, tokens), -np.inf)
    for longer, sums in enumerate(pairs[:tokens]):
        sums[: tokens - longer] = logits[: tokens - longer, 0] + logits[longer:, 1]
    if not tokens:
        return -np.inf, 0, 0
    start, longer = divmod(int(pairs.T.argmax()), LONGEST_ANSWER)
    return float(pairs[longer, start]), start, start + longer


def _texts(examples: Examples, spans: np.ndarray) -> list[str]:
    """Each question's predicted answer."""
    contexts = _of_questions(examples, "context")
    return [context[start:end] for context, (start, end) in zip(contexts, spans, strict=True)]


def _of_questions(examples: Examples, column: str) -> list[Any]:
    """Of each question, by its number; its windows have the same values."""
    values = examples.column(column)
    return [values[number] for number in np.unique(examples.row, return_index=True)[1]]


def _score(task: TaskSpec, examples: Examples, spans: np.ndarray) -> dict[str, float]:
    predicted, accepted = _texts(examples, spans), _of_questions(examples, "answers")
    pairs = list(zip(predicted, accepted, strict=True))
    return {name: float(np.mean([METRICS[name](*pair) for pair in pairs])) for name in task.metrics}


def _table(examples: Examples, spans: np.ndarray) -> pd.DataFrame:
    """``idx`` (the question's number), ``label`` (the first accepted answer, if any),
    ``prediction``, and where it begins (``start``) and ends (``end``) in the context."""
    import pandas as pd

    return pd.DataFrame(
        {
            "idx": np.unique(examples.row),
            "label": [next(iter(texts), None) for texts in _of_questions(examples, "answers")],
            "prediction": _texts(examples, spans),
            "start": spans[:, 0],
            "end": spans[:, 1],
        }
    )


SPAN = Kind(
    name="span",
    metrics=tuple(METRICS),
    default_metrics=tuple(METRICS),
    text=("question", "context"),
    text_columns=(2,),
    label="answers",
    has_label_words=False,
    formats=(".json",),
    head="question_answering",
    outputs=lambda task: 2,
    reads="all",
    auto_class="AutoModelForQuestionAnswering",
    # PEFT's class for question answering (0.21) hands on no token types; its general one does.
    peft_type=None,
    problem_type=None,
    # Start and end are independent: log p is the sum of theirs.
    nats=2.0,
    # Beside RoBERTa's four special tokens one of the question and one of the context.
    least_length=6,
    overlaps=True,
    columns=lambda task: {
        "question": "string",
        "context": "string",
        "answers": ["string"],
        "label": ["int32"],
    },
    read=_read,
    from_rows=_from_rows,
    # What a file of questions must be its format says.
    require_sound=lambda task, split, path, columns: None,
    texts=lambda columns: zip(columns["question"], columns["context"], strict=True),
    encode=_encode,
    losses=_losses,
    predict=_predict,
    score=_score,
    table=_table,
)
