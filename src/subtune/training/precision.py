"""The precision of matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from subtune.methods.roles import is_embedding
from subtune.models.encoder import Encoder
from subtune.runs.spec import Precision


@contextmanager
def autocast(device: torch.device, precision: Precision) -> Iterator[None]:
    """Compute matrix products in a precision.

    A backward pass after the context uses the same precision.
    """
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def cast_once(model: Encoder, precision: Precision) -> Encoder:
    """Return the model with frozen weights in the precision of products.

    Otherwise every step would cast them. For transformers' code, autocast does that.
    """
    if precision != "bf16" or model.transformers is not None:
        return model
    parameters = {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
    return replace(model, parameters=parameters)
