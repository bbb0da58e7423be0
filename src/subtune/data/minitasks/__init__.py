"""Mini tasks: functions that draw rows from words and templates, by kind of task."""

import re
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from subtune.tasks import TaskSpec

# Cells by column.
Row = dict[str, Any]
# Words and templates of a task, and those that all share.
Words = dict[str, Any]


class MiniTask(NamedTuple):
    """Functions that make the rows of one mini task.

    ``draw`` makes a row. ``mislabel`` makes the label of a row wrong, by chance: of so large a
    share of all labels.
    """

    draw: Callable[[Random, Words], Row]
    mislabel: Callable[[TaskSpec, Random, Row, float], None]


def capitalised(text: str) -> str:
    """Return a text with a capital at its beginning; other letters stay."""
    return text[0].upper() + text[1:]


def with_articles(text: str) -> str:
    """Turn "a" into "an" where a vowel sound follows."""
    return re.sub(r"\b([Aa]) (?=[aeiou]|honest|hour)", r"\1n ", text)
