"""What training reports while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Runs that could train side by side do not: their model computes something else there.
ONE_BY_ONE = "one_by_one"
# Batches have no padding: the model would compute something else beside it.
WITHOUT_PADDING = "without_padding"


@dataclass(frozen=True)
class Report:
    """Something that happened: a line for people, and the facts that programs follow it by."""

    text: str
    event: str = "note"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text
