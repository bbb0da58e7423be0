"""The precision of matrix products. Trainable values and their optimiser are always float32."""

import torch
from torch import Tensor

from subtune.families.naming import is_embedding
from subtune.models.encoder import Encoder


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return a context in which matrix products have a precision, ``fp32`` or ``bf16``."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def cast_once(model: Encoder, precision: str) -> dict[str, Tensor]:
    """Return frozen weights as products read them, so that no step casts them again.

    Autocast casts the weights of transformers' code.
    """
    if precision == "fp32" or model.transformers is not None:
        return dict(model.parameters)
    return {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
