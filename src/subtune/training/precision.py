"""The precision of matrix products. Trainable values and their optimiser are always float32."""

from collections.abc import Mapping

import torch
from torch import Tensor


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Inside this context matrix products have a run's precision, ``fp32`` or ``bf16``."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def cast_once(parameters: Mapping[str, Tensor], precision: str) -> dict[str, Tensor]:
    """Frozen weights as the products read them, so that no step casts them again."""
    if precision == "fp32":
        return dict(parameters)
    return {
        name: value.bfloat16() if value.ndim == 2 and not name.startswith("embeddings.") else value
        for name, value in parameters.items()
    }
