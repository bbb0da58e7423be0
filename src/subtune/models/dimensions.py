"""A model's dimensions, known without its weights."""

import json
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


def dimensions_of(name_or_path: str) -> Dimensions | None:
    """Dimensions of one of the papers' models by its name on the hub, or of a local directory.

    Nothing, where they are not known before the model is downloaded.
    """
    if (Path(name_or_path) / CONFIG).is_file():
        fields = read_config(Path(name_or_path))
    else:
        fields = papers_models().get(name_or_path.rpartition("/")[2], {})
    if not fields:
        return None
    family = family_of(fields["model_type"])
    fields = family.defaults | fields
    return Dimensions(family, *(fields[name] for name in Dimensions._fields[1:]))
