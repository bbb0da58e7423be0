"""Loading models with transformers, and building transformers models from encoders."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from subtune.core.errors import SubtuneError, convert_errors
from subtune.methods.roles import Shape, family_naming, is_classifier, is_key_bias
from subtune.methods.selection import LAYER_NUMBER
from subtune.models.encoder import (
    Encoder,
    TransformersModule,
    read_transformers_config,
    silence_transformers,
)
from subtune.models.families import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
    Dimensions,
)
from subtune.models.folders import CONFIG
from subtune.models.model_config import NO_POOLING, Pooling
from subtune.models.model_files import WEIGHTS, WEIGHTS_INDEX, lacks_head, require_matching_weights

# The transformers auto class for each head.
AUTO_CLASSES = {
    SEQUENCE_CLASSIFICATION: transformers.AutoModelForSequenceClassification,
    TOKEN_CLASSIFICATION: transformers.AutoModelForTokenClassification,
    QUESTION_ANSWERING: transformers.AutoModelForQuestionAnswering,
    MEAN_CLASSIFICATION: transformers.AutoModelForTokenClassification,
}


def load_transformers_encoder(
    directory: Path, head: str, outputs: int, pooling: Pooling | None = None
) -> Encoder:
    """Load a model with transformers, like `subtune.models.encoder.load_encoder`."""
    config = _read_config_with_head(directory, outputs, head)
    field = family_naming(config.model_type).pooling_field
    if pooling == "first" and is_decoder(config):
        raise SubtuneError(NO_POOLING.format("first"))
    if pooling and field:
        setattr(config, field, {"first": "cls", "mean": "mean"}[pooling])
    module, names = _load_module(directory, config, head)
    parameters = {
        name: torch.zeros(value.shape)
        if is_classifier(name)
        else value.clone(memory_format=torch.contiguous_format)
        for name, value in canonical_parameters(module, names).items()
    }
    return Encoder(config, parameters, head, strip_values(module, names))


def make_transformers_model(encoder: Encoder, **settings: Any) -> PreTrainedModel:
    """Build the transformers model of an encoder; pass ``settings`` to ``from_config``."""
    with silence_transformers():
        model = AUTO_CLASSES[encoder.head].from_config(encoder.config, **settings)
    exported = encoder.export_parameters()
    model.to(next(iter(exported.values())).dtype)
    # A tied parameter has several names, of which ``exported`` contains only one.
    assert exported.keys() >= dict(model.named_parameters()).keys()
    buffers = encoder.transformers.buffers if encoder.transformers else {}
    model.load_state_dict(dict(buffers) | exported, strict=False)
    return model


def make_config(dimensions: Dimensions, outputs: int) -> PretrainedConfig:
    """Build the transformers configuration of a model from the model's dimensions."""
    fields = dimensions._asdict()
    config = AutoConfig.for_model(fields.pop("family").model_type, **fields)
    config.num_labels = outputs
    return config


def is_decoder(config: PretrainedConfig) -> bool:
    """Return whether the model is a decoder, in which a token attends only to earlier tokens."""
    is_causal = type(config) in transformers.AutoModelForCausalLM._model_mapping
    return is_causal and type(config) not in transformers.AutoModelForMaskedLM._model_mapping


def model_classes(config: PretrainedConfig) -> dict[str, type[PreTrainedModel]]:
    """Map the heads that transformers supports to classes, sequence classification first."""
    mappings = {head: auto_class._model_mapping for head, auto_class in AUTO_CLASSES.items()}
    return {
        head: classes[type(config)] for head, classes in mappings.items() if type(config) in classes
    }


def _read_config_with_head(directory: Path, outputs: int, head: str) -> PretrainedConfig:
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
    config = _read_config_with_head(directory, outputs, head)
    if any((directory / name).is_file() for name in (WEIGHTS, WEIGHTS_INDEX)):
        module, names = _load_module(directory, config, head, "meta")
    else:
        with convert_errors(f"{directory / CONFIG} does not describe a model that can be built"):
            module = make_empty_model(config, head)
        names = transformers_names(module)
    parameters = canonical_parameters(module, names)
    return names, {name: tuple(value.shape) for name, value in parameters.items()}


def make_empty_model(config: PretrainedConfig, head: str) -> PreTrainedModel:
    """Build the transformers model on the ``meta`` device, where parameters have no values."""
    with torch.device("meta"), silence_transformers():
        return AUTO_CLASSES[head].from_config(config, attn_implementation="eager")


@torch.no_grad()
def initialise_classifier(encoder: Encoder, seed: int) -> dict[str, Tensor]:
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


def _load_module(
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
        module, loading = AUTO_CLASSES[head].from_pretrained(
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
    naming = family_naming(module.config.model_type)
    naming = replace(naming, pretrained_head=()) if lacks_head else naming
    names = {
        naming.canonical_name(own, module.base_model_prefix): own
        for own, _ in module.named_parameters()
    }
    return dict(sorted(names.items(), key=lambda item: is_classifier(item[0])))


def canonical_parameters(module: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return a module's parameters by canonical name, with every matrix as ``[o, i]``."""
    parameters, transposed = dict(module.named_parameters()), transposed_matrices(module)
    return {
        name: (parameters[own].mT if own in transposed else parameters[own]).detach()
        for name, own in names.items()
    }


def transposed_matrices(module: nn.Module) -> frozenset[str]:
    """Return the names of a module's matrices that are stored as ``[i, o]``."""
    convolutions = (name for name, inner in module.named_modules() if isinstance(inner, Conv1D))
    return frozenset(f"{name}.weight" for name in convolutions)


def strip_values(module: PreTrainedModel, names: Mapping[str, str]) -> TransformersModule:
    """Move a model to the device ``meta`` in place, and describe the model for an `Encoder`."""
    transposed, buffers = transposed_matrices(module), dict(module.named_buffers())
    module.to("meta").tie_weights()
    # Only text generation needs a decoder's cache.
    module.config.use_cache = False
    key_bias_cancels = family_naming(module.config.model_type).key_bias_cancels
    without_effect = frozenset(filter(is_key_bias, names) if key_bias_cancels else ())
    return TransformersModule(module, names, transposed, buffers, without_effect)
