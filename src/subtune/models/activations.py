"""Activations by transformers' names for them."""

from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

# The usual ones, without two seconds of imports in every job.
USUAL: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


@cache
def activation(name: str) -> Callable[[Tensor], Tensor]:
    """What transformers calls by a name, which it must know."""
    if name in USUAL:
        return USUAL[name]
    from transformers.activations import ACT2FN

    return ACT2FN[name]
