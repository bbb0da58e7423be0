"""A model's dimensions, known without its weights."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from subtune.families import family_of, is_packed
from subtune.families.base import (
    SEQUENCE_CLASSIFICATION,
    Dimensions,
    Shape,
    is_classifier,
)
from subtune.families.naming import is_embedding
from subtune.models.files import CONFIG, read_config


@cache
def papers_models() -> dict[str, dict[str, Any]]:
    """The fields of the papers' models that decide a shape, as the published ones have them."""
    path = resources.files("subtune.models") / "sizes.json"
    return json.loads(path.read_text())


@dataclass(frozen=True)
class OtherDimensions:
    """What `Dimensions` says of a packed family's model, of any that transformers loads."""

    directory: Path
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int

    @property
    def parameters(self) -> int:
        """How many parameters a pretrained checkpoint has, which is all but the classifier's."""
        from subtune.models import transformers_models

        shapes = self.shapes(1, transformers_models.first_head(self.directory))
        return sum(math.prod(shape) for name, shape in shapes.items() if not is_classifier(name))

    def shapes(self, outputs: int, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        """Canonical name to shape of every parameter of a model with a head so wide."""
        return dict(_shapes(self.directory, head, outputs))

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Floating-point operations of one example's forward pass, of so many tokens.

        All matrices that are no tables read every token.
        """
        read = sum(
            math.prod(shape)
            for name, shape in self.shapes(1, head).items()
            if len(shape) > 1 and not is_embedding(name)
        )
        return tokens * (2 * read + 4 * tokens * self.hidden_size * self.num_hidden_layers)


@cache
def _shapes(directory: Path, head: str, outputs: int) -> dict[str, Shape]:
    # The shapes of transformers' own models are those of its code, which takes seconds to import.
    from subtune.models import transformers_models

    return transformers_models.shapes(directory, head, outputs)


def _other_dimensions(directory: Path) -> OtherDimensions:
    from subtune.models import transformers_models

    config = transformers_models.read_config(directory, outputs=1).get_text_config()

    def size(name: str, default: int) -> int:
        value = getattr(config, name, None)
        return value if isinstance(value, int) and value > 0 else default

    hidden = size("hidden_size", 1)
    return OtherDimensions(
        directory,
        hidden,
        size("num_hidden_layers", 1),
        # FNet has none.
        size("num_attention_heads", 1),
        size("intermediate_size", 4 * hidden),
    )


AnyDimensions = Dimensions | OtherDimensions


def dimensions_by(fields: Mapping[str, Any]) -> Dimensions:
    """Dimensions of a model by the fields of its configuration."""
    return family_of(fields["model_type"]).dimensions(fields)


def dimensions_of(name_or_path: str) -> AnyDimensions | None:
    """Dimensions of one of the papers' models by its name on the hub, or of a local directory.

    Nothing, where they are not known before the model is downloaded.
    """
    if (Path(name_or_path) / CONFIG).is_file():
        return dimensions_in(Path(name_or_path))
    fields = papers_models().get(name_or_path.rpartition("/")[2])
    return dimensions_by(fields) if fields else None


def dimensions_in(directory: Path) -> AnyDimensions:
    """Dimensions of the model in a local directory; its weights are not needed.

    Raises:
        SubtuneError: there is no configuration, or none of a model that transformers loads.
    """
    fields = read_config(directory)
    return (
        dimensions_by(fields) if is_packed(fields["model_type"]) else _other_dimensions(directory)
    )


def exported_names(directory: Path) -> dict[str, str]:
    """Canonical name to transformers' of every parameter of a model that classifies sequences.

    Raises:
        SubtuneError: there is no configuration, or none of a model that transformers loads.
    """
    fields = read_config(directory)
    if is_packed(fields["model_type"]):
        dimensions = dimensions_by(fields)
        names = dimensions.shapes(outputs=1)
        return {n: dimensions.family.exported_name(n, SEQUENCE_CLASSIFICATION) for n in names}
    from subtune.models import transformers_models

    return transformers_models.own_names(directory, SEQUENCE_CLASSIFICATION)
