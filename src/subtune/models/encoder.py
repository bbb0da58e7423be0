"""A model in memory, loaded from a directory: a pretrained encoder or decoder with a head.

Its parameters have canonical names, the same in every
family (`subtune.methods.roles`).
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

from subtune.core.errors import one_line
from subtune.methods.added import AdapterSettings
from subtune.methods.roles import Shape, is_classifier
from subtune.models.families import FAMILIES, HEADS, MEAN_CLASSIFICATION, Family
from subtune.models.folders import CONFIG
from subtune.models.model_config import Pooling, choose_head, read_config
from subtune.models.model_files import list_weight_files, stored_names
from subtune.models.operations import Fused
from subtune.runs.spec import FisherSpec, RunSpec
from subtune.tasks.examples import Reads

# Fields of ``config.json`` that an earlier use of the model has set, with their defaults. They
# change what transformers' model returns, or how it trains, but not the model.
SWITCHES = {
    "gradient_checkpointing": False,
    "output_attentions": False,
    "output_hidden_states": False,
    "problem_type": None,
    "return_dict": True,
    "torchscript": False,
}
# Standard deviations of an adapter's initial weights. Houlsby et al., 2019, section 3.6, truncate
# normal draws at two standard deviations. adapter-hub, the code of Pfeiffer et al., 2021, does not
# truncate them. All biases are 0.
ADAPTER_STANDARD_DEVIATION = {"houlsby": 1e-2, "pfeiffer": 0.02}


@dataclass(frozen=True)
class TransformersModule:
    """Transformers' model without its weights.

    Attributes:
        module: the model, with empty parameters.
        own_names: the module's name of each parameter, by canonical name.
        transposed: the module's names of matrices that it stores as ``[i, o]``.
        buffers: the module's buffers, by the module's names.
        without_effect: canonical names of parameters that change no output.
        sees_padding: whether padding changes a text's result, so that batches must have none.
        injected: whether the module has modules of PEFT.
    """

    module: nn.Module
    own_names: Mapping[str, str]
    transposed: frozenset[str]
    buffers: Mapping[str, Tensor]
    without_effect: frozenset[str]
    sees_padding: bool = False
    injected: bool = False


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder or decoder with a head.

    Attributes:
        config: transformers' configuration of the model.
        parameters: every parameter by canonical name, in the model's order, the classifier's last.
        head: a key of `HEADS`.
        transformers: transformers' module, unless subtune has its own forward pass.
        adapters: the settings of the model's adapters, if it has any. Only models with our own
            forward pass can have some.
        fused: compiled operations for our own forward pass, if a GPU trains long enough.
    """

    config: PretrainedConfig
    parameters: dict[str, Tensor]
    head: str
    transformers: TransformersModule | None = None
    adapters: AdapterSettings | None = None
    fused: Fused | None = None

    @property
    def family(self) -> Family:
        """The model's packed family."""
        return FAMILIES[self.config.model_type]

    @property
    def reads(self) -> Reads:
        """The tokens of a text that the head reads."""
        return HEADS[self.head]

    @property
    def averages(self) -> bool:
        """True if the head's logits are averaged over the tokens that it reads."""
        return self.head == MEAN_CLASSIFICATION

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of every parameter, by canonical name."""
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
        """Return a parameter's name in transformers' model."""
        if self.transformers is not None:
            return self.transformers.own_names[name]
        return self.family.exported_name(name, self.head)

    def is_transposed(self, name: str) -> bool:
        """Return whether transformers' model stores a matrix as ``[i, o]``, not ``[o, i]``."""
        theirs = self.transformers
        return theirs is not None and theirs.own_names[name] in theirs.transposed

    def export_parameters(self) -> dict[str, Tensor]:
        """Return every parameter as transformers' model names and stores it."""
        return {
            self.exported_name(name): value.mT if self.is_transposed(name) else value
            for name, value in self.parameters.items()
        }


def with_new_classifier(encoder: Encoder, seed: int) -> Encoder:
    """Return the encoder with a classifier drawn from a seed."""
    return replace(encoder, parameters=encoder.parameters | draw_classifier(encoder, seed))


def draw_classifier(encoder: Encoder, seed: int) -> dict[str, Tensor]:
    """Return a classifier's parameters, drawn from a seed as transformers draws them.

    Weights come from N(0, initializer_range²), biases are 0, and norms are 1.
    """
    generator = torch.Generator().manual_seed(seed)
    # Some configurations lack this field.
    spread = getattr(encoder.config, "initializer_range", 0.02)
    parameters = {}
    for name, value in encoder.parameters.items():
        if not is_classifier(name):
            continue
        drawn = torch.zeros(value.shape)
        if name.endswith(".weight"):
            drawn = drawn.normal_(0, spread, generator=generator) if value.ndim > 1 else drawn + 1
        parameters[name] = drawn.to(value)
    return parameters


def add_adapters(encoder: Encoder, settings: AdapterSettings, seed: int) -> Encoder:
    """Return an encoder of a packed family with adapters whose weights are drawn from a seed."""
    generator = torch.Generator().manual_seed(seed)
    spread = ADAPTER_STANDARD_DEVIATION[settings.type]
    added: dict[str, Tensor] = {}
    shapes = settings.shapes(encoder.config.num_hidden_layers, encoder.config.hidden_size)
    for name, shape in shapes.items():
        start = torch.zeros(shape)
        if len(shape) > 1 and settings.type == "houlsby":
            nn.init.trunc_normal_(start, 0.0, spread, -2 * spread, 2 * spread, generator)
        elif len(shape) > 1:
            start.normal_(0.0, spread, generator=generator)
        added[name] = start.to(next(iter(encoder.parameters.values())))
    # The classifier comes last.
    return replace(encoder, parameters=added | encoder.parameters, adapters=settings)


def read_transformers_config(directory: Path, outputs: int) -> PretrainedConfig:
    """Return transformers' configuration of a model with a number of outputs and a padding id.

    Labels and the fields in `SWITCHES` have their defaults. If the configuration has no padding id,
    the end-of-text token is used, as is usual for decoders: no token of the text attends to the
    padding after it.

    Raises:
        SubtuneError: the configuration cannot be read, or transformers knows no such model.
    """
    with one_line(f"{directory / CONFIG} cannot be read"), quiet():
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    # Transformers then makes label words of its own, one per output.
    config.id2label = None
    config.num_labels = outputs
    for part, (name, value) in product([config, config.get_text_config()], SWITCHES.items()):
        if hasattr(part, name):
            setattr(part, name, value)
    words = getattr(config, "vocab_size", None) or math.inf
    if config.pad_token_id is None or not 0 <= config.pad_token_id < words:
        end = getattr(config, "eos_token_id", None)
        config.pad_token_id = next(iter(end), 0) if isinstance(end, list) else end or 0
    return config


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers, which reports progress and, for example, heads without weights."""
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
    """Return the encoder of a spec, loaded from a directory, with the head of the spec's task."""
    task = spec.tokens.data.task
    return load_encoder(Path(directory), task.of_kind.head, task.outputs, spec.model.pooling)


def load_encoder(
    directory: Path, head: str, outputs: int, pooling: Pooling | None = None
) -> Encoder:
    """Return the model in a directory, in float32 and with a classifier of zeros.

    Args:
        directory: a directory with the model's files.
        head: the head of the task's kind, a key of `HEADS`.
        outputs: the number of the head's outputs.
        pooling: the tokens that a sequence classifier reads; default: those of transformers' class.

    Raises:
        SubtuneError: a weight is missing or cannot be read, or the model has no such pooling.
    """
    fields = read_config(directory)
    head = choose_head(pooling, head, fields["model_type"])
    if fields["model_type"] not in FAMILIES:
        # Transformers' code takes seconds to import; our own forward pass does not need it.
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
