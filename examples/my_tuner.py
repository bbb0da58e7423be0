"""A tuner that PEFT does not know: it trains a factor for each output of linear layers."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from peft import PeftConfig
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer


@dataclass
class ScaleConfig(PeftConfig):
    """The settings: which layers, and the factors before training."""

    target_modules: list[str] | None = None
    modules_to_save: list[str] | None = None
    start: float = 1.0


class ScaleLayer(torch.nn.Module, BaseTunerLayer):
    """A linear layer, and a factor for each of its outputs."""

    adapter_layer_names = ("scale_factors",)

    def __init__(self, base_layer, adapter_name, start):
        super().__init__()
        self.base_layer = base_layer
        factors = torch.full_like(base_layer.weight[:, 0], start)
        self.scale_factors = torch.nn.ParameterDict({adapter_name: torch.nn.Parameter(factors)})
        self.set_adapter([adapter_name])

    def forward(self, inputs):
        return self.base_layer(inputs) * self.scale_factors[self.active_adapters[0]]


class ScaleModel(BaseTuner):
    """The tuner, which replaces the layers. PEFT trains parameters whose names have its prefix."""

    prefix = "scale_"
    tuner_layer_cls = ScaleLayer
    target_module_mapping = MappingProxyType({})  # no default targets for any family of models

    def _create_and_replace(self, config, adapter_name, target, target_name, parent, **_):
        layer = ScaleLayer(target, adapter_name, config.start)
        self._replace_module(parent, target_name, layer, target)
