"""Selections: which parameters of a model train, said in data. Every kind that there is."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag, TypeAdapter

from subtune.selections.kind import Kind
from subtune.selections.lora import Lora
from subtune.selections.random import Draw, Lines, Random
from subtune.selections.ranked import Top
from subtune.selections.whole import WholeTensors

# Key to kind: a mapping is of the first kind whose key it has.
NAMED_KINDS: dict[str, type[Kind]] = {
    next(iter(kind.model_fields)): kind for kind in (Random, Lora, WholeTensors)
}
# What pydantic may name in the path of a problem, though no one has written it.
UNION_MEMBERS: dict[str, type[BaseModel]] = {
    kind.__name__: kind for kind in (WholeTensors, Random, Draw, Lines, Lora)
}


def _kind_meant(value: Any) -> str:
    # What is neither keys and values nor a selection has none of the keys.
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    kinds = (kind for key, kind in NAMED_KINDS.items() if key in keys)
    return next(kinds, WholeTensors).__name__


# What a name can stand for: a paper's method, or a selection of the user's own.
NamedSelection = Annotated[
    Annotated[WholeTensors, Tag("WholeTensors")]
    | Annotated[Random, Tag("Random")]
    | Annotated[Lora, Tag("Lora")],
    Discriminator(_kind_meant),
]
Selection = NamedSelection | Top
SELECTION: TypeAdapter[Selection] = TypeAdapter(Selection)


def allowed_keys(path: Sequence[str]) -> list[str]:
    """The keys that a selection may have where pydantic has found a problem.

    Args:
        path: the problem's path below the selection's name, such as ``("Lora", "lora")``.
    """
    *_, last = path
    if last == "WholeTensors":
        # What is not recognised may have been meant as any kind.
        return list(dict.fromkeys([*WholeTensors.model_fields, *NAMED_KINDS]))
    model: Any = UNION_MEMBERS.get(last) or UNION_MEMBERS[path[-2]].model_fields[last].annotation
    return list(model.model_fields)
