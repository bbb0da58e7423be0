"""The precision of matrix products. Trainable values and their optimiser are always float32."""

import torch
from torch import Tensor

from subtune.models.encoder import Encoder


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Inside this context matrix products have a run's precision, ``fp32`` or ``bf16``."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def cast_once(model: Encoder, precision: str) -> dict[str, Tensor]:
    """Frozen weights as the products read them, so that no step casts them again.

    Those of transformers' own code are cast there.
    """
    if precision == "fp32" or model.transformers is not None:
        return dict(model.parameters)
    is_embedding = model.family.is_embedding
    return {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
