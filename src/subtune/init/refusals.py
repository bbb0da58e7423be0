"""Refusals of labels from which nothing can be learnt."""

from itertools import chain

from subtune.core.errors import SubtuneError, cut, listed
from subtune.data.table_files import FEW
from subtune.init import DEFAULTS
from subtune.init.labels import names_of
from subtune.init.look import Look
from subtune.tasks.labels import fold_label


def require_labels(look: Look) -> None:
    """Refuse labels from which nothing can be learnt.

    Raises:
        SubtuneError: many rows have no label, labels differ only in capitals or invisible
            characters, there are too few or too many classes, or most dev rows have labels that no
            training row has.
    """
    names = listed(names_of(look.label))
    for part in look.parts.values():
        # The reader of multi-label rows says more about a cell that it cannot read.
        if names in part.missing and look.kind != "multilabel":
            place = part.missing[names][0].removesuffix(f" of {part.path}")
            raise SubtuneError(
                f"{part.path}: {place}: found no text or number in column {names!r}, expected a "
                f"label in every row, or in all but {FEW:.0%}, which are left out"
            )
    if look.kind != "regression":
        _require_one_spelling(look, names)
        _require_classes(look, names)
        _require_known_labels(look, names)


def _require_one_spelling(look: Look, column: str) -> None:
    """Refuse labels that differ only in capitals or invisible characters."""
    spellings: dict[str, str] = {}
    for word in chain(*look.near_equal):
        other = spellings.setdefault(fold_label(word), word)
        if other != word:
            paths = [part.path for part in look.parts.values() if {word, other} & {*part.labels}]
            # `repr` shows some characters that look like others, or like none.
            quote = repr if word.casefold() == other.casefold() else ascii
            raise SubtuneError(
                f"{listed(paths)}: column {column!r}: found the labels {quote(cut(other))} and "
                f"{quote(cut(word))}, expected one spelling, or --merge-labels, which makes them "
                "one"
            )


def _require_classes(look: Look, column: str) -> None:
    """Refuse fewer than two classes, and more classes than can be learnt from the rows."""
    train = look.parts["train"]
    known = [word for word, count in train.labels.items() if count]
    if len(known) < 2:
        found = listed(known) or "none"
        raise SubtuneError(f"{train.path}: found no label but {found}, expected at least two")
    rows = train.rows - len(train.left_out)
    most = max(DEFAULTS.fewest_refused, rows // 2)
    limit = min(DEFAULTS.classes_of_words, most) if "kind" in look.guessed else most
    if len(known) > limit:
        hint = "; if they are classes: --classes" if len(known) <= most else ""
        raise SubtuneError(
            f"--label: found {len(known):,} different labels in {rows:,} rows of column {column!r} "
            f"of {train.path}, expected at most {limit} classes{hint}"
        )


def _require_known_labels(look: Look, column: str) -> None:
    """Refuse dev rows if most of their labels are in no training row."""
    train, dev = look.parts["train"], look.parts.get("validation", look.parts["train"])
    unknown = sorted(word for word, count in dev.labels.items() if not train.labels.get(word))
    if 2 * sum(dev.labels[word] for word in unknown) > sum(dev.labels.values()):
        known = sorted(word for word, count in train.labels.items() if count)
        raise SubtuneError(
            f"{dev.path}: column {column!r}: found {listed(unknown[:5])} in most rows, expected "
            f"labels of {train.path} ({listed(known[:5])})"
        )
