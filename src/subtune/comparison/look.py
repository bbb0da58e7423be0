"""Describe tables before training: classes, repeated texts, conflicting labels, text lengths."""

import re
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from subtune.comparison import DEFAULTS, Kind
from subtune.comparison.user_table import (
    LabelColumns,
    LabelRule,
    UserTable,
    find_label_rule,
    is_number,
    label_columns,
    label_sort_key,
)
from subtune.core.errors import format_count, join_names, quote
from subtune.data.binary_files import sheet_names
from subtune.data.table_files import find_incomplete_rows
from subtune.models.model_files import unknown_lines
from subtune.tasks.sentences import parse_number, plain_label

# A line names at most `NAMED` columns or classes. At most `SHOWN` conflicts are printed.
NAMED, SHOWN = 12, 3
# The strings that programs write for missing values and formula errors, in lower case.
NO_VALUES = {
    *("nan", "nat", "na", "n/a", "<na>", "null", "(null)", r"\n", "#n/a", "#name?", "#ref!"),
    *("#value!", "#div/0!", "#num!", "#null!"),
}
ROWS = {"train": "training ", "validation": "dev ", "test": "test "}
USES = {"train": "training", "validation": "evaluation", "test": "final scores only"}
# The labels of a row; None if the row has no label.
RowLabels = tuple[str, ...] | None
# The place of a row in its file, its texts with normalised white space, and its labels.
PlacedTexts = tuple[str, tuple[str, ...], RowLabels]


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
    rule, judges = find_label_rule(tables, label, kind), [*tables][-1]
    rows, parts = dict[str, list[PlacedTexts]](), dict[str, SplitFacts]()
    answers, spellings = dict[str, list[RowLabels]](), set[str]()
    for split, table in tables.items():
        words = [rule.read_words(row) for _, row in table.rows]
        spellings.update(word.strip() for each in words for word in each or ())
        answers[split] = [*map(rule.normalise, words)]
        rows[split], parts[split] = _describe_split(table, text, rule, answers[split], rows)
    # In a multi-label task, each set of labels is counted like a class.
    counts = Counter(labels for *_, labels in rows["train"] if labels is not None)
    is_counted = rule.kind != "regression" and bool(counts)
    most = max(counts, key=counts.__getitem__, default=())
    scored = [labels for *_, labels in rows[judges] if labels is not None]
    numbers = [n for words in counts for word in words if (n := parse_number(word)) is not None]
    has_words = rule.kind != "regression" and isinstance(label, str)
    return Facts(
        columns=tables["train"].columns,
        text=text,
        label=label,
        kind=rule.kind,
        separators=rule.separators,
        guessed=guessed,
        judges=judges,
        parts=parts,
        numbers=(min(numbers), max(numbers)) if rule.kind == "regression" and numbers else None,
        joined=_group_equal(spellings, plain_label) if has_words else [],
        alike=_group_equal(chain(*(part.labels for part in parts.values())), _make_alike),
        most_frequent=_join_labels(most) if is_counted else None,
        constant=scored.count(most) / max(1, len(scored)) if is_counted else None,
        conflicts=_find_conflicts([*chain(*rows.values())]),
        deciding=_find_deciding_columns(
            tables["train"], {*text, *label_columns(label)}, answers["train"]
        ),
        lengths=lengths,
    )


def _describe_split(
    table: UserTable,
    text: Sequence[str],
    rule: LabelRule,
    answers: Sequence[RowLabels],
    earlier: Mapping[str, Sequence[PlacedTexts]],
) -> tuple[list[PlacedTexts], SplitFacts]:
    """Collect the facts about a split, and return them with the rows of the split that are used.

    ``answers`` are the labels of all rows. ``earlier`` has the rows of the earlier splits,
    beginning with the training set.
    """
    # In a multi-label task, a row without labels is an example with an empty set of labels.
    needed = () if rule.kind == "multilabel" else label_columns(rule.label)
    left_out = dict.fromkeys(find_incomplete_rows(table.rows, text, needed))
    where, name = f" of {table.path}" if earlier else "", join_names(label_columns(rule.label))
    rows, faulty, counts = list[PlacedTexts](), defaultdict[str, list[str]](list), Counter[str]()
    for (place, cells), labels in zip(table.rows, answers, strict=True):
        if place in left_out:
            continue
        texts = tuple(" ".join(str(cells.get(column) or "").split()) for column in text)
        rows.append((place + where, texts, labels))
        counts.update(labels or ())
        for column, cell in zip((*text, name), (*texts, labels), strict=True):
            if cell in ("", None):
                faulty[f"without {quote(column)}"].append(place + where)
        if rule.kind == "regression" and labels and parse_number(*labels) is None:
            faulty[f"whose {quote(name)} is not a number"].append(place + where)
    # If there are several label columns, each column is a class, even if no row has this class.
    words = {*counts, *(() if isinstance(rule.label, str) else rule.label)}
    by_label = {word: counts[word] for word in sorted(words, key=label_sort_key)}
    also_in = {}
    for other, others in earlier.items():
        known = {texts for _, texts, _ in others}
        also_in[other] = sum(any(texts) and texts in known for _, texts, _ in rows)
    return rows, SplitFacts(
        path=str(table.path),
        rows=len(table.rows),
        labels={} if rule.kind == "regression" else by_label,
        faulty=dict(faulty),
        left_out=[*left_out],
        also_in=also_in,
    )


def _find_deciding_columns(
    table: UserTable, used: Collection[str], answers: Sequence[RowLabels]
) -> dict[str, tuple[int, float]]:
    """Find the columns, besides those ``used``, that almost determine the label, such as an author.

    Such a column has more distinct cells than there are labels. The label predicted for a row is
    the most frequent label of the *other* rows with the same cell in this column. These predictions
    make at most `DEFAULTS.undecided` times as many errors as a constant prediction of the most
    frequent label.

    ``answers`` are the labels of all rows. The result maps each column to the number of its
    distinct cells and the share of correct predictions.
    """
    known = Counter(answer for answer in answers if answer is not None)
    majority_errors, deciding = known.total() - max(known.values(), default=0), {}
    for column in table.columns:
        if column in used:
            continue
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


def look_lines(facts: Facts) -> Iterator[str]:
    """Yield the lines that describe a user's tables."""
    if "sheet" in facts.guessed:
        for path in (part.path for part in facts.parts.values()):
            if path.lower().endswith(".xlsx") and len(names := sheet_names(Path(path))) > 1:
                read = f"only the first of the sheets {join_names(names, NAMED, 'and')} is read"
                yield f"{path}: {read}; choose another with --sheet"
    for split, part in facts.parts.items():
        columns = f"; columns {join_names(facts.columns, NAMED, 'and')}" if split == "train" else ""
        yield f"{part.path}: {format_count(part.rows, 'row')} for {USES[split]}{columns}"
    yield from _column_lines(facts)
    # In cross-validation, methods are scored on the training rows.
    scored_rows = "rows" if facts.judges == "train" else f"{ROWS[facts.judges]}set"
    if facts.constant is not None:
        yield from _class_lines(facts)
        yield (
            f"always predicting {quote(str(facts.most_frequent))} is correct for "
            f"{facts.constant:.1%} of the {scored_rows}"
        )
        yield from _spelling_lines(facts)
    for split, part in facts.parts.items():
        yield from _row_lines(split, part)
    yield from _deciding_lines(facts)
    if facts.conflicts:
        rows = sum(len(places) for by in facts.conflicts.values() for places in by.values())
        texts = f"texts with conflicting labels: {len(facts.conflicts):,}, in {rows:,} rows"
        yield f"{texts}; no method can predict all of these labels"
    for text, by_label in islice(facts.conflicts.items(), SHOWN):
        labels = (f"{join_names([word])} ({places[0]})" for word, places in by_label.items())
        yield f"    {quote(text)}: {join_names(labels, SHOWN, 'and')}"
    lengths = facts.lengths
    yield (
        f"lengths: half of the texts have up to {lengths.median:,} tokens"
        f"{'' if lengths.are_counted else ' (estimated from the number of words)'}, the longest "
        f"{lengths.longest:,}; max_length {lengths.max_length}, {describe_cut_texts(lengths)}"
    )
    yield from unknown_lines(lengths.unknown)


def _column_lines(facts: Facts) -> Iterator[str]:
    notes = {n: f" (guessed; choose another with --{n})" for n in facts.guessed}
    how = "pairs of texts: columns" if len(facts.text) == 2 else "text: column"
    yield f"{how} {' and '.join(map(quote, facts.text))}{notes.get('text', '')}"
    names = join_names(map(quote, label_columns(facts.label)), NAMED, "and")
    where = f"columns {names}, which contain 0 or 1"
    if isinstance(facts.label, str):
        is_usual = facts.label.strip().casefold() in DEFAULTS.label_columns
        only = ", the only column that can be the label"
        where = f"column {quote(facts.label)}{only if 'label' in notes and not is_usual else ''}"
    yield f"label: {where}{notes.get('label', '')}"
    if facts.numbers:
        low, high = facts.numbers
        hint = "(if each number is a class, add --classes)"
        yield f"regression: numbers from {low:g} to {high:g} {hint}"


def _class_lines(facts: Facts) -> Iterator[str]:
    noun, which, hint = ("class", "es"), "", ""
    if facts.kind == "multilabel":
        noun, which = ("label", "s"), ", any number per row"
        if facts.separators:
            between = " or ".join(map(repr, facts.separators))
            which += f", separated by {between}"
        if isinstance(facts.label, str):
            hint = " (if each cell is one class, add --classes)"
    elif all(map(is_number, facts.parts["train"].labels)):
        hint = " (if these are numbers to predict, add --regression)"
    for split, part in facts.parts.items():
        named = [f"{join_names([word])} ({number:,})" for word, number in part.labels.items()]
        where, end = ("", hint) if split == "train" else (f" in the {ROWS[split]}set", "")
        number = format_count(len(named), *noun)
        yield f"{number}{which}{where}: {join_names(named, NAMED, 'and')}{end}"


def _spelling_lines(facts: Facts) -> Iterator[str]:
    """Yield lines about different spellings of labels, and about labels that are not in a split."""
    for group in facts.joined:
        # The labels differ in invisible or similar-looking characters, which are therefore escaped.
        yield f"labels that are merged into one: {', '.join(map(ascii, group))}"
    for group in facts.alike:
        yield f"labels that look alike, but are different classes: {', '.join(map(quote, group))}"
    train, judges = facts.parts["train"].labels, facts.parts[facts.judges].labels
    for word in sorted(
        {word for part in facts.parts.values() for word in part.labels}, key=label_sort_key
    ):
        if word.casefold() in NO_VALUES:
            yield (
                f"label {quote(word)} is treated as a class; if it stands for a missing label, "
                "leave these cells empty"
            )
        if not train.get(word):
            yield f"label {quote(word)} does not occur in the training set: no run can learn it"
        elif not judges.get(word):
            split = f"{ROWS[facts.judges]}set"
            yield f"label {quote(word)} does not occur in the {split}: no score includes this label"


def _deciding_lines(facts: Facts) -> Iterator[str]:
    for column, (values, share) in facts.deciding.items():
        exceptions = "" if share == 1 else f" in {share:.1%} of the rows"
        advice = ""
        if facts.judges == "train" and "group" in facts.guessed:
            keeps = "to keep the rows of each value in one fold"
            advice = f"; if new texts have other values, add --group {shlex.quote(column)} {keeps}"
        yield (
            f"column {quote(column)} determines the label: each of its {values:,} values has one "
            f"label{exceptions}{advice}"
        )


def _row_lines(split: str, part: SplitFacts) -> Iterator[str]:
    if part.left_out:
        left_out = f"{len(part.left_out):,} of {format_count(part.rows, 'row')} left out"
        named = join_names(part.left_out, NAMED, "and")
        yield f"{part.path}: {left_out} because they have no text or no label: {named}"
    for fault, places in part.faulty.items():
        yield f"{ROWS[split]}rows {fault}: {len(places):,}, the first in {places[0]}"
    for other, number in part.also_in.items():
        if number:
            rows = format_count(part.rows, f"{ROWS[split]}row")
            yield (
                f"{number:,} of the {rows} {'is' if number == 1 else 'are'} also in the "
                f"{ROWS[other]}file: scores on these rows say little about new texts"
            )


def describe_cut_texts(lengths: Lengths) -> str:
    """Format the share of texts that are truncated and the share of tokens that are kept."""
    if not lengths.cut:
        return "which truncates no text"
    read = "almost all" if lengths.read >= 0.9995 else f"{lengths.read:.1%} of all"
    return f"which truncates {lengths.cut:.1%} of the texts and keeps {read} tokens"
