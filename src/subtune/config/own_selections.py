"""Selections as users write them in a configuration."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag

from subtune.specs import Draw, Lines, Lora, LowRank, Parameters, Random

KINDS: dict[str, type[BaseModel]] = {
    kind.__name__: kind for kind in (Parameters, Random, Draw, Lines, Lora)
}

OwnSelection = Annotated[
    Annotated[Parameters, Tag("Parameters")]
    | Annotated[Random, Tag("Random")]
    | Annotated[Lora, Tag("Lora")],
    Discriminator(lambda value: _kind_of_selection(value)),
]


def _kind_of_selection(value: Any) -> str:
    given = value if isinstance(value, Mapping) else type(value).model_fields
    if "lora" in given:
        return "Lora"
    return "Random" if "random" in given else "Parameters"


def keys_at(steps: tuple) -> list[str]:
    """The keys allowed at a path below ``selections``."""
    kind = KINDS.get(steps[-1], LowRank)
    if kind is Parameters:
        # What is not recognised may have been meant as any of them.
        return [*Parameters.model_fields, *Random.model_fields, "lora"]
    return list(kind.model_fields)
