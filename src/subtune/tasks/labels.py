"""Labels as users write them in cells."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from subtune.core.errors import SubtuneError, one_of

if TYPE_CHECKING:
    from subtune.tasks.task import TaskSpec

# Invisible characters outside of the category Cf.
INVISIBLE = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x3164, *range(0xFE00, 0xFE10))))
# A number with a decimal comma. The comma of 1,234 may separate thousands.
DECIMAL_COMMA = re.compile(r"[+-]?(?![1-9]\d{0,2},\d{3}$)\d+,\d+")
# Values of cells that say whether a row has a label.
FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def with_decimal_point(number: str) -> str:
    """Return a number with a decimal point for a comma, unless it may separate thousands."""
    return number.replace(",", ".") if DECIMAL_COMMA.fullmatch(number.strip()) else number


@lru_cache(maxsize=10_000)
def plain_label(label: str) -> str:
    """Return a label in Unicode's form NFC, without invisible characters and spaces around it.

    Labels are the same if they are equal in this form. Capitals make a difference.
    """
    letters = unicodedata.normalize("NFC", label)
    visible = (c for c in letters if c not in INVISIBLE and unicodedata.category(c) != "Cf")
    return "".join(visible).strip()


def label_number(text: str, task: TaskSpec, place: str) -> int:
    """Return the number of a label word.

    If no label word contains a digit, the words' numbers, from 0, are also accepted.

    Raises:
        SubtuneError: the text at ``place`` is not a label word.
    """
    words, text = task.labels or (), plain_label(text)
    numbers = {plain_label(word): number for number, word in enumerate(words)}
    if not any(letter.isdigit() for word in words for letter in word):
        numbers |= {str(number): number for number in range(len(words))}
    if text not in numbers:
        raise SubtuneError(f"{place}: label: {one_of(text, numbers)}")
    return numbers[text]


def parse_flag(cell: Any) -> int | None:
    """Return a cell's value, 0 or 1, or None."""
    return FLAGS.get(str(cell).strip().casefold())


def parse_labels(cell: Any) -> list[str] | None:
    """Return the labels in a cell, or None if it cannot be read.

    A cell is a list, a list as JSON or Python writes it, or labels separated by ``|`` or ``;``.
    """
    if isinstance(cell, str) and not cell.lstrip().startswith("["):
        cell = [word for word in re.split(r"[|;]", cell) if word.strip()]
    for read in (json.loads, ast.literal_eval) if isinstance(cell, str) else ():
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            cell = read(cell.strip())
            break
    if isinstance(cell, list) and all(isinstance(word, str | int) for word in cell):
        return [str(word).strip() for word in cell]
    return None
