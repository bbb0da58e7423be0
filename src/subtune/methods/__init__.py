"""Selections, which describe the parameters that a method trains, and the names of methods.

A method's name stands for a selection. A comma combines methods: ``b_m2,b_q`` trains the parameters
of ``b_m2`` and those of ``b_q``. The word ``without`` excludes parameters: ``bitfit without b_q``.
The word ``by`` replaces the rule of a selection `top`: ``gem by random``.
"""

import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter

from subtune.core.errors import SubtuneError, format_allowed
from subtune.core.files import read_package_yaml
from subtune.methods.added import Adapters, Lora, Peft
from subtune.methods.baselines import Embeddings, Estimator, TfIdf
from subtune.methods.rules import BUILT_IN
from subtune.methods.selection import WholeTensors
from subtune.methods.single_entries import (
    ChosenEntries,
    DiffPruning,
    Random,
    RandomEntries,
    RankedEntries,
    Top,
)


def _find_kind_tag(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    kinds = ("random", "top", "lora", "peft", "adapter", "diff_pruning", "embeddings", "tf_idf")
    return next((f"[{kind}]" for kind in (*kinds, "estimator") if kind in keys), "[whole]")


# The selections that a method's name can stand for. Masks (`Top`, `ChosenEntries`) have no names.
NamedSelection = Annotated[
    Annotated[Random, Tag("[random]")]
    | Annotated[RankedEntries, Tag("[top]")]
    | Annotated[Lora, Tag("[lora]")]
    | Annotated[Peft, Tag("[peft]")]
    | Annotated[Adapters, Tag("[adapter]")]
    | Annotated[DiffPruning, Tag("[diff_pruning]")]
    | Annotated[Embeddings, Tag("[embeddings]")]
    | Annotated[TfIdf, Tag("[tf_idf]")]
    | Annotated[Estimator, Tag("[estimator]")]
    | Annotated[WholeTensors, Tag("[whole]")],
    Discriminator(_find_kind_tag),
]
Selection = NamedSelection | Top | ChosenEntries
SELECTION: TypeAdapter[Selection] = TypeAdapter(Selection)

# The reference method, full fine-tuning.
FULL = "full"
# By default, masks select entries from the parameters of this method. A configuration can name a
# different method.
MASKED_METHOD = "layernorm"
# Precedes the rule in the name of a method with masks.
RANKED_BY = " by "
SPAFIT = re.compile(r"SPAFIT-(\d+)-(\d+)-(I|II)")


# Comments in ``methods.yaml`` name the sources of the values.
_METHODS_FILE = read_package_yaml("subtune.methods", "methods.yaml")
# Maps a method's name to the one parameter that the method trains in every layer.
LAYER_PARAMETERS: dict[str, str] = _METHODS_FILE["layer_parameters"]
COMBINATIONS: list[str] = _METHODS_FILE["combinations"]
METHODS = TypeAdapter(dict[str, NamedSelection]).validate_python(_METHODS_FILE["methods"]) | {
    name: WholeTensors(parameters=(f"encoder.layer.*.{parameter}",))
    for name, parameter in LAYER_PARAMETERS.items()
}


def method_title(method: str) -> str:
    """Return the title of a method in its paper, or the method's name if there is no title."""
    name, by, rule = method.partition(RANKED_BY)
    return _METHODS_FILE["titles"].get(name, name) + by + rule


def masked_name(name: str, fraction: float, scope: str | None) -> str:
    """Append a mask's fraction and scope to a method's name. Without a scope, there is no mask."""
    return name if scope is None else f"{name}, top {100 * fraction:g}%, {scope}"


def find_selection(name: str, own: Mapping[str, NamedSelection], model: str = "") -> NamedSelection:
    """Return the selection that a method's name, or a combination of names, stands for.

    Args:
        own: maps the names of the user's own methods to their selections.
        model: the model's name, which determines how many entries ``rand_uniform`` draws.

    Raises:
        SubtuneError: a name is unknown, or the selections cannot be combined.
    """
    known = METHODS | dict(own)
    if name == "rand_uniform" and model in _METHODS_FILE["rand_uniform"]:
        return Random(random=RandomEntries(count=_METHODS_FILE["rand_uniform"][model]))
    if name in known:
        return known[name]
    if strata := SPAFIT.fullmatch(name):
        return _build_spafit(int(strata[1]), int(strata[2]), strata[3])
    ranked, by, rule = name.partition(RANKED_BY)
    if by and ranked in known:
        selection = known[ranked]
        if not isinstance(selection, RankedEntries):
            raise SubtuneError(f"{name!r}: only a selection `top` has a rule, unlike {ranked!r}")
        if rule not in BUILT_IN:
            raise SubtuneError(f"{name!r}: {format_allowed(rule, BUILT_IN)}")
        return RankedEntries(top=selection.top.replace(by=rule))
    kept, without, taken = name.partition(" without ")
    return WholeTensors(
        parameters=_merge_patterns(kept, known),
        without=_merge_patterns(taken, known) if without else None,
    )


def is_method(name: str, own: Mapping[str, NamedSelection]) -> bool:
    """Return whether ``name`` is one of the user's ``own`` methods or a built-in method.

    A built-in method has a name and a title.
    """
    try:
        find_selection(name, own)
    except SubtuneError:
        return name in _METHODS_FILE["titles"].values()
    return True


@cache
def builtin_names() -> dict[Selection, str]:
    """Map each built-in selection to its method's name."""
    names = [*LAYER_PARAMETERS, *METHODS, *COMBINATIONS]
    # The papers' deepest model has 24 layers.
    strata = itertools.combinations(range(24), 2)
    names += [f"SPAFIT-{a}-{b}-{kind}" for a, b in strata for kind in ("I", "II")]
    return {find_selection(name, {}): name for name in reversed(names)}


def _build_spafit(first: int, second: int, kind: str) -> Lora:
    """Build the selection of a SPAFIT method (SPAFIT paper, section 3).

    Layers up to ``first`` are frozen. In layers up to ``second``, the biases are trained. In the
    other layers, LoRA adapts the matrices as in ``lora-I`` or ``lora-II`` (``kind``), and the
    biases of the feed-forward part are trained.
    """
    biases, adapted = f"{first + 1}-{second}", f"{second + 1}-"
    everywhere = METHODS[f"lora-{kind}"]
    assert isinstance(everywhere, Lora)
    lora = everywhere.lora
    targets = tuple(target.replace("layer.*", f"layer.{adapted}") for target in lora.targets)
    return Lora(
        lora=lora.replace(targets=targets),
        parameters=(
            f"encoder.layer.{biases}.**.bias",
            f"encoder.layer.{adapted}.intermediate.dense.bias",
            f"encoder.layer.{adapted}.output.*.bias",
        ),
    )


def _merge_patterns(names: str, known: Mapping[str, NamedSelection]) -> tuple[str, ...]:
    """Merge the patterns of comma-separated methods into one sorted tuple."""
    patterns: set[str] = set()
    for name in map(str.strip, names.split(",")):
        if name not in known:
            raise SubtuneError(format_allowed(name, known))
        part = known[name]
        if not isinstance(part, WholeTensors) or part.without:
            raise SubtuneError(
                f"{name!r} cannot be combined with other methods; combine only methods that train "
                "whole parameters and have no `without`"
            )
        patterns.update(part.parameters)
    return tuple(sorted(patterns))
