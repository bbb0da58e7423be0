"""Adapters in packed families' models: their start and their computation."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from subtune.models.encoder import Encoder
from subtune.selections.added import AdapterSettings

# Houlsby et al., 2019, section 3.6, cuts normal draws at two standard deviations. adapter-hub, the
# code of Pfeiffer et al., 2021, does not. Biases start at 0.
DEVIATION = {"houlsby": 1e-2, "pfeiffer": 0.02}


def with_adapters(model: Encoder, settings: AdapterSettings, seed: int) -> Encoder:
    """Return a model of a packed family with adapters, as a seed draws them."""
    generator = torch.Generator().manual_seed(seed)
    spread = DEVIATION[settings.type]
    added: dict[str, Tensor] = {}
    shapes = settings.shapes(model.config.num_hidden_layers, model.config.hidden_size)
    for name, shape in shapes.items():
        start = torch.zeros(shape)
        if len(shape) > 1 and settings.type == "houlsby":
            nn.init.trunc_normal_(start, 0.0, spread, -2 * spread, 2 * spread, generator)
        elif len(shape) > 1:
            start.normal_(0.0, spread, generator=generator)
        added[name] = start.to(next(iter(model.parameters.values())))
    # The classifier comes last.
    return replace(model, parameters=added | model.parameters, adapters=settings)
