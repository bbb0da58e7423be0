"""Models that transformers loads: weights by canonical name, and a module without values."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from subtune.core.errors import SubtuneError, one_line
from subtune.methods.roles import Shape, family_naming, is_classifier, is_key_bias
from subtune.methods.selection import LAYER_NUMBER
from subtune.models.encoder import Encoder, TransformersModule, quiet, read_transformers_config
from subtune.models.families import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
    Dimensions,
)
from subtune.models.folders import CONFIG
from subtune.models.model_config import NO_POOLING, Pooling
from subtune.models.model_files import INDEX, WEIGHTS, require_matching_weights

AUTO_CLASSES = {
    SEQUENCE_CLASSIFICATION: transformers.AutoModelForSequenceClassification,
    TOKEN_CLASSIFICATION: transformers.AutoModelForTokenClassification,
    QUESTION_ANSWERING: transformers.AutoModelForQuestionAnswering,
    MEAN_CLASSIFICATION: transformers.AutoModelForTokenClassification,
}


def load_transformers_encoder(
    directory: Path, head: str, outputs: int, pooling: Pooling | None = None
) -> Encoder:
    """Return a model as `subtune.models.encoder.load_encoder` does.

    Raises:
        SubtuneError: transformers has no such model with this head, or a weight is missing or
            cannot be read.
    """
    config = _read_config_with_head(directory, outputs, head)
    field = family_naming(config.model_type).pooling_field
    if pooling == "first" and is_decoder(config):
        raise SubtuneError(NO_POOLING.format("first"))
    if pooling and field:
        setattr(config, field, {"first": "cls", "mean": "mean"}[pooling])
    module = _load_module(directory, config, head)
    names = own_names(module)
    parameters = {
        name: torch.zeros(value.shape)
        if is_classifier(name)
        else value.clone(memory_format=torch.contiguous_format)
        for name, value in canonical_parameters(module, names).items()
    }
    return Encoder(config, parameters, head, strip_values(module, names))


def make_transformers_model(encoder: Encoder, **settings: Any) -> PreTrainedModel:
    """Return transformers' model with an encoder's values.

    ``settings`` are further arguments of transformers' ``from_config``.
    """
    with quiet():
        whole = AUTO_CLASSES[encoder.head].from_config(encoder.config, **settings)
    exported = encoder.export_parameters()
    # A tied parameter has several names.
    values = {id(value): exported[own] for own, value in whole.named_parameters()}
    twins = whole.named_parameters(remove_duplicate=False)
    buffers = encoder.transformers.buffers if encoder.transformers else {}
    every = dict(buffers) | {own: values[id(value)] for own, value in twins}
    whole.to(next(iter(exported.values())).dtype)
    whole.load_state_dict({own: every[own] for own in whole.state_dict()})
    return whole


def make_config(dimensions: Dimensions, outputs: int) -> PretrainedConfig:
    """Return the configuration of a packed family's model, given its dimensions."""
    fields = dimensions._asdict()
    config = AutoConfig.for_model(fields.pop("family").model_type, **fields)
    config.num_labels = outputs
    return config


def is_decoder(config: PretrainedConfig) -> bool:
    """Return whether a token of the model reads only the tokens before it."""
    generates, fills_gaps = (
        type(config) in auto_class._model_mapping
        for auto_class in (transformers.AutoModelForCausalLM, transformers.AutoModelForMaskedLM)
    )
    return generates and not fills_gaps


def model_classes(config: PretrainedConfig) -> dict[str, type[PreTrainedModel]]:
    """Return transformers' class for each head of the model, the one for sequences first."""
    mappings = {head: auto_class._model_mapping for head, auto_class in AUTO_CLASSES.items()}
    return {head: of[type(config)] for head, of in mappings.items() if type(config) in of}


def _read_config_with_head(directory: Path, outputs: int, head: str) -> PretrainedConfig:
    """Return a model's configuration, if transformers has the model with this head."""
    config = read_transformers_config(directory, outputs)
    if head not in model_classes(config):
        raise SubtuneError(
            f"model_type: transformers has no model for {head.replace('_', ' ')} of "
            f"{config.model_type!r}"
        )
    return config


@cache
def read_shapes(
    directory: Path, outputs: int, head: str = SEQUENCE_CLASSIFICATION
) -> dict[str, Shape]:
    """Return the shape of every parameter of a model with a head, by canonical name.

    Raises:
        SubtuneError: the configuration cannot be read, transformers has no such model with this
            head, or weights in the directory do not match the configuration.
    """
    config = _read_config_with_head(directory, outputs, head)
    if any((directory / name).is_file() for name in (WEIGHTS, INDEX)):
        module = _load_module(directory, config, head, "meta")
    else:
        with one_line(f"{directory / CONFIG} makes no model"):
            module = make_empty_model(config, head)
    parameters = canonical_parameters(module, own_names(module))
    return {name: tuple(value.shape) for name, value in parameters.items()}


def make_empty_model(config: PretrainedConfig, head: str) -> PreTrainedModel:
    """Return transformers' model on the device ``meta``, without values."""
    with torch.device("meta"), quiet():
        return AUTO_CLASSES[head].from_config(config, attn_implementation="eager")


def _load_module(
    directory: Path, config: PretrainedConfig, head: str, device: str | None = None
) -> PreTrainedModel:
    """Return a model with the weights in a directory. On the device ``meta`` it has shapes only."""
    # Transformers' question answering has another name for the pretrained part of some decoders.
    prefixes = {
        of: model_class.base_model_prefix for of, model_class in model_classes(config).items()
    }
    prefix, usual = prefixes[head], prefixes.get(SEQUENCE_CLASSIFICATION, prefixes[head])
    with one_line(f"{directory} cannot be loaded"), quiet():
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
    _check_loaded_weights(directory, module, loading)
    return module


def own_names(module: PreTrainedModel) -> dict[str, str]:
    """Return the own name of every parameter by canonical name, in order, the classifier's last."""
    naming = family_naming(module.config.model_type)
    names = {
        naming.canonical(own, module.base_model_prefix): own for own, _ in module.named_parameters()
    }
    return dict(sorted(names.items(), key=lambda item: is_classifier(item[0])))


def canonical_parameters(module: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return a module's parameters by canonical name, every matrix as ``[o, i]``."""
    held, transposed = dict(module.named_parameters()), transposed_matrices(module)
    return {
        name: (held[own].mT if own in transposed else held[own]).detach()
        for name, own in names.items()
    }


def transposed_matrices(module: nn.Module) -> frozenset[str]:
    """Return the own names of the matrices that a module stores as ``[i, o]``."""
    convolutions = (name for name, inner in module.named_modules() if isinstance(inner, Conv1D))
    return frozenset(f"{name}.weight" for name in convolutions)


def _check_loaded_weights(
    directory: Path, module: PreTrainedModel, loading: Mapping[str, Any]
) -> None:
    """Refuse weights that do not match the configuration."""
    prefix = f"{module.base_model_prefix}."
    pretrained = {own for name, own in own_names(module).items() if not is_classifier(name)}
    unexpected = sorted(loading["unexpected_keys"])

    def module_in_any_layer(own: str) -> str:
        return LAYER_NUMBER.sub(".*.", f".{own.removeprefix(prefix)}").rpartition(".")[0]

    modules = set(map(module_in_any_layer, pretrained))
    require_matching_weights(
        directory,
        missing=sorted(pretrained.intersection(loading["missing_keys"])),
        mismatched=[key for key in sorted(loading["mismatched_keys"]) if key[0] in pretrained],
        unknown=[own for own in unexpected if module_in_any_layer(own) in modules],
    )


def strip_values(module: PreTrainedModel, names: Mapping[str, str]) -> TransformersModule:
    """Return transformers' model as an `Encoder` holds it: its parameters are moved to ``meta``."""
    transposed, buffers = transposed_matrices(module), dict(module.named_buffers())
    module.to("meta").tie_weights()
    # A single pass does not need a decoder's cache for the next token.
    module.config.use_cache = False
    cancels = family_naming(module.config.model_type).key_bias_cancels
    without_effect = frozenset(filter(is_key_bias, names) if cancels else ())
    return TransformersModule(module, names, transposed, buffers, without_effect)
