"""Facts about tables before training: classes, repeated texts, conflicting labels, lengths."""

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
    cell_labels,
    find_separators,
    guess_kind,
    label_names,
    label_order,
    row_labels,
)
from subtune.core.errors import SubtuneError, listed
from subtune.data.table_files import FEW, drop_unlabelled_rows
from subtune.tasks.sentences import parse_number, plain_label

# A row's place, its texts (in which any white space is one space), and its labels, if it has some.
PlacedTexts = tuple[str, tuple[str, ...], tuple[str, ...] | None]


@dataclass(frozen=True)
class SplitFacts:
    """The facts about one split.

    Attributes:
        path: the split's file.
        rows: the number of rows.
        labels: the number of rows of each class; empty if numbers are predicted.
        missing: the places of empty cells, by column.
        not_numbers: the places of a regression's labels that are not numbers.
        left_out: the places of rows that are left out because they have no label.
        also_in: for each earlier split, the number of rows whose text is also in that split.
    """

    path: str
    rows: int
    labels: dict[str, int]
    missing: dict[str, list[str]]
    not_numbers: list[str]
    left_out: list[str]
    also_in: dict[str, int]


@dataclass(frozen=True)
class Lengths:
    """Lengths of the training texts in tokens, with special tokens.

    Attributes:
        are_counted: whether the model's tokenizer counted the tokens; otherwise their number is
            guessed from words.
        median: the median length.
        longest: the length of the longest text.
        max_length: the most tokens of a text that are read.
        cut: the share of texts longer than ``max_length``.
        read: the share of all tokens that is read.
        unknown: the share of tokens that the model does not know.
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
    """The facts about some tables.

    Attributes:
        columns: the columns of the training file.
        text: the text columns.
        label: the label columns.
        kind: the kind of task.
        separators: the characters that separate the labels in a cell; None if nothing does.
        guessed: the options that the user did not give.
        judges: the split that gives the scores.
        parts: the facts about each split.
        numbers: the minimum and the maximum of a regression's labels.
        joined: spellings that count as one label.
        differing_in_capitals: labels that differ only in capitals; each is a class.
        most_frequent: the most frequent label, or set of labels, of the training rows.
        constant: the share of the judging rows that have this label.
        conflicts: the places of each label, for each text with different labels.
        deciding: for each other column that decides the label, the number of its different cells,
            and the share of the training rows in which they give the label.
        lengths: lengths of the training texts.
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
    differing_in_capitals: list[list[str]]
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
    """Collect the facts about tables.

    Args:
        tables: the tables by split; the last one gives the scores.
        text: the text columns.
        label: the label columns.
        lengths: lengths of the training texts.
        kind: kind of task; default: a guess from the labels.
        guessed: the options that the user did not give.
    """
    train, judges = tables["train"], [*tables][-1]
    if kind is None or not isinstance(label, str):
        kind = guess_kind(train, label)
    separators = None
    if kind == "multilabel" and isinstance(label, str):
        separators = find_separators(train.cells(label))
    read_labels = partial(row_labels, label=label, kind=kind, separators=separators)
    rows, parts = dict[str, list[PlacedTexts]](), dict[str, SplitFacts]()
    for split, table in tables.items():
        rows[split], parts[split] = _describe_split(
            split, table, text, label, kind, read_labels, rows
        )
    words = [word for *_, labels in rows["train"] for word in labels or ()]
    numbers = [n for n in map(parse_number, words) if n is not None]
    spellings: list[str] = []
    if isinstance(label, str) and kind != "regression":
        cells = chain(*(table.cells(label) for table in tables.values()))
        spellings = [
            word.strip() for cell in cells for word in cell_labels(cell, kind, separators) or ()
        ]
    # A row's set of labels is one answer.
    answers = Counter(labels for *_, labels in rows["train"] if labels is not None)
    answer, share = None, None
    if kind != "regression" and answers:
        [(most, _)] = answers.most_common(1)
        judged = [labels for *_, labels in rows[judges] if labels is not None]
        answer, share = _join_labels(most), judged.count(most) / max(1, len(judged))
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
        differing_in_capitals=_group_equal(
            chain(*(part.labels for part in parts.values())), str.casefold
        ),
        most_frequent=answer,
        constant=share,
        conflicts=_find_conflicts([*chain(*rows.values())]),
        deciding=_find_deciding_columns(
            train,
            [column for column in train.columns if column not in (*text, *label_names(label))],
            [read_labels(row) for _, row in train.rows],
        ),
        lengths=lengths,
    )


def _describe_split(
    split: str,
    table: UserTable,
    text: Sequence[str],
    label: LabelColumns,
    kind: Kind,
    read_labels: Callable[[Mapping[str, Any]], tuple[str, ...] | None],
    earlier: Mapping[str, Sequence[PlacedTexts]],
) -> tuple[list[PlacedTexts], SplitFacts]:
    """Return the rows of a split that are used, and the facts about it.

    Args:
        split: the split's name.
        table: its table.
        text: the text columns.
        label: the label columns.
        kind: the kind of task.
        read_labels: a function that returns the labels of a row.
        earlier: the rows of earlier splits.
    """
    placed, left_out = table.rows, list[str]()
    # A multi-label row without a label has an empty set of labels.
    if kind != "multilabel":
        placed, left_out = drop_unlabelled_rows(placed, *label_names(label))
    where = "" if split == "train" else f" of {table.path}"
    rows, columns = list[PlacedTexts](), (*text, listed(label_names(label)))
    missing, counts = defaultdict[str, list[str]](list), Counter[str]()
    for place, cells in placed:
        texts = tuple(" ".join(str(cells.get(column) or "").split()) for column in text)
        labels = read_labels(cells)
        rows.append((place + where, texts, labels))
        counts.update(labels or ())
        for column, cell in zip(columns, (*texts, labels), strict=True):
            if cell in ("", None):
                missing[column].append(place + where)
    also_in = {}
    for other, others in earlier.items():
        found = {texts for _, texts, _ in others}
        also_in[other] = sum(texts in found for _, texts, _ in rows if any(texts))
    # Each of several label columns is a class, even if no row has it.
    words = sorted({*counts, *(() if isinstance(label, str) else label)}, key=label_order)
    return rows, SplitFacts(
        path=str(table.path),
        rows=len(table.rows),
        labels={} if kind == "regression" else {word: counts[word] for word in words},
        missing=dict(missing),
        not_numbers=[
            place
            for place, _, labels in rows
            if kind == "regression" and labels and parse_number(*labels) is None
        ],
        left_out=left_out,
        also_in=also_in,
    )


def _find_deciding_columns(
    table: UserTable, columns: Iterable[str], answers: Sequence[tuple[str, ...] | None]
) -> dict[str, tuple[int, float]]:
    """Return each column that decides the label, such as an author with one label.

    Such a column has more different cells than there are answers. The usual answer of the other
    rows with the same cell is rarely wrong, compared with the most frequent answer of all.

    Returns:
        The number of different cells, and the share of the rows in which they give the answer.
    """
    known = Counter(answer for answer in answers if answer is not None)
    often_wrong, deciding = known.total() - max(known.values(), default=0), {}
    for column in columns:
        by_cell = defaultdict[str, Counter](Counter)
        for cell, answer in zip(table.cells(column), answers, strict=True):
            if answer is not None:
                by_cell[str(cell)][answer] += 1
        right = 0
        for counts in by_cell.values():
            most, second = [*sorted(counts.values(), reverse=True), 0][:2]
            # The other rows have one row less with the usual answer.
            right += most if most - 1 > second else 0
        if (
            len(by_cell) > len(known) > 1
            and known.total() - right <= DEFAULTS.undecided * often_wrong
        ):
            deciding[column] = len(by_cell), right / known.total()
    return deciding


def _find_conflicts(rows: Sequence[PlacedTexts]) -> dict[str, dict[str, list[str]]]:
    """Return the places of each label, for each text with different labels."""
    repeated = {texts for texts, n in Counter(texts for _, texts, _ in rows).items() if n > 1}
    by_text = defaultdict[tuple, dict[str, list[str]]](lambda: defaultdict(list))
    for place, texts, labels in rows:
        if labels is not None and any(texts) and texts in repeated:
            by_text[texts][_join_labels(labels)].append(place)
    return {" | ".join(texts): dict(by) for texts, by in by_text.items() if len(by) > 1}


def _join_labels(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def _group_equal(labels: Iterable[str], form: Callable[[str], str]) -> list[list[str]]:
    """Return the groups of several labels that are equal in a form."""
    groups = defaultdict[str, list[str]](list)
    for label in sorted({*labels}, key=label_order):
        groups[form(label)].append(label)
    return [group for group in groups.values() if len(group) > 1]


def describe_lengths(
    counts: np.ndarray, max_length: int, are_counted: bool, unknown: float = 0
) -> Lengths:
    """Describe the lengths of texts.

    Args:
        counts: the number of tokens of each text.
        max_length: the most tokens of a text that are read.
        are_counted: whether the model's tokenizer counted the tokens.
        unknown: the share of tokens that the model does not know.
    """
    return Lengths(
        are_counted,
        median=int(np.median(counts)),
        longest=int(counts.max()),
        max_length=max_length,
        cut=float(np.mean(counts > max_length)),
        read=float(counts.clip(max=max_length).sum() / counts.sum()),
        unknown=unknown,
    )


def require_labels(facts: Facts) -> None:
    """Refuse labels from which nothing can be learnt.

    Raises:
        SubtuneError: many rows have no label, there are too few or too many classes, or most dev
            rows have labels that no training row has.
    """
    names = listed(label_names(facts.label))
    for part in facts.parts.values():
        # The reader of multi-label rows says more about a cell that it cannot read.
        if names in part.missing and facts.kind != "multilabel":
            place = part.missing[names][0].removesuffix(f" of {part.path}")
            raise SubtuneError(
                f"{part.path}: {place}: found no text or number in column {names!r}, expected a "
                f"label in every row, or in all but {FEW:.0%}, which are left out"
            )
    if facts.kind == "regression":
        return
    _require_classes(facts, names)
    train, dev = facts.parts["train"], facts.parts.get("validation", facts.parts["train"])
    unknown = sorted(word for word, count in dev.labels.items() if not train.labels.get(word))
    if 2 * sum(dev.labels[word] for word in unknown) > sum(dev.labels.values()):
        known = sorted(word for word, count in train.labels.items() if count)
        raise SubtuneError(
            f"{dev.path}: column {names!r}: found {listed(unknown[:5])} in most rows, expected "
            f"labels of {train.path} ({listed(known[:5])})"
        )


def _require_classes(facts: Facts, column: str) -> None:
    """Refuse fewer than two classes, and more classes than can be learnt from the rows."""
    train = facts.parts["train"]
    known = [word for word, count in train.labels.items() if count]
    if len(known) < 2:
        found = listed(known) or "none"
        raise SubtuneError(f"{train.path}: found no label but {found}, expected at least two")
    rows = train.rows - len(train.left_out)
    most = max(DEFAULTS.fewest_refused, rows // 2)
    limit = min(DEFAULTS.classes_of_words, most) if "kind" in facts.guessed else most
    if len(known) > limit:
        hint = "; if they are classes: --classes" if len(known) <= most else ""
        raise SubtuneError(
            f"--label: found {len(known):,} different labels in {rows:,} rows of column {column!r} "
            f"of {train.path}, expected at most {limit} classes{hint}"
        )
