"""Selections: the choice of the parameters that train, as data; and the list of all kinds."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag, TypeAdapter

from subtune.selections.kind import AbstractSelection
from subtune.selections.lora import Lora
from subtune.selections.random import Draw, Lines, Random
from subtune.selections.ranked import Top
from subtune.selections.whole import WholeTensors

# Kinds by key: a mapping belongs to the first kind whose key it has.
NAMED_KINDS: dict[str, type[AbstractSelection]] = {
    next(iter(kind.model_fields)): kind for kind in (Random, Lora, WholeTensors)
}
# Names that pydantic adds to the path of a mistake.
UNION_MEMBERS: dict[str, type[BaseModel]] = {
    kind.__name__: kind for kind in (WholeTensors, Random, Draw, Lines, Lora)
}


def _kind_meant(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    kinds = (kind for key, kind in NAMED_KINDS.items() if key in keys)
    return next(kinds, WholeTensors).__name__


# Selections that a name can stand for. A name is a paper's method or the user's own.
NamedSelection = Annotated[
    Annotated[WholeTensors, Tag("WholeTensors")]
    | Annotated[Random, Tag("Random")]
    | Annotated[Lora, Tag("Lora")],
    Discriminator(_kind_meant),
]
Selection = NamedSelection | Top
SELECTION: TypeAdapter[Selection] = TypeAdapter(Selection)


def allowed_keys(path: Sequence[str]) -> list[str]:
    """Return the keys that a selection may have where pydantic has found a mistake.

    Args:
        path: the mistake's path below the selection's name, such as ``("Lora", "lora")``.
    """
    *_, last = path
    if last == "WholeTensors":
        # A mapping that is not recognised may have been meant as any kind.
        return list(dict.fromkeys([*WholeTensors.model_fields, *NAMED_KINDS]))
    model: Any = UNION_MEMBERS.get(last) or UNION_MEMBERS[path[-2]].model_fields[last].annotation
    return list(model.model_fields)
