"""A plain implementation of adapters in BERT and RoBERTa of transformers, as a reference for tests.

It imports no code of subtune. Sources:

* Houlsby et al. 2019 (arXiv 1902.00751) and google-research/adapter-bert (``modeling.py``,
  ``run_classifier.py``, ``optimization.py``);
* Pfeiffer et al. 2021, AdapterFusion (arXiv 2005.00247), appendix A.2, and adapter-hub/adapters
  (``SeqBnConfig``; ``methods/modeling.py``).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

# Houlsby, section 3.6: a normal distribution truncated at two standard deviations. The published
# code uses 1e-3.
HOULSBY_DEVIATION = 1e-2
# adapter-hub, `Adapter.init_bert_weights`: a normal distribution, not truncated. Biases start at 0
# in both.
PFEIFFER_DEVIATION = 0.02
# adapter-hub, `SeqBnConfig`: the bottleneck has hidden_size / 16 units.
REDUCTION = 16


class Bottleneck(nn.Module):
    """A down-projection, an activation, and an up-projection, without the residual connection."""

    def __init__(self, width: int, size: int, activation: nn.Module) -> None:
        super().__init__()
        self.down = nn.Linear(width, size, device="meta")
        self.activation = activation
        self.up = nn.Linear(size, width, device="meta")

    def forward(self, hidden: Tensor) -> Tensor:
        return self.up(self.activation(self.down(hidden)))


class HoulsbyOutput(nn.Module):
    """The output of a sub-layer with an adapter between dropout and the residual connection."""

    def __init__(self, output: nn.Module, adapter: Bottleneck) -> None:
        super().__init__()
        self.dense, self.dropout, self.LayerNorm = output.dense, output.dropout, output.LayerNorm
        self.adapter = adapter

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        hidden = self.dropout(self.dense(hidden_states))
        hidden = hidden + self.adapter(hidden)
        return self.LayerNorm(hidden + input_tensor)


class PfeifferOutput(HoulsbyOutput):
    """The output of a feed-forward sub-layer, with an adapter that reads the output of LayerNorm.

    The residual of the adapter is taken before LayerNorm. After the adapter, LayerNorm runs again.
    """

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        hidden = self.dropout(self.dense(hidden_states))
        change = self.adapter(self.LayerNorm(hidden + input_tensor))
        return self.LayerNorm(hidden + change + input_tensor)


def insert_houlsby(
    model: nn.Module,
    size: int,
    seed: int = 0,
    deviation: float = HOULSBY_DEVIATION,
    values: Mapping[str, Tensor] | None = None,
) -> dict[str, nn.Parameter]:
    """Insert two adapters per layer; return the trained parameters by name.

    These are the adapters, every LayerNorm, and the classifier. ``values`` maps names of trained
    parameters to initial values that replace the random ones.
    """
    width = model.config.hidden_size
    for layer in model.base_model.encoder.layer:
        for part in (layer.attention, layer):
            # The tanh form of GELU is the one of google-research/adapter-bert.
            adapter = Bottleneck(width, size, nn.GELU(approximate="tanh"))
            part.output = HoulsbyOutput(part.output, adapter.to_empty(device=model.device))
    trained = (".adapter.", "LayerNorm.", "classifier.")
    return _start(model, trained, seed, deviation, values, 2 * deviation)


def insert_pfeiffer(
    model: nn.Module,
    reduction: int = REDUCTION,
    seed: int = 0,
    deviation: float = PFEIFFER_DEVIATION,
    values: Mapping[str, Tensor] | None = None,
) -> dict[str, nn.Parameter]:
    """Insert one adapter per layer, after the feed-forward part; return the trained parameters.

    These are the adapters and the classifier. ``values`` maps names of trained parameters to
    initial values that replace the random ones.
    """
    width = model.config.hidden_size
    for layer in model.base_model.encoder.layer:
        adapter = Bottleneck(width, width // reduction, nn.ReLU())
        layer.output = PfeifferOutput(layer.output, adapter.to_empty(device=model.device))
    return _start(model, (".adapter.", "classifier."), seed, deviation, values)


def _start(model, trained, seed, deviation, values, limit=None) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in trained))
        if ".adapter." in name:
            start = torch.zeros(parameter.shape)
            if name.endswith(".weight") and limit:
                nn.init.trunc_normal_(start, 0.0, deviation, -limit, limit, generator)
            elif name.endswith(".weight"):
                start.normal_(0.0, deviation, generator=generator)
            parameter.data.copy_(start)
    for name, value in (values or {}).items():
        model.get_parameter(name).data.copy_(value)
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
