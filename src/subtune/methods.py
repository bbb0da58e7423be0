"""The papers' methods by name, and how names combine: ``b_m2,b_q``, ``bitfit without b_q``.

A name stands for a selection. A comma adds selections, `` without `` takes parameters away from
all that stands left of it.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import cache

from subtune.errors import SubtuneError, one_of
from subtune.selections import NamedSelection, Selection
from subtune.selections.lora import Lora, LoraSettings
from subtune.selections.random import Draw, Lines, Random
from subtune.selections.whole import WholeTensors

# BitFit, section 3 and appendix A.1: a layer's biases; BitFit+, section 3: its LayerNorm weights.
LAYER_PARAMETERS = {
    "b_q": "attention.self.query.bias",
    "b_k": "attention.self.key.bias",
    "b_v": "attention.self.value.bias",
    "b_m1": "attention.output.dense.bias",
    "b_LN1": "attention.output.LayerNorm.bias",
    "b_m2": "intermediate.dense.bias",
    "b_m3": "output.dense.bias",
    "b_LN2": "output.LayerNorm.bias",
    "g_LN1": "attention.output.LayerNorm.weight",
    "g_LN2": "output.LayerNorm.weight",
}

LAYERNORM = WholeTensors(parameters=("encoder.layer.*.output.LayerNorm.*",))
BITFIT = WholeTensors(parameters=("**.bias",))

# SPAFIT, section 3: what LoRA adapts, in its two types, and with which rank and scale.
LORA_TARGETS = {
    "I": ("attention.self.*.weight",),
    "II": ("attention.self.*.weight", "attention.output.dense.weight"),
}
LORA_RANK, LORA_ALPHA = 64, 128
# BitFit's published code: how many entries of each model its uniform control draws.
RAND_UNIFORM = {"bert-base-cased": 100_000, "bert-large-cased": 280_000, "roberta-base": 105_000}
RAND_THOUSANDS = re.compile(r"rand_(\d+)k")
SPAFIT = re.compile(r"SPAFIT-(\d+)-(\d+)-(I|II)")


def _lora(kind: str, layers: str) -> LoraSettings:
    targets = tuple(f"encoder.layer.{layers}.{target}" for target in LORA_TARGETS[kind])
    return LoraSettings(targets=targets, rank=LORA_RANK, alpha=LORA_ALPHA)


METHODS: dict[str, NamedSelection] = {
    "full": WholeTensors(parameters=("**",)),
    "bitfit": BITFIT,
    "layernorm": LAYERNORM,
    # The classifier trains in every method; here nothing else does.
    "frozen": WholeTensors(parameters=("**",), without=("**",)),
    # SPAFIT, Table 1: what is not in a layer trains too, and the key's bias, which has no gradient,
    # does not count.
    "full-bitfit": WholeTensors(
        parameters=("embeddings.**", "pooler.**", "**.bias"),
        without=("encoder.layer.*.attention.self.key.bias",),
    ),
    "lora-I": Lora(lora=_lora("I", "*")),
    "lora-II": Lora(lora=_lora("II", "*")),
    "random": Random(random=Draw(as_many_as=LAYERNORM.parameters)),
    # BitFit, section 4: complete rows and columns of the weight matrices.
    "rand_row_col": Random(
        random=Lines(
            lines_of=(
                "encoder.layer.*.attention.self.*.weight",
                "encoder.layer.*.**.dense.weight",
                "pooler.dense.weight",
            ),
            whole=("encoder.layer.*.**.LayerNorm.weight",),
        )
    ),
    # As many as there are biases; of the papers' models, as many as BitFit's code draws.
    "rand_uniform": Random(random=Draw(as_many_as=BITFIT.parameters)),
    "rand_bias": Random(
        random=Draw(
            as_many_as=tuple(f"encoder.layer.*.{LAYER_PARAMETERS[b]}" for b in ("b_m2", "b_q")),
            within=BITFIT.parameters,
        )
    ),
    **{
        name: WholeTensors(parameters=(f"encoder.layer.*.{parameter}",))
        for name, parameter in LAYER_PARAMETERS.items()
    },
}


# The papers' methods that are put together from names, beside those that have one of their own.
COMBINATIONS = (
    "b_m2,b_q",
    "bitfit without b_m2,b_q",
    "b_LN1,b_LN2",
    "g_LN1,g_LN2",
    "bitfit,g_LN1,g_LN2",
    "b_m2,b_q,g_LN1,g_LN2",
    "rand_100k",
    "SPAFIT-8-12-I",
    "SPAFIT-8-12-II",
    "SPAFIT-8-16-II",
    "SPAFIT-4-9-I",
    "SPAFIT-4-9-II",
    "SPAFIT-4-14-II",
)

# What the papers call their methods in tables and figures.
TITLES = {
    "full": "Full",
    "bitfit": "BitFit",
    "layernorm": "LayerNorm",
    "random": "Random",
    "frozen": "Frozen",
    "full-bitfit": "Full BitFit",
    "lora-I": "LoRA-I",
    "lora-II": "LoRA-II",
}
# What masks are fractions of, where a configuration does not say it.
MASKED_METHOD = "layernorm"


def title_of(method: str) -> str:
    """A method's name as the paper writes it; a user's own method keeps its name."""
    return TITLES.get(method, method)


def named(name: str, users: Mapping[str, NamedSelection], model: str = "") -> NamedSelection:
    """The selection that a method's name stands for.

    Args:
        name: one name, or several put together by commas and `` without ``.
        users: the user's selections by name.
        model: the model's name, which decides how many entries ``rand_uniform`` draws.

    Raises:
        SubtuneError: a name is unknown, or the selections cannot be put together.
    """
    known = METHODS | dict(users)
    if name == "rand_uniform" and model in RAND_UNIFORM and name not in users:
        return Random(random=Draw(count=RAND_UNIFORM[model]))
    if name in known:
        return known[name]
    thousands = RAND_THOUSANDS.fullmatch(name)
    if thousands and int(thousands[1]):
        return Random(random=Draw(count=1000 * int(thousands[1])))
    strata = SPAFIT.fullmatch(name)
    if strata:
        return _spafit(int(strata[1]), int(strata[2]), strata[3])
    kept, *taken = re.split(r"\s+without\s+", name)
    if len(taken) > 1:
        raise SubtuneError(f"found {name!r}, expected 'without' once: 'a,b without c,d'")
    parts = _parts(kept, known)
    if not taken and len(parts) == 1:
        return parts[0]
    return WholeTensors(
        parameters=_patterns(name, parts),
        without=_patterns(name, _parts(taken[0], known)) if taken else None,
    )


@cache
def _names() -> dict[Selection, str]:
    names = [*METHODS, *COMBINATIONS]
    # The strata of 24 layers, as many as the papers' deepest model has.
    strata = itertools.combinations(range(24), 2)
    names += [f"SPAFIT-{a}-{b}-{kind}" for a, b in strata for kind in LORA_TARGETS]
    return {named(name, {}): name for name in reversed(names)}


def name_of(selection: Selection) -> str | None:
    """A selection's name in the papers, if it has one."""
    return _names().get(selection)


def _spafit(first: int, second: int, kind: str) -> Lora:
    """SPAFIT, section 3: layers 0 to ``first`` are frozen, those to ``second`` train their biases.

    In the layers after ``second`` LoRA adapts attention, and the biases outside attention train.
    """
    if first >= second:
        raise SubtuneError(
            f"found 'SPAFIT-{first}-{second}-{kind}', expected its first number below its second"
        )
    biases, adapted = f"{first + 1}-{second}", f"{second + 1}-"
    return Lora(
        lora=_lora(kind, adapted),
        parameters=(
            f"encoder.layer.{biases}.**.bias",
            f"encoder.layer.{adapted}.intermediate.dense.bias",
            f"encoder.layer.{adapted}.output.*.bias",
        ),
    )


def _parts(names: str, known: Mapping[str, NamedSelection]) -> list[NamedSelection]:
    parts = []
    for name in (part.strip() for part in names.split(",")):
        if name not in known:
            raise SubtuneError(one_of(name, known))
        parts.append(known[name])
    return parts


def _patterns(name: str, parts: Iterable[NamedSelection]) -> tuple[str, ...]:
    """All patterns of some selections, in an order that does not depend on theirs."""
    patterns: set[str] = set()
    for part in parts:
        if part.union_patterns is None:
            raise SubtuneError(
                f"found {name!r}, expected names of whole parameters: a random draw, LoRA or a "
                "selection that leaves parameters out cannot be part of another"
            )
        patterns.update(part.union_patterns)
    return tuple(sorted(patterns))
