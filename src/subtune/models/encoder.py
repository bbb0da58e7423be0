"""Encoders: pretrained encoders or decoders with a head, loaded into memory.

The parameters have canonical names, which are the same in every family (`subtune.methods.roles`).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PretrainedConfig

from subtune.core.errors import SubtuneError
from subtune.methods.added import AdapterSettings
from subtune.methods.roles import Shape, family_naming, is_classifier
from subtune.models.families import FAMILIES, HEADS, MEAN_CLASSIFICATION, Family
from subtune.models.model_config import (
    NO_POOLING,
    Pooling,
    choose_head,
    has_own_initialisation,
    read_model_config,
)
from subtune.models.model_files import list_weight_files, silence_transformers, stored_names
from subtune.models.operations import CompiledOperations
from subtune.models.transformers_models import (
    TransformersModule,
    auto_class,
    canonical_parameters,
    is_decoder,
    load_module,
    make_empty_model,
    read_config_with_head,
    read_transformers_config,
    strip_values,
    transformers_names,
)
from subtune.runs.spec import FisherSpec, RunSpec
from subtune.tasks.examples import Reads

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The standard deviation of the initial weights of adapters. Houlsby et al. (2019, section 3.6) use
# a normal distribution that is truncated at two standard deviations. adapter-hub, the code of
# Pfeiffer et al. (2021), does not truncate the distribution. The initial biases are 0.
ADAPTER_STANDARD_DEVIATION = {"houlsby": 1e-2, "pfeiffer": 0.02}


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder or decoder with a head.

    Attributes:
        parameters: the parameters by canonical name, in the model's order; the classifier comes
            last.
        head: a key of `HEADS`.
        transformers: the transformers model; None for models that use subtune's own forward pass:
            BERT, RoBERTa and XLM-RoBERTa without PEFT.
        adapters: the settings of the adapters, if any. Adapters need subtune's own forward pass.
        fused: the compiled operations of subtune's forward pass; None if they are not compiled, for
            example on a CPU or for short trainings.
    """

    config: PretrainedConfig
    parameters: dict[str, Tensor]
    head: str
    transformers: TransformersModule | None = None
    adapters: AdapterSettings | None = None
    fused: CompiledOperations | None = None

    @property
    def family(self) -> Family:
        """The model's family. Raises a ``KeyError`` if subtune has no forward pass for it."""
        return FAMILIES[self.config.model_type]

    @property
    def tokens_read(self) -> Reads:
        return HEADS[self.head]

    @property
    def averages_logits(self) -> bool:
        return self.head == MEAN_CLASSIFICATION

    @property
    def sees_padding(self) -> bool:
        """Whether padding changes the results, so that batches must not contain padding."""
        return self.transformers is not None and self.transformers.sees_padding

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: tuple(value.shape) for name, value in self.parameters.items()}

    @property
    def device(self) -> torch.device:
        return next(iter(self.parameters.values())).device

    def to(self, device: str | torch.device) -> "Encoder":
        moved = {name: value.to(device) for name, value in self.parameters.items()}
        transformers = self.transformers
        if transformers is not None:
            buffers = {name: value.to(device) for name, value in transformers.buffers.items()}
            transformers = replace(transformers, buffers=buffers)
        return replace(self, parameters=moved, transformers=transformers)

    def exported_name(self, name: str) -> str:
        """Convert a canonical parameter name to the name in the transformers model."""
        if self.transformers is not None:
            return self.transformers.transformers_names[name]
        return self.family.exported_name(name, self.head)

    def is_transposed(self, name: str) -> bool:
        """Return whether the transformers model stores a matrix as ``[i, o]``, not ``[o, i]``."""
        theirs = self.transformers
        return theirs is not None and theirs.transformers_names[name] in theirs.transposed

    def export_parameters(self) -> dict[str, Tensor]:
        """Return all parameters with the names and the layout of the transformers model."""
        return {
            self.exported_name(name): value.mT if self.is_transposed(name) else value
            for name, value in self.parameters.items()
        }


def with_new_classifier(encoder: Encoder, seed: int) -> Encoder:
    """Return a copy of the encoder with a randomly initialised classifier."""
    return replace(encoder, parameters=encoder.parameters | draw_classifier(encoder, seed))


def draw_classifier(encoder: Encoder, seed: int) -> dict[str, Tensor]:
    """Initialise a classifier's parameters as transformers does; keys are canonical names.

    Matrices are drawn from N(0, initializer_range²). Biases are 0, and weights of norms are 1. For
    the model types in `OWN_INITIALISATION`, transformers' code draws the parameters.
    """
    if has_own_initialisation(encoder.config.model_type):
        return _draw_with_transformers(encoder, seed)
    generator = torch.Generator().manual_seed(seed)
    # Some configurations lack the field ``initializer_range``.
    std = getattr(encoder.config, "initializer_range", 0.02)
    parameters = {}
    for name in filter(is_classifier, encoder.parameters):
        value = encoder.parameters[name]
        drawn = torch.zeros(value.shape)
        if name.endswith(".weight"):
            drawn = drawn.normal_(0, std, generator=generator) if value.ndim > 1 else drawn + 1
        parameters[name] = drawn.to(value)
    return parameters


@torch.no_grad()
def _draw_with_transformers(encoder: Encoder, seed: int) -> dict[str, Tensor]:
    """Initialise the parameters of a classifier with transformers' code, by canonical name."""
    module = make_empty_model(encoder.config, encoder.head)
    names = transformers_names(module, lacks_head=True)
    drawn = {name: names[name] for name in encoder.parameters if is_classifier(name)}
    for name, own in drawn.items():
        inner, _, part = own.rpartition(".")
        value = nn.Parameter(torch.empty(encoder.parameters[name].shape))
        setattr(module.get_submodule(inner), part, value)
    for inner in module.modules():
        # Transformers initialises only modules without this mark.
        inner._is_hf_initialized = False
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module.initialize_weights()
    return {
        name: module.get_parameter(own).data.to(encoder.parameters[name])
        for name, own in drawn.items()
    }


def add_adapters(encoder: Encoder, settings: AdapterSettings, seed: int) -> Encoder:
    """Return a copy of an encoder with randomly initialised adapters."""
    generator = torch.Generator().manual_seed(seed)
    std = ADAPTER_STANDARD_DEVIATION[settings.type]
    added: dict[str, Tensor] = {}
    shapes = settings.parameter_shapes(encoder.config.num_hidden_layers, encoder.config.hidden_size)
    for name, shape in shapes.items():
        drawn = torch.zeros(shape)
        if len(shape) > 1 and settings.type == "houlsby":
            nn.init.trunc_normal_(drawn, 0.0, std, -2 * std, 2 * std, generator)
        elif len(shape) > 1:
            drawn.normal_(0.0, std, generator=generator)
        added[name] = drawn.to(next(iter(encoder.parameters.values())))
    # Adapters are put before the other parameters, so that the classifier stays last.
    return replace(encoder, parameters=added | encoder.parameters, adapters=settings)


def load_spec_encoder(spec: RunSpec | FisherSpec, directory: str) -> Encoder:
    """Load the model of a spec from a directory, with the head for the spec's task."""
    task = spec.tokens.data.task
    return load_encoder(Path(directory), task.of_kind.head, task.outputs, spec.model.pooling)


def load_encoder(
    directory: Path, head: str, outputs: int, pooling: Pooling | None = None
) -> Encoder:
    """Load a model from a directory, in float32. All parameters of the classifier are 0.

    Args:
        head: the head for the kind of task, a key of `HEADS`.
        outputs: the number of outputs of the head.
        pooling: the tokens that a sequence classifier reads; None means the tokens that
            transformers' class reads.
    """
    fields = read_model_config(directory)
    head = choose_head(pooling, head, fields["model_type"])
    if fields["model_type"] not in FAMILIES:
        return _load_transformers_encoder(directory, head, outputs, pooling)
    dimensions = FAMILIES[fields["model_type"]].dimensions(fields)
    paths = list_weight_files(directory)
    stored = stored_names(paths, dimensions, head)
    tensors = {name: tensor for path in paths for name, tensor in load_file(path).items()}
    parameters = {
        name: torch.zeros(shape)
        if is_classifier(name)
        else tensors[stored[name]].to(torch.float32, copy=True)
        for name, shape in dimensions.shapes(outputs, head).items()
    }
    return Encoder(read_transformers_config(directory, outputs), parameters, head)


def _load_transformers_encoder(
    directory: Path, head: str, outputs: int, pooling: Pooling | None = None
) -> Encoder:
    """Load a model that runs transformers' code. See `load_encoder`."""
    config = read_config_with_head(directory, outputs, head)
    field = family_naming(config.model_type).pooling_field
    if pooling == "first" and is_decoder(config):
        raise SubtuneError(NO_POOLING.format("first"))
    if pooling and field:
        setattr(config, field, {"first": "cls", "mean": "mean"}[pooling])
    module, names = load_module(directory, config, head)
    parameters = {
        name: torch.zeros(value.shape)
        if is_classifier(name)
        else value.clone(memory_format=torch.contiguous_format)
        for name, value in canonical_parameters(module, names).items()
    }
    return Encoder(config, parameters, head, strip_values(module, names))


def make_transformers_model(encoder: Encoder, **settings: Any) -> "PreTrainedModel":
    """Build the transformers model of an encoder; pass ``settings`` to ``from_config``."""
    with silence_transformers():
        model = auto_class(encoder.head).from_config(encoder.config, **settings)
    exported = encoder.export_parameters()
    model.to(next(iter(exported.values())).dtype)
    # A tied parameter has several names, of which ``exported`` contains only one.
    assert exported.keys() >= dict(model.named_parameters()).keys()
    buffers = encoder.transformers.buffers if encoder.transformers else {}
    model.load_state_dict(dict(buffers) | exported, strict=False)
    return model
