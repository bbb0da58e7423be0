"""Selections: which parameters of a model train, as data. This module lists all kinds, and names.

A name stands for a selection, such as a paper's method. A comma adds selections, as in
``b_m2,b_q``. In ``bitfit without b_q``, all parameters of the names behind ``without`` are taken
away from those before it.
"""

import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter

from subtune.core.errors import SubtuneError, one_of
from subtune.core.files import read_package_yaml
from subtune.methods.added import Adapter, Embeddings, Lora, Peft, TfIdf
from subtune.methods.selection import WholeTensors
from subtune.methods.single_entries import DiffPruning, Draw, Random, Top


def _kind_meant(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    kinds = ("random", "lora", "peft", "adapter", "diff_pruning", "embeddings", "tf_idf")
    return next((f"[{kind}]" for kind in kinds if kind in keys), "[whole]")


# Selections that can have a name: a paper's name of a method, or the user's own.
NamedSelection = Annotated[
    Annotated[Random, Tag("[random]")]
    | Annotated[Lora, Tag("[lora]")]
    | Annotated[Peft, Tag("[peft]")]
    | Annotated[Adapter, Tag("[adapter]")]
    | Annotated[DiffPruning, Tag("[diff_pruning]")]
    | Annotated[Embeddings, Tag("[embeddings]")]
    | Annotated[TfIdf, Tag("[tf_idf]")]
    | Annotated[WholeTensors, Tag("[whole]")],
    Discriminator(_kind_meant),
]
Selection = NamedSelection | Top
SELECTION: TypeAdapter[Selection] = TypeAdapter(Selection)

# Masks are fractions of this method, unless a configuration names another.
MASKED_METHOD = "layernorm"
SPAFIT = re.compile(r"SPAFIT-(\d+)-(\d+)-(I|II)")


# Its comments name the sources.
_PAPERS = read_package_yaml("subtune.methods", "methods.yaml")
# The one parameter that a method trains in every layer, by the method's name.
LAYER_PARAMETERS: dict[str, str] = _PAPERS["layer_parameters"]
COMBINATIONS: list[str] = _PAPERS["combinations"]
METHODS = TypeAdapter(dict[str, NamedSelection]).validate_python(_PAPERS["methods"]) | {
    name: WholeTensors(parameters=(f"encoder.layer.*.{parameter}",))
    for name, parameter in LAYER_PARAMETERS.items()
}


def method_title(method: str) -> str:
    """Return a method's title in its paper. A user's own method keeps its name."""
    return _PAPERS["titles"].get(method, method)


def masked_name(name: str, fraction: float, scope: str | None) -> str:
    """Return a method's name and, if it has a mask, the mask's fraction and scope."""
    return name if scope is None else f"{name}, top {100 * fraction:g}%, {scope}"


def find_selection(name: str, own: Mapping[str, NamedSelection], model: str = "") -> NamedSelection:
    """Return the selection that a method's name stands for.

    Args:
        name: one name, or several joined by commas and ``without``.
        own: the user's own selections by name.
        model: the model's name, which decides how many entries ``rand_uniform`` draws.

    Raises:
        SubtuneError: a name is unknown, or the selections cannot be joined.
    """
    known = METHODS | dict(own)
    if name == "rand_uniform" and model in _PAPERS["rand_uniform"]:
        return Random(random=Draw(count=_PAPERS["rand_uniform"][model]))
    if name in known:
        return known[name]
    strata = SPAFIT.fullmatch(name)
    if strata:
        return _spafit(int(strata[1]), int(strata[2]), strata[3])
    kept, without, taken = name.partition(" without ")
    return WholeTensors(
        parameters=_patterns(kept, known), without=_patterns(taken, known) if without else None
    )


def is_built_in(name: str) -> bool:
    """Return whether a name is the name or the title of one of the papers' methods."""
    try:
        find_selection(name, {})
    except SubtuneError:
        return name in _PAPERS["titles"].values()
    return True


@cache
def builtin_names() -> dict[Selection, str]:
    """Return the name in the papers of each of their selections."""
    names = [*LAYER_PARAMETERS, *METHODS, *COMBINATIONS]
    # The papers' deepest model has 24 layers.
    strata = itertools.combinations(range(24), 2)
    names += [f"SPAFIT-{a}-{b}-{kind}" for a, b in strata for kind in ("I", "II")]
    return {find_selection(name, {}): name for name in reversed(names)}


def _spafit(first: int, second: int, kind: str) -> Lora:
    """Return the selection of SPAFIT, section 3.

    Args:
        first: the last layer of the first group, whose layers are frozen.
        second: the last layer of the second group, in which biases train. In later layers LoRA
            adapts attention, and the biases outside attention train.
        kind: the type of LoRA, ``I`` or ``II``.
    """
    biases, adapted = f"{first + 1}-{second}", f"{second + 1}-"
    everywhere = METHODS[f"lora-{kind}"]
    assert isinstance(everywhere, Lora)
    lora = everywhere.lora
    targets = tuple(target.replace("layer.*", f"layer.{adapted}") for target in lora.targets)
    return Lora(
        lora=lora.replaced(targets=targets),
        parameters=(
            f"encoder.layer.{biases}.**.bias",
            f"encoder.layer.{adapted}.intermediate.dense.bias",
            f"encoder.layer.{adapted}.output.*.bias",
        ),
    )


def _patterns(names: str, known: Mapping[str, NamedSelection]) -> tuple[str, ...]:
    """Return the patterns of the selections with these names, sorted. Commas join the names."""
    patterns: set[str] = set()
    for name in map(str.strip, names.split(",")):
        if name not in known:
            raise SubtuneError(one_of(name, known))
        part = known[name]
        if not isinstance(part, WholeTensors) or part.without:
            raise SubtuneError(
                f"found {name!r}, expected names of whole parameters: no other kind of selection, "
                "and none with `without`, can be part of another"
            )
        patterns.update(part.parameters)
    return tuple(sorted(patterns))
