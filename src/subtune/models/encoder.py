"""Encoders: pretrained encoders or decoders with a head, loaded into memory.

The parameters have canonical names, which are the same in every family (`subtune.methods.roles`).
"""

import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, PretrainedConfig
from transformers.utils.logging import (
    disable_progress_bar,
    enable_progress_bar,
    is_progress_bar_enabled,
)

from subtune.core.errors import convert_errors
from subtune.methods.added import AdapterSettings
from subtune.methods.roles import Shape, is_classifier
from subtune.models.families import FAMILIES, HEADS, MEAN_CLASSIFICATION, Family
from subtune.models.folders import CONFIG
from subtune.models.model_config import (
    Pooling,
    choose_head,
    has_own_initialisation,
    read_model_config,
)
from subtune.models.model_files import list_weight_files, stored_names
from subtune.models.operations import CompiledOperations
from subtune.runs.spec import FisherSpec, RunSpec
from subtune.tasks.examples import Reads

# These fields of ``config.json`` are reset to their defaults, because a saved model may contain
# other values. The fields change the outputs or the training of the transformers model, but not its
# parameters.
SWITCHES = {
    "gradient_checkpointing": False,
    "output_attentions": False,
    "output_hidden_states": False,
    "problem_type": None,
    "return_dict": True,
    "torchscript": False,
}
# The standard deviation of the initial weights of adapters. Houlsby et al. (2019, section 3.6) use
# a normal distribution that is truncated at two standard deviations. adapter-hub, the code of
# Pfeiffer et al. (2021), does not truncate the distribution. The initial biases are 0.
ADAPTER_STANDARD_DEVIATION = {"houlsby": 1e-2, "pfeiffer": 0.02}


@dataclass(frozen=True)
class TransformersModule:
    """Transformers' model without its weights.

    Attributes:
        module: the transformers model, with parameters on the ``meta`` device.
        transformers_names: maps the canonical name of each parameter to its name in ``module``.
        transposed: the names of the matrices that ``module`` stores as ``[i, o]``.
        buffers: the buffers of ``module``, by name.
        without_effect: the canonical names of parameters that do not affect the outputs.
        sees_padding: whether padding changes the results. If so, batches must not contain padding.
        injected: whether ``module`` contains modules that PEFT injected.
    """

    module: nn.Module
    transformers_names: Mapping[str, str]
    transposed: frozenset[str]
    buffers: Mapping[str, Tensor]
    without_effect: frozenset[str]
    sees_padding: bool = False
    injected: bool = False


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
        from subtune.models.transformers_models import initialise_classifier

        return initialise_classifier(encoder, seed)
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


def read_transformers_config(directory: Path, outputs: int) -> PretrainedConfig:
    """Read a model's configuration with transformers.

    Label names and the fields in `SWITCHES` are reset to their defaults. If there is no padding
    token, the EOS token is used for padding. This is safe, because the tokens of a decoder attend
    only to earlier tokens.
    """
    with convert_errors(f"{directory / CONFIG} cannot be read"), silence_transformers():
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    # Without ``id2label``, transformers makes one label name for each output.
    config.id2label = None
    config.num_labels = outputs
    for part, (name, value) in product([config, config.get_text_config()], SWITCHES.items()):
        if hasattr(part, name):
            setattr(part, name, value)
    vocab_size = getattr(config, "vocab_size", None) or math.inf
    if config.pad_token_id is None or not 0 <= config.pad_token_id < vocab_size:
        end = getattr(config, "eos_token_id", None)
        config.pad_token_id = next(iter(end), 0) if isinstance(end, list) else end or 0
    return config


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and warnings, such as the one about a new classifier."""
    before, has_bars = logging.root.manager.disable, is_progress_bar_enabled()
    logging.disable(logging.WARNING)
    disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
        if has_bars:
            enable_progress_bar()


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
        # Transformers' code takes seconds to import, and subtune's forward pass does not need it.
        from subtune.models import transformers_models

        return transformers_models.load_transformers_encoder(directory, head, outputs, pooling)
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
