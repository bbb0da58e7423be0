"""Transformers' models: their configurations, classes, weights, and names of parameters.

Importing the code of transformers' models takes seconds, and models with subtune's own forward pass
do not need it. Therefore this module imports it only where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, PretrainedConfig

from subtune.core.errors import SubtuneError, convert_errors
from subtune.methods.roles import (
    ROLES_KEY,
    Naming,
    Shape,
    family_naming,
    is_classifier,
    is_key_bias,
)
from subtune.methods.selection import LAYER_NUMBER
from subtune.models.families import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models.model_config import CONFIG
from subtune.models.model_files import (
    WEIGHTS,
    WEIGHTS_INDEX,
    lacks_head,
    require_matching_weights,
    silence_transformers,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The name of the transformers auto class for each head.
AUTO_CLASSES = {
    SEQUENCE_CLASSIFICATION: "AutoModelForSequenceClassification",
    TOKEN_CLASSIFICATION: "AutoModelForTokenClassification",
    QUESTION_ANSWERING: "AutoModelForQuestionAnswering",
    MEAN_CLASSIFICATION: "AutoModelForTokenClassification",
}
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


@dataclass(frozen=True)
class TransformersModule:
    """Transformers' model without its weights.

    Attributes:
        module: the transformers model, with parameters on the ``meta`` device.
        transformers_names: maps the canonical name of each parameter to its name in ``module``.
        transposed: the names of the matrices that ``module`` stores as ``[i, o]``.
        buffers: the buffers of ``module``, by name.
        without_effect: the canonical names of parameters that do not affect the outputs.
        sees_padding: see `subtune.models.encoder.Encoder.sees_padding`.
        injected: whether ``module`` contains modules that PEFT injected.
    """

    module: nn.Module
    transformers_names: Mapping[str, str]
    transposed: frozenset[str]
    buffers: Mapping[str, Tensor]
    without_effect: frozenset[str]
    sees_padding: bool = False
    injected: bool = False


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


def auto_class(head: str) -> Any:
    """Return the transformers auto class for a head."""
    return getattr(transformers, AUTO_CLASSES[head])


def is_decoder(config: PretrainedConfig) -> bool:
    """Return whether the model is a decoder, in which a token attends only to earlier tokens."""
    is_causal = type(config) in transformers.AutoModelForCausalLM._model_mapping
    return is_causal and type(config) not in transformers.AutoModelForMaskedLM._model_mapping


def model_classes(config: PretrainedConfig) -> dict[str, type[PreTrainedModel]]:
    """Map the heads that transformers supports to classes, sequence classification first."""
    mappings = {head: auto_class(head)._model_mapping for head in AUTO_CLASSES}
    return {
        head: classes[type(config)] for head, classes in mappings.items() if type(config) in classes
    }


def read_config_with_head(directory: Path, outputs: int, head: str) -> PretrainedConfig:
    """Read a model's configuration, and check that transformers supports the head for it."""
    config = read_transformers_config(directory, outputs)
    if head not in model_classes(config):
        raise SubtuneError(
            f"model_type: transformers has no class for {head.replace('_', ' ')} with "
            f"{config.model_type!r}; choose another model"
        )
    return config


@cache
def describe_parameters(
    directory: Path, outputs: int, head: str = SEQUENCE_CLASSIFICATION
) -> tuple[dict[str, str], dict[str, Shape]]:
    """Map the canonical name of every parameter to its name in transformers, and to its shape.

    The directory need not contain weights. If there are weights, their shapes are checked.
    """
    config = read_config_with_head(directory, outputs, head)
    if any((directory / name).is_file() for name in (WEIGHTS, WEIGHTS_INDEX)):
        module, names = load_module(directory, config, head, "meta")
    else:
        with convert_errors(f"{directory / CONFIG} does not describe a model that can be built"):
            module = make_empty_model(config, head)
        names = transformers_names(module)
    parameters = canonical_parameters(module, names)
    return names, {name: tuple(value.shape) for name, value in parameters.items()}


def make_empty_model(config: PretrainedConfig, head: str) -> PreTrainedModel:
    """Build the transformers model on the ``meta`` device, where parameters have no values."""
    with torch.device("meta"), silence_transformers():
        return auto_class(head).from_config(config, attn_implementation="eager")


def load_module(
    directory: Path, config: PretrainedConfig, head: str, device: str | None = None
) -> tuple[PreTrainedModel, dict[str, str]]:
    """Load the transformers model, and map canonical names to its parameter names.

    On the ``meta`` device, parameters have shapes but no values.
    """
    # For some decoders, the pretrained part has a different name in transformers' class for
    # question answering.
    prefixes = {
        name: model_class.base_model_prefix for name, model_class in model_classes(config).items()
    }
    prefix, usual = prefixes[head], prefixes.get(SEQUENCE_CLASSIFICATION, prefixes[head])
    with convert_errors(f"{directory} cannot be loaded"), silence_transformers():
        module, loading = auto_class(head).from_pretrained(
            directory,
            key_mapping={rf"^{usual}\.": f"{prefix}."} if usual != prefix else {},
            config=config,
            dtype=torch.float32,
            device_map=device,
            attn_implementation="eager",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    names = transformers_names(module, lacks_head(directory))
    pretrained = {own for name, own in names.items() if not is_classifier(name)}
    unexpected = sorted(loading["unexpected_keys"])

    def module_in_any_layer(own: str) -> str:
        inner = own.removeprefix(f"{module.base_model_prefix}.")
        return LAYER_NUMBER.sub(".*.", f".{inner}").rpartition(".")[0]

    modules = set(map(module_in_any_layer, pretrained))
    require_matching_weights(
        directory,
        missing=sorted(pretrained.intersection(loading["missing_keys"])),
        mismatched=[key for key in sorted(loading["mismatched_keys"]) if key[0] in pretrained],
        unknown=[own for own in unexpected if module_in_any_layer(own) in modules],
    )
    return module, names


def transformers_names(module: PreTrainedModel, lacks_head: bool = False) -> dict[str, str]:
    """Map canonical parameter names to transformers' names. The classifier comes last.

    If the checkpoint lacks the pretrained layers below the classifier (``lacks_head``), these
    layers belong to the classifier.
    """
    naming = _find_naming(module)
    naming = replace(naming, pretrained_head=()) if lacks_head else naming
    names = {
        naming.canonical_name(own, module.base_model_prefix): own
        for own, _ in module.named_parameters()
    }
    _require_roles_of_modules(module, names)
    return dict(sorted(names.items(), key=lambda item: is_classifier(item[0])))


def _require_roles_of_modules(module: PreTrainedModel, names: Mapping[str, str]) -> None:
    """Check that each of a model's own roles, if any, belongs to one module of its layers.

    ``names`` maps canonical to transformers' names.
    """
    own = getattr(module.config, ROLES_KEY, None) or {}
    parameters = [name for name, _ in module.named_parameters()]
    if own and len(names) < len(parameters):
        lost = next(name for name in parameters if name not in names.values())
        raise SubtuneError(f"{ROLES_KEY}: {lost} has the same role as another parameter")
    roles = (own.get("inside") or {}) | (own.get("outside") or {})
    for key, role in roles.items():
        if not any(f".{key}." in f".{name}." for name in parameters):
            raise SubtuneError(f"{ROLES_KEY}: the model has no module {key!r}")
        if not any(role in name for name in names):
            raise SubtuneError(f"{ROLES_KEY}: no module has the role {role}; correct `layers`")


def _find_naming(module: PreTrainedModel) -> Naming:
    return family_naming(module.config.model_type, getattr(module.config, ROLES_KEY, None))


def canonical_parameters(module: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return a module's parameters by canonical name, with every matrix as ``[o, i]``."""
    parameters, transposed = dict(module.named_parameters()), transposed_matrices(module)
    return {
        name: (parameters[own].mT if own in transposed else parameters[own]).detach()
        for name, own in names.items()
    }


def transposed_matrices(module: nn.Module) -> frozenset[str]:
    """Return the names of a module's matrices that are stored as ``[i, o]``."""
    from transformers.pytorch_utils import Conv1D

    convolutions = (name for name, inner in module.named_modules() if isinstance(inner, Conv1D))
    return frozenset(f"{name}.weight" for name in convolutions)


def strip_values(module: PreTrainedModel, names: Mapping[str, str]) -> TransformersModule:
    """Move a model to the device ``meta`` in place, and describe the model for an `Encoder`."""
    transposed, buffers = transposed_matrices(module), dict(module.named_buffers())
    module.to("meta").tie_weights()
    # Only text generation needs a decoder's cache.
    module.config.use_cache = False
    cancels = _find_naming(module).key_bias_cancels
    without_effect = frozenset(filter(is_key_bias, names) if cancels else ())
    return TransformersModule(module, names, transposed, buffers, without_effect)
