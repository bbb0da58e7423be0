"""A look at tables before training: what can be counted in them, and the lines that say it."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from subtune.core.errors import cut, listed
from subtune.init.defaults import DEFAULTS
from subtune.init.labels import (
    Columns,
    Kind,
    answer_of,
    are_measured,
    are_sets,
    names_of,
    one_spelling,
    order,
)
from subtune.init.tables import Table, has_usual_name, not_read, number_in
from subtune.tasks.formats import sheets, shown, with_labels

# A line names at most this many columns or classes, and so many texts have a line.
NAMED, SHOWN = 12, 3
ROWS = {"train": "training ", "validation": "dev ", "test": "test "}
DOES = {"train": "train on", "validation": "evaluate on", "test": "judge by, which choose nothing"}
# The share of rows on which one of two methods is right and the other wrong. The median over pairs
# of methods was 0.08 to 0.15 in runs of MiniLM on SST-2, CoLA and MRPC.
DIFFERING = 1 / 8
# Half of a 95 % interval, in standard errors.
HALF = 1.96


class Row(NamedTuple):
    """A row: its place in words, one or two texts, and labels, None if their cell is empty."""

    place: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None

    def called(self, names: Mapping[str, str]) -> "Row":
        """Return it with the names of its labels."""
        return self._replace(labels=self.labels and tuple(names[word] for word in self.labels))


@dataclass(frozen=True)
class Part:
    """One file. ``labels``: rows of each class; none if numbers are predicted.

    ``missing``: places of empty cells, by column, and ``left_out`` those of rows without a label.
    ``repeated``: the number of rows with the text of an earlier one. ``also_in``: of rows with a
    text of another split, by that split.
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
    """A text with different labels, and the places of each."""

    text: str
    labels: dict[str, list[str]]


@dataclass(frozen=True)
class Lengths:
    """Tokens of the training texts, special ones included, and what a window leaves of them.

    ``are_counted``: by the model's tokenizer; else they are guessed from words. ``cut``: the share
    of texts that are longer than ``max_length``. ``read``: the share of all tokens that is read.
    """

    are_counted: bool
    median: int
    longest: int
    max_length: int
    cut: float
    read: float


@dataclass(frozen=True)
class Look:
    """The facts about some tables.

    ``not_read``: what other columns have, such as ids. ``guessed``: the options that nobody named.
    ``judges``: the split that judges. ``numbers``: the least and the largest label of a regression,
    and ``not_numbers`` what else it has. ``near_equal``: classes that are written in several ways.
    ``are_sets``: a row has any number of labels. ``most_frequent``: the label of most training
    rows, or their set. ``constant``: the share of judging rows in which it is right.
    """

    columns: tuple[str, ...]
    text: tuple[str, ...]
    label: Columns
    are_sets: bool
    not_read: dict[str, str]
    guessed: tuple[str, ...]
    judges: str
    parts: dict[str, Part]
    numbers: tuple[float, float] | None
    not_numbers: list[str]
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
    """Count what is in the tables of some splits, of which the last one judges.

    Args:
        kind: without it the labels decide.
        merge: labels that differ in capitals alone are one.
    """
    is_set = are_sets(read["train"], label, kind)
    parted = {
        # A row without any label is one of a set.
        split: (table.rows, list[str]()) if is_set else with_labels(table.rows, *names_of(label))
        for split, table in read.items()
    }
    rows = {
        split: [
            Row(
                place if split == "train" else f"{place} of {read[split].path}",
                # Several spaces, or an end of a line, are one space.
                tuple(" ".join(str(row.get(column) or "").split()) for column in text),
                answer_of(row, label, is_set),
            )
            for place, row in kept
        ]
        for split, (kept, _) in parted.items()
    }
    if merge:
        names = one_spelling(
            word for of in rows.values() for row in of for word in row.labels or ()
        )
        rows = {split: [row.called(names) for row in of] for split, of in rows.items()}
    known = (*text, *names_of(label))
    others = [c for c in read["train"].columns if "text" in guessed and c not in known]
    texts = {split: [row.texts for row in of if any(row.texts)] for split, of in rows.items()}
    counts = {
        split: Counter(word for row in of for word in row.labels or ())
        for split, of in rows.items()
    }
    columns = () if isinstance(label, str) else label
    words = sorted(set().union(*counts.values(), columns), key=order)
    judging = [*rows.values()][-1]
    numbers = [number for word in counts["train"] if (number := number_in(word)) is not None]
    is_measured = kind == "regression" or (kind is None and are_measured(counts["train"]))
    if is_measured := is_measured and not is_set:
        counts = {split: Counter() for split in counts}
    # The labels of a row are one answer.
    answers = Counter(row.labels for row in rows["train"] if row.labels is not None).most_common(1)
    answer = answers[0][0] if counts["train"] else None
    return Look(
        columns=read["train"].columns,
        text=text,
        label=label,
        are_sets=is_set,
        not_read={c: what for c in others if (what := not_read(read["train"], c))},
        guessed=guessed,
        judges=[*rows][-1],
        parts={
            split: Part(
                path=str(table.path),
                rows=len(table.rows),
                left_out=parted[split][1],
                labels={
                    word: counts[split][word]
                    for word in words
                    if word in counts[split] or word in columns
                },
                missing=_missing(rows[split], (*text, listed(names_of(label)))),
                repeated=len(texts[split]) - len({*texts[split]}),
                also_in={
                    other: sum(map({*texts[other]}.__contains__, texts[split]))
                    for other in [*read][: [*read].index(split)]
                },
            )
            for split, table in read.items()
        },
        numbers=(min(numbers), max(numbers)) if is_measured and numbers else None,
        not_numbers=[word for word in words if is_measured and number_in(word) is None],
        near_equal=[] if is_measured else near_equal(words),
        most_frequent=None if answer is None else _in_words(answer),
        constant=None if answer is None else _share(judging, answer),
        smallest_difference=None if answer is None else smallest_difference(len(judging)),
        conflicts=_conflicts(row for of_split in rows.values() for row in of_split),
        lengths=lengths,
    )


def lengths_of(counts: np.ndarray, max_length: int, are_counted: bool) -> Lengths:
    """Return the lengths of texts with these numbers of tokens, in a window of ``max_length``."""
    return Lengths(
        are_counted,
        median=int(np.median(counts)),
        longest=int(counts.max()),
        max_length=max_length,
        cut=float(np.mean(counts > max_length)),
        read=float(counts.clip(max=max_length).sum() / counts.sum()),
    )


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
        if len({*map(_folded, places)}) > 1
    ]


def _in_words(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def _share(rows: Sequence[Row], answer: tuple[str, ...]) -> float:
    labels = [row.labels for row in rows if row.labels is not None]
    return labels.count(answer) / max(1, len(labels))


def _percent(share: float | None) -> str:
    """Return a share in whole percents, or in tenths where all or nothing would be wrong."""
    share = share or 0.0
    rounded = f"{share:.0%}"
    return f"{share:.1%}" if rounded in ("0%", "100%") and 0 < share < 1 else rounded


def near_equal(labels: Iterable[str]) -> list[list[str]]:
    """Return groups of labels that differ in case, signs between words, or as 1 and 1.0 do."""
    groups = defaultdict[str, list[str]](list)
    for label in labels:
        groups[_folded(label)].append(label)
    return [group for group in groups.values() if len(group) > 1]


def _folded(label: str) -> str:
    plain = unicodedata.normalize("NFKC", label).casefold()
    number = number_in(plain)
    between_words = re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", plain)
    return between_words.strip(" .'\"") if number is None else str(number)


def smallest_difference(rows: int) -> float:
    """Return about the smallest difference of two accuracies that so many rows can show.

    Two methods are judged by the same ``n`` rows. They differ in a share ``q`` of them, where one
    is right and the other wrong. The difference of their accuracies is a mean of ``n`` values, 1,
    0 and -1, and has a standard error of at most ``sqrt(q / n)`` (McNemar, 1947). It shows if it is
    larger than 1.96 standard errors. The share is taken as `DIFFERING`, and cannot be less than the
    difference itself: ``max(1.96 sqrt(q / n), 1.96² / n)``, at most 1. With 200 rows this is 0.05.
    Differences between seeds come on top.
    """
    return min(1.0, max(HALF * math.sqrt(DIFFERING / rows), HALF**2 / rows))


def of_sheets(path: Path) -> Iterator[str]:
    """Yield a line if an Excel file has sheets that are not read."""
    if path.suffix == ".xlsx" and len(names := sheets(path)) > 1:
        of_all = listed(names, NAMED, "and")
        yield f"{path}: sheet {shown(names[0])} of {of_all} (the first; --sheet names another)"


def lines(look: Look) -> Iterator[str]:
    """Yield what a look has found, a line for each fact."""
    for part in look.parts.values():
        if "sheet" in look.guessed:
            yield from of_sheets(Path(part.path))
    for split, part in look.parts.items():
        columns = f"; columns {listed(look.columns, NAMED, 'and')}" if split == "train" else ""
        yield f"{part.path}: {part.rows:,} rows to {DOES[split]}{columns}"
    how = "pairs of texts: columns" if len(look.text) == 2 else "text: column"
    yield f"{how} {' and '.join(map(shown, look.text))}{_guess(look, 'text')}"
    for column, what in look.not_read.items():
        yield f"not read: column {shown(column)} ({what})"
    names = names_of(look.label)
    where = f"columns {listed(map(shown, names), NAMED, 'and')} of 0 and 1"
    if isinstance(look.label, str):
        is_only = "label" in look.guessed and not has_usual_name(look.label)
        where = f"column {shown(look.label)}{', the only one that can be it' * is_only}"
    yield f"label: {where}{_guess(look, 'label')}"
    if look.not_numbers:
        yield f"labels that are no numbers: {listed(look.not_numbers, NAMED, 'and')}"
    if look.numbers:
        low, high = look.numbers
        yield f"regression: numbers from {low:g} to {high:g} (if they are classes: --classes)"
    # The training rows judge where there are no others.
    judging = "rows" if look.judges == "train" else f"{ROWS[look.judges]}rows"
    if look.constant is not None:
        yield from _lines_of_classes(look, judging)
    for split, part in look.parts.items():
        if part.left_out:
            left_out = f"{len(part.left_out):,} of {part.rows:,} rows left out"
            yield f"{part.path}: {left_out}, without a label: {listed(part.left_out, NAMED, 'and')}"
        for column, places in part.missing.items():
            missing = f"{len(places):,}, the first in {places[0]}"
            yield f"{ROWS[split]}rows without {shown(column)}: {missing}"
        if part.repeated:
            repeated = f"{part.repeated:,} ({part.repeated / part.rows:.1%})"
            yield f"{ROWS[split]}rows with the text of an earlier one: {repeated}"
        for other, number in part.also_in.items():
            if number:
                yield (
                    f"{number:,} of the {part.rows:,} {ROWS[split]}rows are also in the "
                    f"{ROWS[other]}file: their scores say little about new texts"
                )
    if look.conflicts:
        rows = sum(len(found) for of in look.conflicts for found in of.labels.values())
        texts = f"texts with different labels: {len(look.conflicts):,}, in {rows:,} rows"
        yield f"{texts}; no method can be right in all of these"
    for conflict in look.conflicts[:SHOWN]:
        labels = (f"{cut(word)} ({found[0]})" for word, found in conflict.labels.items())
        where = listed(labels, SHOWN, "and")
        yield f"    {shown(conflict.text)}: {where}"
    of = look.lengths
    yield (
        f"lengths: half of the texts have up to {of.median:,} tokens"
        f"{'' if of.are_counted else ', guessed from their words'}, the longest {of.longest:,}; "
        f"max_length {of.max_length}, {what_is_read(of)}"
    )
    if look.smallest_difference:
        yield (
            f"{look.parts[look.judges].rows:,} {judging} show differences in accuracy from about "
            f"{look.smallest_difference:.2f} at best; smaller ones may be chance"
        )


def _lines_of_classes(look: Look, judging: str) -> Iterator[str]:
    train, judged_by = look.parts["train"].labels, look.parts[look.judges].labels
    for split, part in look.parts.items():
        where = "" if split == "train" else f" in the {ROWS[split]}rows"
        named = [f"{cut(word)} ({number:,})" for word, number in part.labels.items()]
        what, hint = "classes", ""
        if look.are_sets:
            what = "labels, any number of them"
            hint = " (if each cell is one class: --classes)" if isinstance(look.label, str) else ""
        elif None not in map(number_in, train):
            hint = " (if they are numbers to predict: --regression)"
        hint = hint if split == "train" else ""
        yield f"{len(named)} {what}{where}: {listed(named, NAMED, 'and')}{hint}"
    answer = f"always answering {listed([str(look.most_frequent)])}"
    yield f"{answer} is right in {_percent(look.constant)} of the {judging}"
    for group in look.near_equal:
        yield f"labels that may be one: {', '.join(map(shown, group))}"
    for word in sorted({word for part in look.parts.values() for word in part.labels}, key=order):
        if not train.get(word):
            yield f"label {shown(word)} is in no training row: no run can learn it"
        elif not judged_by.get(word):
            yield f"label {shown(word)} is in no {judging.removesuffix('s')}: no score includes it"
        if word.casefold() in DEFAULTS.missing:
            yield f"label {shown(word)} looks like a missing value; here it is a class"


def what_is_read(lengths: Lengths) -> str:
    """Return how many texts a window cuts, and what is read of all."""
    if not lengths.cut:
        return "which cuts none"
    read = "almost all" if lengths.read >= 0.9995 else f"{lengths.read:.1%}"
    return f"which cuts {lengths.cut:.1%} of them and reads {read} of their tokens"


def _guess(look: Look, option: str) -> str:
    return f" (a guess; --{option} names another)" if option in look.guessed else ""
