"""Reports of a training in progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The event of runs whose model cannot compute them side by side.
ONE_BY_ONE = "one_by_one"
# The event of a model whose batches have no padding, because padding changes its results.
WITHOUT_PADDING = "without_padding"


@dataclass(frozen=True)
class Report:
    """An event: a line for people, and facts for programs."""

    text: str
    event: str = "note"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text
