"""Shapes of the papers' three models, and of any local one, without weights."""

from pathlib import Path

from transformers import AutoConfig, PretrainedConfig

from subtune.errors import SubtuneError
from subtune.models import encoder
from subtune.models.dimensions import papers_models
from subtune.models.files import CONFIG, read_config

PAPERS_MODELS: dict[str, PretrainedConfig] = {
    name: AutoConfig.for_model(**fields) for name, fields in papers_models().items()
}


def shapes_from(config: PretrainedConfig, num_labels: int) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter of a model with this many labels."""
    return encoder.shapes_of(encoder.skeleton(config, num_labels))


def local_config(directory: Path) -> PretrainedConfig:
    """The configuration of a model in a local directory; its weights are not needed.

    Raises:
        SubtuneError: there is none, or it cannot be read.
    """
    read_config(directory)
    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SubtuneError(f"{directory / CONFIG} cannot be read: {reason}") from None
