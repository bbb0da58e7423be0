"""Shapes of the papers' three models, and of any local one, without weights."""

from pathlib import Path

from transformers import AutoConfig, BertConfig, PretrainedConfig, RobertaConfig

from subtune.errors import SubtuneError
from subtune.models import encoder
from subtune.models.files import CONFIG, check_family

# The fields that decide a shape, as the published checkpoints have them.
PAPERS_MODELS: dict[str, PretrainedConfig] = {
    "bert-base-cased": BertConfig(vocab_size=28996),
    "bert-large-cased": BertConfig(
        vocab_size=28996,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
    "roberta-base": RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1),
}


def shapes_of(config: PretrainedConfig, num_labels: int) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter of a model with this many labels."""
    return encoder.shapes_of(encoder.skeleton(config, num_labels))


def local_config(directory: Path) -> PretrainedConfig:
    """The configuration of a model in a local directory; its weights are not needed.

    Raises:
        SubtuneError: there is none, or it cannot be read.
    """
    check_family(directory)
    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SubtuneError(f"{directory / CONFIG} cannot be read: {reason}") from None
