"""The few parameters of a pretrained model that are worth fine-tuning."""

from pathlib import Path

from subtune.models import dimensions

__version__ = "0.1.0"


def _read_other_dimensions(directory: Path) -> dimensions.OtherDimensions:
    # Importing transformers takes seconds, and packed families do not need it.
    from subtune.models.transformers_models import read_dimensions

    return read_dimensions(directory)


dimensions.read_other_dimensions = _read_other_dimensions
