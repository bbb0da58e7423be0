"""Selections that add modules to a model: LoRA, adapters and PEFT."""

import json
from collections.abc import Collection
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator

from subtune.core.errors import SubtuneError
from subtune.core.ids import HashableModel, canonical_json
from subtune.core.user_code import OWN_FUNCTION
from subtune.methods.roles import ADDED, LAYERS, Shape, is_added, is_embedding, is_norm
from subtune.methods.selection import (
    AbstractSelection,
    Entries,
    LowRank,
    Mask,
    Patterns,
    Shapes,
    TrainingCost,
    Whole,
    format_patterns,
    match_names,
)


class LoraSettings(HashableModel):
    """The settings of low-rank updates.

    * ``targets``: patterns of the matrices that are updated.
    * ``rank``: the rank of each update.
    * ``alpha``: each update is multiplied by ``alpha / rank``.
    """

    targets: Patterns
    rank: int = Field(ge=1)
    alpha: float = Field(gt=0)


class Lora(AbstractSelection):
    """Low-rank updates of matrices, and training of the whole tensors that match ``parameters``."""

    usual_work = TrainingCost.LOW_RANK
    lora: LoraSettings
    parameters: Patterns | None = None

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        lora = self.lora
        entries: Entries = dict.fromkeys(match_names(self.parameters or (), shapes), Whole())
        for name in match_names(lora.targets, shapes):
            if len(shapes[name]) != 2 or is_embedding(name):
                raise SubtuneError(
                    f"selection: {name!r} is not the matrix of a linear layer; remove it from "
                    "`targets`"
                )
            if name in entries:
                raise SubtuneError(
                    f"selection: {name!r} is in targets and parameters; remove it from one of them"
                )
            entries[name] = LowRank(lora.rank, lora.alpha / lora.rank)
        return entries

    def describe(self, names: Collection[str] | None = None) -> str:
        lora = self.lora
        adapted, whole = (format_patterns(p, names) for p in (lora.targets, self.parameters))
        about = f"LoRA (rank {lora.rank}, alpha {lora.alpha:g}) on {adapted}" if adapted else ""
        return "; ".join(filter(None, [about, whole])) or "nothing"


class AdapterSettings(HashableModel):
    """The settings of adapters. An adapter is two linear layers with a bottleneck between them.

    ``houlsby`` adapters (Houlsby et al., 2019, section 2.1) follow attention and the feed-forward
    part, before the residual is added, and use the tanh approximation of GELU, as in the published
    code. Every LayerNorm of the encoder is trained too. ``pfeiffer`` adapters (Pfeiffer et al.,
    2021, appendix A.2) follow only the feed-forward part, and use ReLU. A ``pfeiffer`` adapter
    reads the output of a LayerNorm, which is applied again after the adapter's output is added.

    * ``type``: the kind of adapter.
    * ``size``: the size of the bottleneck.
    * ``reduction``: the hidden size divided by the size of the bottleneck. Exactly one of ``size``
      and ``reduction`` must be set.
    """

    type: Literal["houlsby", "pfeiffer"]
    size: int | None = Field(default=None, ge=1)
    reduction: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _require_size_or_reduction(self) -> Self:
        if (self.size is None) == (self.reduction is None):
            raise ValueError("expected exactly one of size, reduction")
        return self

    def parameter_shapes(self, layers: int, width: int) -> dict[str, Shape]:
        """Return the shape of each adapter parameter, given the number and width of the layers."""
        size = self.size or width // (self.reduction or 1)
        if not 1 <= size <= width:
            raise SubtuneError(
                f"adapter: found a size of {size}, expected 1 to {width}, the hidden size"
            )
        shapes: dict[str, Shape] = {}
        parts = ["attention.output", "output"] if self.type == "houlsby" else ["output"]
        for layer in range(layers):
            for part in parts:
                down, up = adapter_layers(f"{LAYERS}{layer}.{part}")
                shapes |= {f"{down}.weight": (size, width), f"{down}.bias": (size,)}
                shapes |= {f"{up}.weight": (width, size), f"{up}.bias": (width,)}
        return shapes


class Adapters(AbstractSelection):
    """Adapters. With Houlsby adapters, every LayerNorm is trained too."""

    usual_work = TrainingCost.LOW_RANK
    adapter: AdapterSettings

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        if not any(map(is_added, shapes)):
            raise SubtuneError("selection: adapters support only BERT, RoBERTa and XLM-RoBERTa")
        norms = self.adapter.type == "houlsby"
        names = [name for name in shapes if is_added(name) or (norms and is_norm(name))]
        return dict.fromkeys(names, Whole())

    def describe(self, names: Collection[str] | None = None) -> str:
        norms = " and all norms" if self.adapter.type == "houlsby" else ""
        adapter = self.adapter
        size = f"size {adapter.size}" if adapter.size else f"reduction {adapter.reduction}"
        return f"adapters ({adapter.type}, {size}){norms}"


def adapter_layers(part: str) -> tuple[str, str]:
    """Return the names of the two linear layers of the adapter that follows ``part``."""
    return f"{ADDED}.{part}.dense.adapter.down", f"{ADDED}.{part}.dense.adapter.up"


# The fields of `PeftSettings` that are not fields of a PEFT config.
OWN_FIELDS = ("type", "config", "model", "code")


class PeftSettings(HashableModel):
    """The settings of a PEFT config. `subtune.models.peft` checks them, as importing PEFT is slow.

    Attributes:
        type: the PEFT type, such as ``IA3``; empty for a tuner that PEFT does not know.
        config: the place of this tuner's config class, such as ``my_tuner.py:ScaleConfig``.
        model: the place of the tuner itself, such as ``my_tuner.py:ScaleModel``.
        code: the hash of the tuner's code, which a plan adds.
        fields_as_json: pairs of a field's name in the PEFT config and its value, encoded as JSON.
    """

    type: str = ""
    config: str = ""
    model: str = ""
    code: str | None = None
    fields_as_json: tuple[tuple[str, str], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_mapping(cls, given: Any) -> Any:
        if not isinstance(given, dict) or isinstance(given.get("fields_as_json"), tuple):
            return given
        try:
            fields = [(name, canonical_json(given[name])) for name in sorted(given)]
        except (TypeError, ValueError):
            raise ValueError(
                "expected only strings, finite numbers, true, false, null and lists"
            ) from None
        own = {name: given[name] for name in OWN_FIELDS if name in given}
        return own | {"fields_as_json": tuple(pair for pair in fields if pair[0] not in own)}

    @model_validator(mode="after")
    def _require_type_or_tuner(self) -> Self:
        places = [place for place in self.places if OWN_FUNCTION.fullmatch(place)]
        if len(places) != (0 if self.type else 2) or (self.type and any([*self.places, self.code])):
            raise ValueError(
                "expected the `type` of a PEFT config, or the classes `config` and `model` of a "
                "tuner of your own, such as my_tuner.py:MyConfig and my_tuner.py:MyModel"
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names = ("type", "config", "model")
        return {"type": "object", "properties": {name: {"type": "string"} for name in names}}

    @property
    def places(self) -> tuple[str, str]:
        """The places of the config class and of the tuner; empty for a PEFT type."""
        return self.config, self.model

    @property
    def title(self) -> str:
        return self.type or self.model

    @property
    def fields(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self.fields_as_json}

    @property
    def virtual_tokens(self) -> int:
        """The number of virtual tokens that PEFT prepends to a text."""
        number = self.fields.get("num_virtual_tokens")
        return number if isinstance(number, int) else 0

    @cached_property
    def json_types(self) -> dict[str, Any]:
        own = {name: value for name in OWN_FIELDS if (value := getattr(self, name))}
        return own | self.fields


class Peft(AbstractSelection):
    """The parameters that a PEFT method adds, and the model's own parameters that it trains."""

    usual_work = TrainingCost.LOW_RANK
    peft: PeftSettings

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        entries: Entries = dict.fromkeys(filter(is_added, shapes), Whole())
        if not entries:
            raise SubtuneError(f"selection: PEFT's {self.peft.title} trains nothing in this model")
        return entries

    def describe(self, names: Collection[str] | None = None) -> str:
        fields = ", ".join(f"{name} {value}" for name, value in self.peft.fields_as_json)
        return f"PEFT {self.peft.title}" + (f" ({fields})" if fields else "")
