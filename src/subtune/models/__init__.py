"""Pretrained encoders: their files, their parameters and components, and what they compute."""

from pathlib import Path
from typing import Any

from subtune.models import dimensions


def _read_other_dimensions(directory: Path) -> dimensions.OtherDimensions:
    # Importing transformers takes seconds, and packed families do not need it.
    from subtune.models.transformers_models import read_dimensions

    return read_dimensions(directory)


def _shapes_with_peft(*arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
    from subtune.models.injected import shapes_with

    return shapes_with(*arguments)


dimensions.shapes_with_peft = _shapes_with_peft
dimensions.read_other_dimensions = _read_other_dimensions
