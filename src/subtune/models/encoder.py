"""A pretrained encoder with a linear classifier, and what its parameters are called.

Parameter names here are canonical: the encoder's own names without a family prefix
(``encoder.layer.3.output.LayerNorm.weight``, ``pooler.dense.bias``) and ``classifier.weight``,
``classifier.bias``. They are the same for BERT and RoBERTa.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig, PreTrainedModel

from subtune.errors import SubtuneError
from subtune.models.attention import use_own_attention
from subtune.models.dropout import use_cheap_masks
from subtune.models.files import WEIGHTS
from subtune.models.first_token import pool_first_token_only


class EncoderClassifier(nn.Module):
    """A pretrained encoder, its pooled first token, dropout and a linear classifier.

    BitFit, appendix A.2: a linear layer on the contextual embedding of the first token. For
    RoBERTa too, the pooler is part of the encoder and the classifier is linear.
    """

    def __init__(self, backbone: PreTrainedModel, num_labels: int):
        super().__init__()
        self.backbone = backbone
        self.dropout = nn.Dropout(backbone.config.hidden_dropout_prob)
        self.classifier = nn.Linear(backbone.config.hidden_size, num_labels)
        use_cheap_masks(self)
        use_own_attention(backbone)
        pool_first_token_only(backbone)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Logits ``[examples, num_labels]`` of ``input_ids`` etc., each ``[examples, tokens]``."""
        pooled = self.backbone(**batch).pooler_output
        return self.classifier(self.dropout(pooled))


def load(directory: Path, num_labels: int) -> EncoderClassifier:
    """Pretrained weights with an untrained classifier; nothing is fetched.

    Raises:
        SubtuneError: the weights cannot be read.
    """
    with torch.random.fork_rng(devices=[]):
        # A checkpoint without a pooler gets the same new one in every run.
        torch.manual_seed(0)
        try:
            backbone = AutoModel.from_pretrained(
                directory, local_files_only=True, use_safetensors=True, dtype=torch.float32
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            reason = str(error).splitlines()[0]
            raise SubtuneError(f"{directory / WEIGHTS} cannot be read: {reason}") from None
    return EncoderClassifier(backbone, num_labels)


def skeleton(config: PretrainedConfig, num_labels: int) -> EncoderClassifier:
    """The model's shape on the meta device: no weights, no memory."""
    with torch.device("meta"):
        return EncoderClassifier(AutoModel.from_config(config), num_labels)


def canonical_parameters(model: EncoderClassifier) -> dict[str, nn.Parameter]:
    """Parameters by canonical name, in the model's order."""
    return {canonical_name(name): value for name, value in model.named_parameters()}


def shapes_of(model: EncoderClassifier) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter, classifier included."""
    return {name: tuple(value.shape) for name, value in canonical_parameters(model).items()}


def canonical_name(name: str) -> str:
    """A parameter's canonical name, from its name inside `EncoderClassifier`."""
    return name.removeprefix("backbone.")


def reset_classifier(model: EncoderClassifier, seed: int) -> None:
    """Draw a new classifier, as BERT does: weights from N(0, initializer_range²), bias 0."""
    generator = torch.Generator().manual_seed(seed)
    std = model.backbone.config.initializer_range
    with torch.no_grad():
        weight = torch.empty(model.classifier.weight.shape).normal_(0, std, generator=generator)
        model.classifier.weight.copy_(weight)
        model.classifier.bias.zero_()
