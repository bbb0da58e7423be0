"""A look at tables before training: what can be counted in them, and the lines that say it."""

import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subtune.core.errors import cut, listed
from subtune.init.defaults import DEFAULTS
from subtune.init.labels import Kind, are_measured, order
from subtune.init.tables import Table, number_in
from subtune.tasks.formats.text import shown

# A line names at most this many columns or classes.
NAMED = 12
# Texts with different labels that are shown.
SHOWN = 3
ROWS = {"train": "training", "validation": "dev", "test": "test"}
DOES = {
    "train": "to train on",
    "validation": "to evaluate on",
    "test": "to judge by, which choose nothing",
}
# The share of rows on which one of two methods is right and the other wrong. The median over pairs
# of methods was 0.08 to 0.15 in runs of MiniLM on SST-2, CoLA and MRPC.
DIFFERING = 1 / 8
# Half of a 95 % interval, in standard errors.
HALF = 1.96


class Row(NamedTuple):
    """A row: its place in words, its one or two texts, and its labels, which may be none.

    Several spaces and ends of lines count as one space.
    """

    place: str
    texts: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """Rows of a file whose cell of a column is empty, and the line of the first."""

    column: str
    rows: int
    line: int


@dataclass(frozen=True)
class Part:
    """One file. ``labels``: rows of each class, which are none if numbers are predicted.

    ``repeated``: rows with the text of an earlier one. ``also_in``: rows whose text another split
    has, by that split.
    """

    path: str
    rows: int
    labels: dict[str, int]
    missing: list[Missing]
    repeated: int
    also_in: dict[str, int]


@dataclass(frozen=True)
class Conflict:
    """A text with different labels, where each label is first, and the number of its rows."""

    text: str
    labels: dict[str, str]
    rows: int


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

    ``guessed``: the options that nobody named. ``judges``: the split that judges. ``numbers``: the
    least and the largest label of a regression, and ``not_numbers`` what else it has.
    ``near_equal``: classes that are written in several ways. ``most_frequent``: the label of most
    training rows. ``constant``: the share of judging rows in which it is right. ``conflicts``: the
    first of ``conflicting_texts``, which are in so many ``conflicting_rows``.
    """

    columns: tuple[str, ...]
    text: tuple[str, ...]
    label: str
    guessed: tuple[str, ...]
    judges: str
    parts: dict[str, Part]
    numbers: tuple[float, float] | None
    not_numbers: list[str]
    near_equal: list[list[str]]
    most_frequent: str | None
    constant: float | None
    smallest_difference: float | None
    conflicting_texts: int
    conflicting_rows: int
    conflicts: list[Conflict]
    lengths: Lengths


def look_at(
    read: Mapping[str, Table],
    text: tuple[str, ...],
    label: str,
    lengths: Lengths,
    kind: Kind | None = None,
    guessed: tuple[str, ...] = (),
) -> Look:
    """Count what is in the tables of some splits, of which the last one judges.

    Args:
        kind: without it the labels decide.
    """
    rows = {
        split: _rows(table, text, label, of_file=split != "train") for split, table in read.items()
    }
    counts = {split: Counter(_labels_of(of_split)) for split, of_split in rows.items()}
    every = sorted(set().union(*counts.values()), key=order)
    judges = [*rows][-1]
    known = [number for word in counts["train"] if (number := number_in(word)) is not None]
    is_measured = kind == "regression" or (kind is None and are_measured(counts["train"]))
    words = [] if is_measured else every
    has_classes = not is_measured and bool(counts["train"])
    answers = Counter(row.labels for row in rows["train"] if row.labels).most_common(1)
    conflicts = _conflicts(row for of_split in rows.values() for row in of_split)
    texts = {
        split: [row.texts for row in of_split if any(row.texts)] for split, of_split in rows.items()
    }
    return Look(
        columns=read["train"].columns,
        text=text,
        label=label,
        guessed=guessed,
        judges=judges,
        parts={
            split: Part(
                path=str(table.path),
                rows=len(table.rows),
                labels={w: counts[split][w] for w in words if counts[split][w]},
                missing=[*_missing(table, (*text, label))],
                repeated=len(texts[split]) - len({*texts[split]}),
                also_in={
                    other: sum(map({*texts[other]}.__contains__, texts[split]))
                    for other in itertools.takewhile(split.__ne__, texts)
                },
            )
            for split, table in read.items()
        },
        numbers=(min(known), max(known)) if is_measured and known else None,
        not_numbers=[w for w in every if is_measured and number_in(w) is None],
        near_equal=near_equal(words),
        most_frequent=_joined(answers[0][0]) if has_classes else None,
        constant=_share(rows[judges], answers[0][0]) if has_classes else None,
        smallest_difference=smallest_difference(len(rows[judges])) if has_classes else None,
        conflicting_texts=len(conflicts),
        conflicting_rows=sum(conflict.rows for conflict in conflicts),
        conflicts=conflicts[:SHOWN],
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


def labels_in(cell: Any) -> tuple[str, ...]:
    """Return the labels of a cell, which may be a list of them; none if it is empty."""
    words = cell if isinstance(cell, list) else [cell]
    return tuple(str(word).strip() for word in words if word is not None and str(word).strip())


def _rows(table: Table, text: Sequence[str], label: str, of_file: bool = False) -> list[Row]:
    """Return a table's rows; their places name its file if ``of_file``."""
    file = f" of {table.path}" if of_file else ""
    return [
        Row(
            f"line {line}{file}",
            tuple(" ".join(str(row.get(column) or "").split()) for column in text),
            labels_in(row.get(label)),
        )
        for line, row in table.rows
    ]


def _labels_of(rows: Iterable[Row]) -> Iterator[str]:
    return itertools.chain.from_iterable(row.labels for row in rows)


def _missing(table: Table, columns: Iterable[str]) -> Iterator[Missing]:
    for column in columns:
        lines = [line for line, row in table.rows if not labels_in(row.get(column))]
        if lines:
            yield Missing(column, len(lines), lines[0])


def _conflicts(rows: Iterable[Row]) -> list[Conflict]:
    """Return the texts of which some rows have other labels than others."""
    by_text = defaultdict[tuple[str, ...], list[Row]](list)
    for row in rows:
        if row.labels and any(row.texts):
            by_text[row.texts].append(row)
    found = []
    for texts, same in by_text.items():
        places: dict[str, str] = {}
        for row in same:
            places.setdefault(_joined(row.labels), row.place)
        if len({_joined(sorted(map(_folded, row.labels))) for row in same}) > 1:
            found.append(Conflict(cut(" | ".join(texts)), places, len(same)))
    return found


def _joined(labels: Sequence[str]) -> str:
    return ", ".join(labels)


def _share(rows: Sequence[Row], labels: tuple[str, ...]) -> float:
    """Return the share of rows with exactly these labels."""
    return sum(row.labels == labels for row in rows) / len(rows)


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


def lines(look: Look) -> Iterator[str]:
    """Yield what a look has found, a line for each fact."""
    for split, part in look.parts.items():
        columns = f"; columns {listed(look.columns, NAMED, 'and')}" if split == "train" else ""
        yield f"{part.path}: {part.rows:,} rows {DOES[split]}{columns}"
    how = "pairs of texts: columns" if len(look.text) == 2 else "text: column"
    yield f"{how} {' and '.join(map(shown, look.text))}{_guess(look, 'text')}"
    yield f"label: column {shown(look.label)}{_guess(look, 'label')}"
    if look.not_numbers:
        yield f"labels that are no numbers: {listed(look.not_numbers, NAMED, 'and')}"
    if look.numbers:
        low, high = look.numbers
        yield f"regression: numbers from {low:g} to {high:g} (if they are classes: --classes)"
    if look.constant is not None:
        yield from _lines_of_classes(look)
    for split, part in look.parts.items():
        for missing in part.missing:
            yield (
                f"{_rows_of(missing.rows, split)} nothing in column {shown(missing.column)}, "
                f"the first in line {missing.line} of {part.path}"
            )
        if part.repeated:
            share = part.repeated / part.rows
            yield f"{_rows_of(part.repeated, split)} the text of an earlier one ({share:.1%})"
        for other, number in part.also_in.items():
            if number:
                yield (
                    f"{number:,} of the {part.rows:,} {ROWS[split]} rows are also in the "
                    f"{ROWS[other]} file: their scores say little about new texts"
                )
    if look.conflicts:
        yield (
            f"texts with different labels: {look.conflicting_texts:,}, in "
            f"{look.conflicting_rows:,} rows; no method can be right in all of these"
        )
    for conflict in look.conflicts:
        where = (f"{cut(label)} ({place})" for label, place in conflict.labels.items())
        yield f"    {shown(conflict.text)}: {', '.join(where)}"
    of = look.lengths
    yield (
        f"lengths: half of the texts have up to {of.median:,} tokens"
        f"{'' if of.are_counted else ', guessed from their words'}, the longest {of.longest:,}; "
        f"max_length {of.max_length}, {what_is_read(of)}"
    )
    if look.smallest_difference:
        rows = f"{look.parts[look.judges].rows:,} {_judging(look)}rows"
        yield (
            f"{rows} show differences in accuracy from about {look.smallest_difference:.2f} at "
            "best; smaller ones may be chance"
        )


def what_is_read(lengths: Lengths) -> str:
    """Return how many texts a window cuts, and what is read of all."""
    if not lengths.cut:
        return "which cuts none"
    return f"which cuts {lengths.cut:.1%} of them and reads {lengths.read:.1%} of their tokens"


def _lines_of_classes(look: Look) -> Iterator[str]:
    counts = {split: part.labels for split, part in look.parts.items()}
    for split, of_split in counts.items():
        where = "" if split == "train" else f" in the {ROWS[split]} rows"
        named = [f"{cut(word)} ({number:,})" for word, number in of_split.items()]
        are_numbers = split == "train" and None not in map(number_in, of_split)
        hint = " (if they are numbers to predict: --regression)" if are_numbers else ""
        yield f"{len(named)} classes{where}: {listed(named, NAMED, 'and')}{hint}"
    answer = f"always answering {listed([str(look.most_frequent)])}"
    yield f"{answer} is right in {look.constant:.0%} of the {_judging(look)}rows"
    for group in look.near_equal:
        yield f"labels that may be one: {listed(map(repr, group))}; each is a class here"
    for word in sorted(set().union(*counts.values()), key=order):
        if word not in counts["train"]:
            yield f"label {cut(word)!r} is in no training row: no run can learn it"
        elif word not in counts[look.judges]:
            yield f"label {cut(word)!r} is in no {_judging(look)}row: no score includes it"
        if word.casefold() in DEFAULTS.missing:
            yield f"label {cut(word)!r} looks like a missing value; here it is a class"


def _judging(look: Look) -> str:
    return "" if look.judges == "train" else f"{ROWS[look.judges]} "


def _rows_of(number: int, split: str) -> str:
    return f"{number:,} {ROWS[split]} row{' has' if number == 1 else 's have'}"


def _guess(look: Look, option: str) -> str:
    return f" (a guess; --{option} names another)" if option in look.guessed else ""
