"""Adapters inside transformers' own BERT and RoBERTa, written out plainly; a reference for tests.

It imports nothing of the project's. Sources:

* Houlsby et al. 2019 (arXiv 1902.00751) and google-research/adapter-bert (``modeling.py``,
  ``run_classifier.py``, ``optimization.py``);
* Pfeiffer et al. 2021, AdapterFusion (arXiv 2005.00247), appendix A.2, and adapter-hub/adapters
  (``SeqBnConfig``; ``methods/modeling.py``).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

# Houlsby, section 3.6: normal draws, cut at two standard deviations. The published code has 1e-3.
HOULSBY_DEVIATION = 1e-2
# adapter-hub, `Adapter.init_bert_weights`: normal draws, not cut. Biases start at 0 in both.
PFEIFFER_DEVIATION = 0.02
# adapter-hub, `SeqBnConfig`: the bottleneck has width / 16 units.
REDUCTION = 16


class Bottleneck(nn.Module):
    """A projection to few units, an activation, and a projection back; without the residual."""

    def __init__(self, width: int, size: int, activation: nn.Module) -> None:
        super().__init__()
        self.down = nn.Linear(width, size, device="meta")
        self.activation = activation
        self.up = nn.Linear(size, width, device="meta")

    def forward(self, hidden: Tensor) -> Tensor:
        return self.up(self.activation(self.down(hidden)))


class HoulsbyOutput(nn.Module):
    """The end of a sub-layer: dense, dropout, adapter with its residual, residual, LayerNorm."""

    def __init__(self, output: nn.Module, adapter: Bottleneck) -> None:
        super().__init__()
        self.dense, self.dropout, self.LayerNorm = output.dense, output.dropout, output.LayerNorm
        self.adapter = adapter

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        hidden = self.dropout(self.dense(hidden_states))
        hidden = hidden + self.adapter(hidden)
        return self.LayerNorm(hidden + input_tensor)


class PfeifferOutput(HoulsbyOutput):
    """The end of a feed-forward part whose adapter reads what LayerNorm returns.

    The adapter's residual is taken before LayerNorm, and LayerNorm runs a second time after it.
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
    """Insert two adapters per layer; return what trains: adapters, every LayerNorm, classifier.

    ``values`` replaces initial values of trained parameters, by name.
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
    """Insert an adapter after each feed-forward part; return what trains: adapters, classifier.

    ``values`` replaces initial values of trained parameters, by name.
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
