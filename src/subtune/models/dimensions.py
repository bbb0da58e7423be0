"""A model's dimensions, known without its weights."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from subtune.models.families import family_of
from subtune.models.families.base import Dimensions
from subtune.models.files import CONFIG, read_config


@cache
def papers_models() -> dict[str, dict[str, Any]]:
    """The fields of the papers' models that decide a shape, as the published ones have them."""
    path = resources.files("subtune") / "resources" / "sizes" / "models.json"
    return json.loads(path.read_text())


def dimensions_by(fields: Mapping[str, Any]) -> Dimensions:
    """Dimensions of a model by the fields of its configuration."""
    return family_of(fields["model_type"]).dimensions(fields)


def dimensions_of(name_or_path: str) -> Dimensions | None:
    """Dimensions of one of the papers' models by its name on the hub, or of a local directory.

    Nothing, where they are not known before the model is downloaded.
    """
    if (Path(name_or_path) / CONFIG).is_file():
        return dimensions_in(Path(name_or_path))
    fields = papers_models().get(name_or_path.rpartition("/")[2])
    return dimensions_by(fields) if fields else None


def dimensions_in(directory: Path) -> Dimensions:
    """Dimensions of the model in a local directory; its weights are not needed.

    Raises:
        SubtuneError: there is no configuration, or the model is of another family.
    """
    return dimensions_by(read_config(directory))
