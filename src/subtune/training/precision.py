"""The precision of matrix products. Trainable values and their optimiser are always float32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from subtune.families.base import is_embedding
from subtune.models.encoder import Encoder


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Compute matrix products in a precision, ``fp32``, ``tf32`` or ``bf16``.

    A backward pass behind the context has the same precision.
    """
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def cast_once(model: Encoder, precision: str) -> dict[str, Tensor]:
    """Return frozen weights as products read them, so that no step casts them again.

    Autocast casts the weights of transformers' code.
    """
    if precision != "bf16" or model.transformers is not None:
        return dict(model.parameters)
    return {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
