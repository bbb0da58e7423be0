"""Selections: which parameters of a model train, as data. This module lists all kinds."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter

from subtune.methods.added import Adapter, Embeddings, Lora, Peft
from subtune.methods.selection import WholeTensors
from subtune.methods.single_entries import DiffPruning, Random, Top


def _kind_meant(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    kinds = ("random", "lora", "peft", "adapter", "diff_pruning", "embeddings")
    return next((f"[{kind}]" for kind in kinds if kind in keys), "[whole]")


# Selections that can have a name: a paper's name of a method, or the user's own.
NamedSelection = Annotated[
    Annotated[Random, Tag("[random]")]
    | Annotated[Lora, Tag("[lora]")]
    | Annotated[Peft, Tag("[peft]")]
    | Annotated[Adapter, Tag("[adapter]")]
    | Annotated[DiffPruning, Tag("[diff_pruning]")]
    | Annotated[Embeddings, Tag("[embeddings]")]
    | Annotated[WholeTensors, Tag("[whole]")],
    Discriminator(_kind_meant),
]
Selection = NamedSelection | Top
SELECTION: TypeAdapter[Selection] = TypeAdapter(Selection)
