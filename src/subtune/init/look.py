"""Facts about tables before training, and checks of their labels."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, Literal, NamedTuple

import numpy as np

from subtune.core.errors import SubtuneError, cut, listed
from subtune.init import DEFAULTS
from subtune.init.tables import Columns, Table, ids_or_dates, number_in
from subtune.tasks.formats import FEW, with_labels
from subtune.tasks.sentences import flag_in, folded, words_in

Kind = Literal["classification", "multilabel", "regression"]
# The share of rows on which one of two methods is right and the other wrong. The median over pairs
# of methods was 0.08 to 0.15 in runs of MiniLM on SST-2, CoLA and MRPC.
DIFFERING = 1 / 8
# Half of a 95 % interval, in standard errors.
HALF = 1.96


class Row(NamedTuple):
    """A row: its place in words, one or two texts, and its labels (None if the cell is empty)."""

    place: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None


@dataclass(frozen=True)
class Part:
    """The facts about one file.

    ``labels``: the number of rows of each class; empty if numbers are predicted. ``missing``:
    places of empty cells, by column. ``left_out``: places of rows without a label. ``repeated``:
    the number of rows that repeat an earlier text. ``also_in``: for each other split, the number of
    rows whose text is also in that split.
    """

    path: str
    rows: int
    labels: dict[str, int]
    missing: dict[str, list[str]]
    left_out: list[str]
    repeated: int
    also_in: dict[str, int]


@dataclass(frozen=True)
class Conflict:
    """A text with different labels, and the places of each label."""

    text: str
    labels: dict[str, list[str]]


@dataclass(frozen=True)
class Lengths:
    """Lengths of the training texts in tokens, with special tokens, and the share that is read.

    ``are_counted``: whether the model's tokenizer counted them; otherwise they are guessed from
    words. ``cut``: the share of texts longer than ``max_length``. ``read``: the share of all tokens
    that is read. ``unknown``: the share of tokens that the model does not know.
    """

    are_counted: bool
    median: int
    longest: int
    max_length: int
    cut: float
    read: float
    unknown: float


@dataclass(frozen=True)
class Look:
    """The facts about some tables.

    ``not_read``: ``ids`` or ``dates``, by unused column. ``guessed``: the options that were not
    given. ``judges``: the split that gives the scores. ``numbers``: the least and the largest label
    of a regression. ``near_equal``: classes with several spellings. ``most_frequent``: the most
    frequent label, or set of labels, of training rows. ``constant``: the share of judging rows with
    this label.
    """

    columns: tuple[str, ...]
    text: tuple[str, ...]
    label: Columns
    kind: Kind
    not_read: dict[str, str]
    guessed: tuple[str, ...]
    judges: str
    parts: dict[str, Part]
    numbers: tuple[float, float] | None
    near_equal: list[list[str]]
    most_frequent: str | None
    constant: float | None
    smallest_difference: float | None
    conflicts: list[Conflict]
    lengths: Lengths


def look_at(
    read: Mapping[str, Table],
    text: tuple[str, ...],
    label: Columns,
    lengths: Lengths,
    kind: Kind | None = None,
    guessed: tuple[str, ...] = (),
    merge: bool = False,
) -> Look:
    """Collect the facts about the tables of some splits; the last split gives the scores.

    Args:
        kind: kind of task; default: a guess from the labels.
        merge: whether to merge labels that differ only in capitals or invisible characters.
    """
    train, names = read["train"], names_of(label)
    are_sets = kind == "multilabel" or not isinstance(label, str)
    if kind is None and isinstance(label, str):
        are_sets = _are_lists(train.cells(label))
    rows, left_out = dict[str, list[Row]](), dict[str, list[str]]()
    for split, table in read.items():
        # Tasks with sets of labels keep rows without a label.
        kept, left_out[split] = (table.rows, []) if are_sets else with_labels(table.rows, *names)
        where = "" if split == "train" else f" of {table.path}"
        rows[split] = [
            # Several spaces or a line end count as one space.
            Row(
                place + where,
                tuple(" ".join(str(row.get(column) or "").split()) for column in text),
                labels_in(row, label, are_sets),
            )
            for place, row in kept
        ]
    if merge:
        rows = _merged(rows)
    counts = {
        split: Counter(word for row in kept for word in row.labels or ())
        for split, kept in rows.items()
    }
    if are_sets:
        kind = "multilabel"
    elif kind is None:
        kind = "regression" if are_measured(counts["train"]) else "classification"
    is_measured = kind == "regression"
    texts = {split: [row.texts for row in kept if any(row.texts)] for split, kept in rows.items()}
    flags = () if isinstance(label, str) else label
    words = sorted(set().union(*counts.values(), flags), key=order)
    parts = dict[str, Part]()
    for split, table in read.items():
        counted = {w: counts[split][w] for w in words if w in counts[split] or w in flags}
        parts[split] = Part(
            path=str(table.path),
            rows=len(table.rows),
            labels={} if is_measured else counted,
            missing=_missing(rows[split], (*text, listed(names))),
            left_out=left_out[split],
            repeated=len(texts[split]) - len({*texts[split]}),
            also_in={
                other: sum(map({*texts[other]}.__contains__, texts[split])) for other in parts
            },
        )
    numbers = [number for word in counts["train"] if (number := number_in(word)) is not None]
    most_frequent = constant = smallest = None
    if counts["train"] and not is_measured:
        # A row's set of labels is one answer.
        answers = Counter(row.labels for row in rows["train"] if row.labels is not None)
        answer = answers.most_common(1)[0][0]
        judging = [row.labels for row in rows[[*read][-1]]]
        constant = judging.count(answer) / max(1, len(judging) - judging.count(None))
        most_frequent, smallest = _in_words(answer), smallest_difference(len(judging))
    others = [c for c in train.columns if "text" in guessed and c not in (*text, *names)]
    return Look(
        columns=train.columns,
        text=text,
        label=label,
        kind=kind,
        not_read={c: what for c in others if (what := ids_or_dates(train, c))},
        guessed=guessed,
        judges=[*read][-1],
        parts=parts,
        numbers=(min(numbers), max(numbers)) if is_measured and numbers else None,
        near_equal=[] if is_measured else near_equal(words),
        most_frequent=most_frequent,
        constant=constant,
        smallest_difference=smallest,
        conflicts=_conflicts(chain(*rows.values())),
        lengths=lengths,
    )


def names_of(label: Columns) -> tuple[str, ...]:
    """Return the names of the label's columns."""
    return (label,) if isinstance(label, str) else label


def labels_in(row: Mapping[str, Any], label: Columns, are_sets: bool) -> tuple[str, ...] | None:
    """Return the labels of a row, or None if its cells have none."""
    if not isinstance(label, str):
        flags = [flag_in(row.get(name)) for name in label]
        return None if None in flags else tuple(sorted(compress(label, flags)))
    cell = row.get(label)
    if are_sets:
        words = words_in(cell)
        return None if words is None else tuple(sorted(words))
    return (cell.strip(),) if isinstance(cell, str) and folded(cell) else None


def _are_lists(cells: Sequence[Any]) -> bool:
    """Return whether cells are lists: most are, or ``|`` or ``;`` joins few different words."""
    given = [cell for cell in cells if cell]
    lists = [c for c in given if not isinstance(c, str) or c.lstrip().startswith("[")]
    if 2 * len([cell for cell in lists if words_in(cell) is not None]) > len(given):
        return True
    different = {cell for cell in given if isinstance(cell, str)}
    words = {word for cell in different for word in words_in(cell) or ()}
    return bool({*"|;"} & {*"".join(different)}) and len(words) < len(different)


def are_measured(labels: Collection[str]) -> bool:
    """Return whether labels look like numbers to predict: decimals, or many different integers."""
    numbers = list(map(number_in, labels))
    known = [number for number in numbers if number is not None]
    are_many = len(known) > DEFAULTS.classes_of_numbers
    if len(known) < len(numbers):
        # A few words among many numbers are mistakes; they are refused later, with their lines.
        return are_many and 10 * (len(numbers) - len(known)) < len(numbers)
    # Beside 1 and 2, the label 1,2 may be a list of them.
    are_mixed = len({"," in label for label in labels}) > 1
    return are_many or not (are_mixed or all(number.is_integer() for number in known))


def _merged(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return the rows; labels that `folded` makes equal become the most frequent one."""
    words = Counter(word for row in chain(*rows.values()) for word in row.labels or ())
    names: dict[str, str] = {}
    for word, _ in words.most_common():
        names.setdefault(folded(word), word)

    def merged(row: Row) -> Row:
        return row._replace(
            labels=row.labels and tuple(sorted({names[folded(word)] for word in row.labels}))
        )

    return {split: [*map(merged, kept)] for split, kept in rows.items()}


def _missing(rows: Iterable[Row], columns: Sequence[str]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for row in rows:
        for column, cell in zip(columns, (*row.texts, row.labels), strict=True):
            if cell in ("", None):
                places.setdefault(column, []).append(row.place)
    return places


def _conflicts(rows: Iterable[Row]) -> list[Conflict]:
    by_text = defaultdict[tuple, dict[str, list[str]]](lambda: defaultdict(list))
    for row in rows:
        if row.labels is not None and any(row.texts):
            by_text[row.texts][_in_words(row.labels)].append(row.place)
    return [
        Conflict(" | ".join(texts), dict(places))
        for texts, places in by_text.items()
        if len({*map(_without_signs, places)}) > 1
    ]


def _in_words(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def order(label: str) -> tuple[float, str]:
    """Return a sorting key: numbers by size, then words by their letters."""
    number = number_in(label)
    return (math.inf if number is None else number), label


def near_equal(labels: Iterable[str]) -> list[list[str]]:
    """Return groups of labels that differ only in case, in signs between words, or as 1 and 1.0
    do."""
    groups = defaultdict[str, list[str]](list)
    for label in labels:
        groups[_without_signs(label)].append(label)
    return [group for group in groups.values() if len(group) > 1]


def _without_signs(label: str) -> str:
    plain = folded(unicodedata.normalize("NFKC", label))
    number = number_in(plain)
    between_words = re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", plain)
    return between_words.strip(" .'\"") if number is None else str(number)


def smallest_difference(rows: int) -> float:
    """Return roughly the smallest difference between two accuracies that ``n`` rows can show.

    On a share ``q`` of the rows, one of the two methods is right and the other wrong. The
    difference of their accuracies is a mean of ``n`` values, 1, 0 and -1, and has a standard error
    of at most ``sqrt(q / n)`` (McNemar, 1947). It is significant above 1.96 standard errors. The
    share is assumed to be `DIFFERING`, but at least the difference itself: ``max(1.96 sqrt(q / n),
    1.96² / n)``, at most 1. With 200 rows this is 0.05. Differences between seeds are not included.
    """
    return min(1.0, max(HALF * math.sqrt(DIFFERING / rows), HALF**2 / rows))


def lengths_of(
    counts: np.ndarray, max_length: int, are_counted: bool, unknown: float = 0
) -> Lengths:
    """Return the lengths of texts from their numbers of tokens, cut at ``max_length``."""
    return Lengths(
        are_counted,
        median=int(np.median(counts)),
        longest=int(counts.max()),
        max_length=max_length,
        cut=float(np.mean(counts > max_length)),
        read=float(counts.clip(max=max_length).sum() / counts.sum()),
        unknown=unknown,
    )


def require_labels(read: Mapping[str, Table], look: Look) -> None:
    """Refuse labels from which nothing can be learnt.

    Raises:
        SubtuneError: a row has no label, labels differ only in capitals or invisible characters,
            there are too few or too many classes, or most dev rows have labels that no training row
            has.
    """
    judged = {split: read[split] for split in ("train", "validation") if split in read}
    names = listed(names_of(look.label))
    for split, table in judged.items():
        if names not in look.parts[split].missing:
            continue
        place, row = next(_rows_with(table, look, None))
        problem = f"found no text or number in column {names!r}, expected a label in every row"
        problem += f", or in all but {FEW:.0%}, which are left out"
        if look.kind == "multilabel":
            cells = listed(str(row.get(name)) for name in names_of(look.label))
            problem = f"column {names}: found {cells}, expected a list, labels between '|' or ';', "
            problem += "or columns of 0 and 1"
        raise SubtuneError(f"{table.path}: {place}: {problem}")
    if look.kind == "regression":
        return
    train, dev = look.parts["train"], look.parts.get("validation", look.parts["train"])
    _require_one_spelling(read, look, Counter(train.labels) | Counter(dev.labels))
    known = sorted(word for word, count in train.labels.items() if count)
    if len(known) < 2:
        raise SubtuneError(
            f"{train.path}: found no label but {listed(known) or 'none'}, expected at least two"
        )
    rows = train.rows - len(train.left_out)
    most = max(DEFAULTS.fewest_refused, rows // 2)
    limit = min(DEFAULTS.classes_of_words, most) if "kind" in look.guessed else most
    if len(known) > limit:
        hint = "; if they are classes: --classes" if len(known) <= most else ""
        raise SubtuneError(
            f"--label: found {len(known):,} different labels in {rows:,} rows of column {names!r} "
            f"of {train.path}, expected at most {limit} classes{hint}"
        )
    unknown = sorted(word for word, count in dev.labels.items() if count and word not in known)
    if 2 * sum(dev.labels[word] for word in unknown) > sum(dev.labels.values()):
        raise SubtuneError(
            f"{dev.path}: column {names!r}: found {listed(unknown[:5])} in most rows, expected "
            f"labels of {train.path} ({listed(known[:5])})"
        )


def _require_one_spelling(read: Mapping[str, Table], look: Look, counts: Counter[str]) -> None:
    spellings: dict[str, str] = {}
    for word, count in counts.most_common():
        other = spellings.setdefault(folded(word), word)
        if other != word:
            # `repr` shows some characters that look like others, or like none.
            quote = repr if word.casefold() == other.casefold() else ascii
            table = read["train" if look.parts["train"].labels.get(word) else "validation"]
            place, _ = next(_rows_with(table, look, word))
            raise SubtuneError(
                f"{table.path}: {place}: found the label {quote(cut(word))} ({count:,} in all), "
                f"and elsewhere {quote(cut(other))} ({counts[other]:,}); expected one spelling, or "
                "--merge-labels, which makes them one"
            )


def _rows_with(table: Table, look: Look, word: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows with a label, or those without any, each with its place."""
    for place, row in table.rows:
        labels = labels_in(row, look.label, look.kind == "multilabel")
        if labels is None if word is None else word in (labels or ()):
            yield place, row
