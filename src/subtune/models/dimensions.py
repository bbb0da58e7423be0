"""A model's dimensions, known without its weights."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subtune.core.layout import read_yaml
from subtune.families import FAMILIES
from subtune.families.base import (
    SEQUENCE_CLASSIFICATION,
    Dimensions,
    Shape,
    is_classifier,
    is_embedding,
)
from subtune.models.configuration import CONFIG, read_config
from subtune.selections import Selection
from subtune.selections.added import Adapter, Peft

NO_POOLING = (
    "pooling: found {!r} for a decoder, expected none: only the last token has read the whole text"
)


@dataclass(frozen=True)
class OtherDimensions:
    """The dimensions of a model outside the packed families, as `Dimensions` has them.

    ``first_head``: a head that transformers has for the model. ``is_decoder``: whether a token
    reads only those before it. ``shapes``: returns canonical name
    to shape of every parameter, for a number of outputs and a head. ``exported_names``: returns
    canonical name to transformers' name of every parameter, for a head. Both raise a SubtuneError
    if weights in the directory are not those of the configuration. ``config``: returns
    transformers' configuration for a number of outputs.
    """

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    first_head: str
    is_decoder: bool
    shapes: Callable[..., dict[str, Shape]]
    exported_names: Callable[[str], dict[str, str]]
    config: Callable[[int], Any]

    @property
    def parameters(self) -> int:
        """The number of parameters in a pretrained checkpoint: all but the classifier's."""
        shapes = self.shapes(1, self.first_head)
        return sum(math.prod(shape) for name, shape in shapes.items() if not is_classifier(name))

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Return the floating-point operations of one example's forward pass of so many tokens.

        Every token passes through all matrices but the tables that ids look up.
        """
        read = sum(
            math.prod(shape)
            for name, shape in self.shapes(1, head).items()
            if len(shape) > 1 and not is_embedding(name)
        )
        return tokens * (2 * read + 4 * tokens * self.hidden_size * self.num_hidden_layers)


AnyDimensions = Dimensions | OtherDimensions


def _unknown(*_: Any) -> Any:
    raise NotImplementedError("import subtune.models first")


# Only transformers knows the shapes of its models, and planning does without transformers unless a
# configuration names such a model. The package sets this function.
read_other_dimensions: Callable[[Path], OtherDimensions] = _unknown


# The same holds for models with modules of PEFT inside: `subtune.models.injected.shapes_with`.
shapes_with_peft: Callable[..., tuple[dict[str, Shape], dict[str, str]]] = _unknown


def shapes_for(
    selection: Selection,
    dimensions: AnyDimensions,
    outputs: int,
    head: str = SEQUENCE_CLASSIFICATION,
) -> dict[str, Shape]:
    """Return the shapes of all parameters of a model in which a selection trains.

    Raises:
        SubtuneError: the model cannot have the selection's modules of PEFT.
    """
    if isinstance(selection, Peft):
        return shapes_with_peft(dimensions, selection.peft, outputs, head)[0]
    shapes = dimensions.shapes(outputs, head)
    if isinstance(selection, Adapter) and isinstance(dimensions, Dimensions):
        layers, width = dimensions.num_hidden_layers, dimensions.hidden_size
        return selection.adapter.shapes(layers, width) | shapes
    return shapes


def names_for(
    selection: Selection, dimensions: AnyDimensions, outputs: int, head: str
) -> dict[str, str]:
    """Return canonical name to the name in transformers' or PEFT's model."""
    if isinstance(selection, Peft):
        return shapes_with_peft(dimensions, selection.peft, outputs, head)[1]
    return dimensions.exported_names(head)


def papers_models() -> dict[str, dict[str, Any]]:
    """Return the published configurations' fields that decide shapes, for the papers' models."""
    return read_yaml("subtune.models", "sizes.json")


def dimensions_by(fields: Mapping[str, Any]) -> Dimensions:
    """Return the dimensions of a packed family's model by the fields of its configuration."""
    return FAMILIES[fields["model_type"]].dimensions(fields)


def fields_of(name_or_path: str) -> Mapping[str, Any] | None:
    """Return the configuration's fields of a local directory's or a paper's model.

    Other models on the hub have None: they are unknown before the download.
    """
    if (Path(name_or_path) / CONFIG).is_file():
        return read_config(Path(name_or_path))
    return papers_models().get(name_or_path.rpartition("/")[2])


def dimensions_of(name_or_path: str) -> AnyDimensions | None:
    """Return the dimensions of a model whose fields are known, as `fields_of` says."""
    fields = fields_of(name_or_path)
    if fields is None or fields["model_type"] in FAMILIES:
        return dimensions_by(fields) if fields else None
    return dimensions_in(Path(name_or_path))


def dimensions_in(directory: Path) -> AnyDimensions:
    """Return the dimensions of the model in a local directory; its weights are not needed.

    Raises:
        SubtuneError: there is no configuration, or none of a model that transformers loads.
    """
    fields = read_config(directory)
    if fields["model_type"] in FAMILIES:
        return dimensions_by(fields)
    return read_other_dimensions(directory)
