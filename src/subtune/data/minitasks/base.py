"""What is asked of a mini task: to draw rows, to tell them apart, and to mislabel some."""

import re
from collections.abc import Callable, Hashable
from random import Random
from typing import Any, NamedTuple

from subtune.tasks import TaskSpec

# Cells by column.
Row = dict[str, Any]
# What the resource says of a task, and of all.
Words = dict[str, Any]


class MiniTask(NamedTuple):
    """How the rows of one mini task come about.

    ``draw`` makes a row. ``identity`` is what no two rows of a task have in common. ``mislabel``
    makes the label of a row wrong, by chance: of so large a share of all labels.
    """

    draw: Callable[[Random, Words], Row]
    identity: Callable[[TaskSpec, Row], Hashable]
    mislabel: Callable[[TaskSpec, Random, Row, float], None]


def with_articles(text: str) -> str:
    """Turn "a" into "an" where a vowel sound follows."""
    return re.sub(r"\b([Aa]) (?=[aeiou]|honest|hour)", r"\1n ", text)
