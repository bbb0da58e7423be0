"""Describe tables before training: classes, repeated texts, conflicting labels, text lengths."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from subtune.comparison import DEFAULTS, Kind
from subtune.comparison.user_table import (
    LabelColumns,
    UserTable,
    find_separators,
    guess_kind,
    label_columns,
    label_sort_key,
    read_cell_labels,
    read_row_labels,
)
from subtune.core.errors import SubtuneError, join_names, quote
from subtune.data.table_files import INCOMPLETE_SHARE, drop_incomplete_rows
from subtune.tasks.sentences import parse_number, plain_label
from subtune.tasks.task import TEST

# The place of a row in its file, its texts with normalised white space, and its labels (None if the
# row has no label).
PlacedTexts = tuple[str, tuple[str, ...], tuple[str, ...] | None]


@dataclass(frozen=True)
class SplitFacts:
    """Facts about one split, collected by `describe_tables`.

    Attributes:
        rows: the number of rows of the file.
        labels: maps each class to its number of rows; empty for a regression.
        faulty: maps each fault, such as ``without 'label'``, to the places of the rows with this
            fault, such as ``line 3``.
        left_out: the places of the rows that are not used because they have no text or no label.
        also_in: maps each earlier split to the number of rows whose text also occurs there.
    """

    path: str
    rows: int
    labels: dict[str, int]
    faulty: dict[str, list[str]]
    left_out: list[str]
    also_in: dict[str, int]


@dataclass(frozen=True)
class Lengths:
    """Lengths of the training texts in tokens, including special tokens.

    Attributes:
        are_counted: whether the model's tokenizer counted the tokens. Otherwise, their number is
            estimated from the number of words.
        max_length: the length to which texts are truncated.
        cut: the share of texts that are truncated.
        read: the share of all tokens that remain after truncation.
        unknown: the share of tokens that are the tokenizer's unknown token.
    """

    are_counted: bool
    median: int
    longest: int
    max_length: int
    cut: float
    read: float
    unknown: float


@dataclass(frozen=True)
class Facts:
    """Facts about a user's tables, collected by `describe_tables`.

    Attributes:
        columns: the columns of the training file.
        text: the text columns.
        label: the label columns.
        separators: the characters that separate several labels in a cell, if any.
        guessed: the options that were guessed, because the user did not give them.
        judges: the split on which methods are scored.
        parts: maps each split to the facts about it.
        numbers: the smallest and the largest label of a regression; None for other tasks.
        joined: groups of spellings; the spellings in a group are read as one label.
        alike: groups of labels that look alike (see `_make_alike`); each label is a class.
        most_frequent: the most frequent label, or set of labels, in the training set.
        constant: the accuracy on the split ``judges`` if ``most_frequent`` is always predicted.
        conflicts: maps each text with conflicting labels to a dict from label to the places of its
            rows.
        deciding: maps each other column that almost determines the label to a pair: the number of
            its distinct cells, and the share of training examples whose label it predicts.
    """

    columns: tuple[str, ...]
    text: tuple[str, ...]
    label: LabelColumns
    kind: Kind
    separators: str | None
    guessed: tuple[str, ...]
    judges: str
    parts: dict[str, SplitFacts]
    numbers: tuple[float, float] | None
    joined: list[list[str]]
    alike: list[list[str]]
    most_frequent: str | None
    constant: float | None
    conflicts: dict[str, dict[str, list[str]]]
    deciding: dict[str, tuple[int, float]]
    lengths: Lengths


def describe_tables(
    tables: Mapping[str, UserTable],
    text: tuple[str, ...],
    label: LabelColumns,
    lengths: Lengths,
    kind: Kind | None = None,
    guessed: tuple[str, ...] = (),
) -> Facts:
    """Collect facts about a user's tables, by split. Methods are scored on the last table."""
    train, judges = tables["train"], [*tables][-1]
    every = train._replace(rows=[*chain(*(table.rows for table in tables.values()))])
    if kind is None or not isinstance(label, str):
        kind = guess_kind(every, label)
    separators, spellings = None, list[str]()
    if kind == "multilabel" and isinstance(label, str):
        separators = find_separators(train.cells(label)) or find_separators(every.cells(label))
    if kind != "regression" and isinstance(label, str):
        cells = (read_cell_labels(cell, kind, separators) for cell in every.cells(label))
        spellings = [word.strip() for words in cells for word in words or ()]
    read_labels = partial(read_row_labels, label=label, kind=kind, separators=separators)
    rows, parts = dict[str, list[PlacedTexts]](), dict[str, SplitFacts]()
    for split, table in tables.items():
        rows[split], parts[split] = _describe_split(table, text, label, kind, read_labels, rows)
    # In a multi-label task, each set of labels is counted like a class.
    answers = Counter(labels for *_, labels in rows["train"] if labels is not None)
    is_counted = kind != "regression" and bool(answers)
    most = max(answers, key=answers.__getitem__, default=())
    scored = [labels for *_, labels in rows[judges] if labels is not None]
    numbers = [n for words in answers for word in words if (n := parse_number(word)) is not None]
    return Facts(
        columns=train.columns,
        text=text,
        label=label,
        kind=kind,
        separators=separators,
        guessed=guessed,
        judges=judges,
        parts=parts,
        numbers=(min(numbers), max(numbers)) if kind == "regression" and numbers else None,
        joined=_group_equal(spellings, plain_label),
        alike=_group_equal(chain(*(part.labels for part in parts.values())), _make_alike),
        most_frequent=_join_labels(most) if is_counted else None,
        constant=scored.count(most) / max(1, len(scored)) if is_counted else None,
        conflicts=_find_conflicts([*chain(*rows.values())]),
        deciding=_find_deciding_columns(
            train,
            [column for column in train.columns if column not in (*text, *label_columns(label))],
            [read_labels(row) for _, row in train.rows],
        ),
        lengths=lengths,
    )


def _describe_split(
    table: UserTable,
    text: Sequence[str],
    label: LabelColumns,
    kind: Kind,
    read_labels: Callable[[Mapping[str, Any]], tuple[str, ...] | None],
    earlier: Mapping[str, Sequence[PlacedTexts]],
) -> tuple[list[PlacedTexts], SplitFacts]:
    """Collect the facts about a split, and return them with the rows of the split that are used.

    ``read_labels`` returns the labels of a row, or None if it has none. ``earlier`` has the rows of
    the earlier splits, beginning with the training set.
    """
    # In a multi-label task, a row without labels is an example with an empty set of labels.
    needed = () if kind == "multilabel" else label_columns(label)
    placed, left_out = drop_incomplete_rows(table.rows, text, needed)
    where, name = f" of {table.path}" if earlier else "", join_names(label_columns(label))
    rows, faulty, counts = list[PlacedTexts](), defaultdict[str, list[str]](list), Counter[str]()
    for place, cells in placed:
        texts = tuple(" ".join(str(cells.get(column) or "").split()) for column in text)
        labels = read_labels(cells)
        rows.append((place + where, texts, labels))
        counts.update(labels or ())
        for column, cell in zip((*text, name), (*texts, labels), strict=True):
            if cell in ("", None):
                faulty[f"without {quote(column)}"].append(place + where)
        if kind == "regression" and labels and parse_number(*labels) is None:
            faulty[f"whose {quote(name)} is not a number"].append(place + where)
    # If there are several label columns, each column is a class, even if no row has this class.
    words = sorted({*counts, *(() if isinstance(label, str) else label)}, key=label_sort_key)
    texts_of = {other: {texts for _, texts, _ in others} for other, others in earlier.items()}
    also_in = {
        other: sum(any(texts) and texts in found for _, texts, _ in rows)
        for other, found in texts_of.items()
    }
    labels_of = {} if kind == "regression" else {word: counts[word] for word in words}
    path, number = str(table.path), len(table.rows)
    return rows, SplitFacts(path, number, labels_of, dict(faulty), left_out, also_in)


def _find_deciding_columns(
    table: UserTable, columns: Iterable[str], answers: Sequence[tuple[str, ...] | None]
) -> dict[str, tuple[int, float]]:
    """Find the columns that almost determine the label, such as the author of each text.

    Such a column has more distinct cells than there are labels. The label predicted for a row is
    the most frequent label of the *other* rows with the same cell in this column. These predictions
    make at most `DEFAULTS.undecided` times as many errors as a constant prediction of the most
    frequent label.

    ``answers`` are the labels of each row, if any. The result maps each column to the number of its
    distinct cells and the share of correct predictions.
    """
    known = Counter(answer for answer in answers if answer is not None)
    majority_errors, deciding = known.total() - max(known.values(), default=0), {}
    for column in columns:
        by_cell = defaultdict[str, Counter](Counter)
        for cell, answer in zip(table.cells(column), answers, strict=True):
            if answer is not None:
                by_cell[str(cell)][answer] += 1
        correct = 0
        for counts in by_cell.values():
            most, second = [*sorted(counts.values(), reverse=True), 0][:2]
            # For a row with the most frequent label, only `most - 1` other rows have this label.
            correct += most if most - 1 > second else 0
        errors = known.total() - correct
        if len(by_cell) > len(known) > 1 and errors <= DEFAULTS.undecided * majority_errors:
            deciding[column] = len(by_cell), correct / known.total()
    return deciding


def _find_conflicts(rows: Sequence[PlacedTexts]) -> dict[str, dict[str, list[str]]]:
    """Map each text with conflicting labels to a dict from label to the places of its rows."""
    repeated = {texts for texts, n in Counter(texts for _, texts, _ in rows).items() if n > 1}
    by_text = defaultdict[tuple, dict[str, list[str]]](lambda: defaultdict(list))
    for place, texts, labels in rows:
        if labels is not None and any(texts) and texts in repeated:
            by_text[texts][_join_labels(labels)].append(place)
    return {" | ".join(texts): dict(by) for texts, by in by_text.items() if len(by) > 1}


def _join_labels(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def _make_alike(label: str) -> str:
    """Normalise a label so that labels that look alike become equal.

    Numbers become floats. In other labels, upper case, punctuation around the label, dashes and
    underscores between words, and the width of characters are ignored.
    """
    number = parse_number(label)
    words = unicodedata.normalize("NFKC", label).casefold().strip("'\".,;:!?")
    return (re.sub(r"[\s_-]+", " ", words) or label) if number is None else str(number)


def _group_equal(labels: Iterable[str], form: Callable[[str], str]) -> list[list[str]]:
    """Group labels for which ``form`` returns the same string. Single labels are left out."""
    groups = defaultdict[str, list[str]](list)
    for label in sorted({*labels}, key=label_sort_key):
        groups[form(label)].append(label)
    return [group for group in groups.values() if len(group) > 1]


def compute_length_statistics(
    counts: np.ndarray, max_length: int, are_counted: bool, unknown: float = 0
) -> Lengths:
    """Compute statistics of token counts, as described in `Lengths`."""
    median, longest = int(np.median(counts)), int(counts.max())
    cut = float(np.mean(counts > max_length))
    read = float(counts.clip(max=max_length).sum() / counts.sum())
    return Lengths(are_counted, median, longest, max_length, cut, read, unknown)


def require_labels(facts: Facts) -> None:
    """Check that a model can learn from the labels.

    Raises:
        SubtuneError: many rows have no label, there are too few or too many classes, most labels of
            the dev set do not occur in the training set, or a label of the test set does not.
    """
    names, parts = join_names(label_columns(facts.label)), facts.parts
    for part in parts.values():
        # For multi-label tasks, a later check explains better why a cell cannot be read.
        places = part.faulty.get(f"without {quote(names)}", ())
        if places and facts.kind != "multilabel":
            place = places[0].removesuffix(f" of {part.path}")
            raise SubtuneError(
                f"{part.path}: {place}: the row has no label in column {names!r}, expected a label "
                f"in each row (rows without a label are left out only if they are at most "
                f"{INCOMPLETE_SHARE:.0%} of all rows)"
            )
    train, dev = parts["train"], parts.get("validation", parts["train"])
    learnt = [word for word, count in train.labels.items() if count]
    # If 0/1 columns contain no 1, a later check names the cell that is neither 0 nor 1.
    if facts.kind == "regression" or not (learnt or isinstance(facts.label, str)):
        return
    if len(learnt) < 2:
        found = f"found only the label {join_names(learnt)}" if learnt else "no row has a label"
        raise SubtuneError(f"{train.path}: {found}, expected at least two classes")
    rows = train.rows - len(train.left_out)
    most = max(DEFAULTS.fewest_refused, rows // 2)
    limit = min(DEFAULTS.classes_of_words, most) if "kind" in facts.guessed else most
    if len(learnt) > limit:
        hint = "; if each label is a class, add --classes" if len(learnt) <= most else ""
        raise SubtuneError(
            f"--label: found {len(learnt):,} different labels in {rows:,} rows of column {names!r} "
            f"of {train.path}, expected at most {limit} classes{hint}"
        )
    for split, part in parts.items():
        # Labels that occur only in the dev set are classes, too. Labels that occur only in the test
        # set are mistakes.
        known = {*learnt, *(dev.labels if split == TEST else ())}
        unknown = sorted(word for word, count in part.labels.items() if count and word not in known)
        share = sum(part.labels[word] for word in unknown) / max(1, sum(part.labels.values()))
        if share > 0.5 or (split == TEST and unknown):
            raise SubtuneError(
                f"{part.path}: column {names!r}: {'most' if share > 0.5 else 'some'} rows have "
                f"labels that are not in the training set ({join_names(unknown[:5])}), expected "
                f"labels of {train.path} ({join_names(sorted(known)[:5])})"
            )
