"""Transformers' models in two parts: weights by canonical name, and a skeleton that reads them."""

import copy
import difflib
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

from subtune.core.errors import SubtuneError, one_line, one_of
from subtune.families import naming, naming_of
from subtune.families.base import (
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
    is_classifier,
)
from subtune.models import files
from subtune.models.encoder import Encoder, Skeleton

AUTO_CLASSES = {
    SEQUENCE_CLASSIFICATION: transformers.AutoModelForSequenceClassification,
    TOKEN_CLASSIFICATION: transformers.AutoModelForTokenClassification,
    QUESTION_ANSWERING: transformers.AutoModelForQuestionAnswering,
}
# Types of models that transformers has with one of these heads or another.
WITH_HEADS = sorted(
    {model_type for of in AUTO_CLASSES.values() for model_type in of._model_mapping._model_mapping}
)


def load(directory: Path, head: str, outputs: int) -> Encoder:
    """Pretrained weights in float32 with a classifier of zeros; nothing is fetched.

    Args:
        directory: of the model's files.
        head: its name in `subtune.families.base`.
        outputs: the head's width.

    Raises:
        SubtuneError: transformers has no such model with this head, or a weight is missing or
            cannot be read.
    """
    config = read_config(directory, outputs)
    require_head(config, head)
    module = _with_weights(directory, config, head)
    own_names = _own_names(module)
    held = dict(module.named_parameters(remove_duplicate=False))
    transposed = _transposed(module)
    parameters = {}
    for name, own in own_names.items():
        value = held[own].detach()
        value = value.mT.contiguous() if own in transposed else value.clone()
        parameters[name] = torch.zeros_like(value) if is_classifier(name) else value
    return Encoder(config, parameters, head, _skeleton(module, own_names, transposed))


def shapes(directory: Path, head: str, outputs: int) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter of a model; its weights are not needed.

    Raises:
        SubtuneError: there is no configuration that transformers knows, with this head; or there
            are weights, and not those of the configuration.
    """
    module = _on_meta(directory, head, outputs)
    held, transposed = dict(module.named_parameters()), _transposed(module)
    return {
        name: tuple(held[own].mT.shape if own in transposed else held[own].shape)
        for name, own in _own_names(module).items()
    }


def own_names(directory: Path, head: str) -> dict[str, str]:
    """Canonical name to transformers' name of every parameter of a model, without its weights.

    Raises:
        SubtuneError: there is no configuration that transformers knows, with this head.
    """
    return _own_names(_on_meta(directory, head, outputs=1))


def _on_meta(directory: Path, head: str, outputs: int) -> PreTrainedModel:
    """A model of which only names and shapes are known; where its weights are there, as theirs."""
    config = read_config(directory, outputs)
    require_head(config, head)
    if files.has_weights(directory):
        return _with_weights(directory, config, head, "meta")
    with one_line(f"{directory / files.CONFIG} makes no model"), torch.device("meta"), quiet():
        return AUTO_CLASSES[head].from_config(config, attn_implementation="eager")


def _with_weights(
    directory: Path, config: PretrainedConfig, head: str, device: str | None = None
) -> PreTrainedModel:
    """A model with the weights in a directory; on the device ``meta`` they are only compared."""
    # What decoders keep for the next token is of no use to one pass.
    without_cache = copy.deepcopy(config)
    without_cache.use_cache = False
    with one_line(f"{directory} cannot be loaded"), quiet():
        module, loading = AUTO_CLASSES[head].from_pretrained(
            directory,
            key_mapping=_renamed(config, head),
            config=without_cache,
            dtype=torch.float32,
            device_map=device,
            attn_implementation="eager",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    _require_same(directory, module, loading)
    return module


def read_config(directory: Path, outputs: int) -> PretrainedConfig:
    """A model's configuration with a head so wide, and an id of padding.

    Where a model has none the end of a text pads, as is usual for decoders; it stands behind the
    text, where no token sees it.

    Raises:
        SubtuneError: it cannot be read, or transformers knows no such model.
    """
    model_type = files.read_config(directory)["model_type"]
    if model_type not in CONFIG_MAPPING_NAMES:
        close = difflib.get_close_matches(model_type, WITH_HEADS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise SubtuneError(
            f"{directory / files.CONFIG}: model_type: found {model_type!r}, expected a model that "
            f"transformers has{hint}"
        )
    with one_line(f"{directory / files.CONFIG} cannot be read"), quiet():
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False, num_labels=outputs
        )
    for name in ("hidden_act", "activation_function"):
        activation = getattr(config, name, None)
        if isinstance(activation, str) and activation not in ACT2FN:
            raise SubtuneError(f"{directory / files.CONFIG}: {name}: {one_of(activation, ACT2FN)}")
    words = getattr(config, "vocab_size", None) or math.inf
    if config.pad_token_id is None or not 0 <= config.pad_token_id < words:
        end = getattr(config, "eos_token_id", None)
        config.pad_token_id = next(iter(end), 0) if isinstance(end, list) else end or 0
    return config


def require_head(config: PretrainedConfig, head: str) -> None:
    """Refuse a model that transformers has not with this head.

    Raises:
        SubtuneError: it has not.
    """
    if type(config) not in AUTO_CLASSES[head]._model_mapping:
        raise SubtuneError(
            f"model_type: transformers has no model for {head.replace('_', ' ')} of "
            f"{config.model_type!r}"
        )


def first_head(directory: Path) -> str:
    """A head that transformers has for a model, that for sequences before others.

    Raises:
        SubtuneError: its configuration cannot be read, or there is none.
    """
    config = read_config(directory, outputs=1)
    for head, auto_class in AUTO_CLASSES.items():
        if type(config) in auto_class._model_mapping:
            return head
    raise SubtuneError(f"model_type: transformers has no head for {config.model_type!r}")


def _renamed(config: PretrainedConfig, head: str) -> dict[str, str]:
    """Of stored names the beginning, by a pattern, and the one that the model with a head has.

    Transformers' question answering calls the pretrained part of some decoders otherwise.
    """
    prefix, *usual = (
        AUTO_CLASSES[of]._model_mapping[type(config)].base_model_prefix
        for of in (head, SEQUENCE_CLASSIFICATION)
        if type(config) in AUTO_CLASSES[of]._model_mapping
    )
    return {rf"^{other}\.": f"{prefix}." for other in usual if other != prefix}


def _own_names(module: PreTrainedModel) -> dict[str, str]:
    """Canonical name to own name of every parameter, in the model's order, the classifier last."""
    of_family = naming_of(module.config.model_type)
    names = {
        of_family.canonical(own, module.base_model_prefix): own
        for own, _ in module.named_parameters()
    }
    return dict(sorted(names.items(), key=lambda item: is_classifier(item[0])))


def _transposed(module: nn.Module) -> frozenset[str]:
    """Own names of the matrices that stand as ``[i, o]``."""
    convolutions = (name for name, inner in module.named_modules() if isinstance(inner, Conv1D))
    return frozenset(f"{name}.weight" for name in convolutions)


def _require_same(directory: Path, module: PreTrainedModel, loading: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose pretrained weights are not those of its configuration."""
    prefix = f"{module.base_model_prefix}."
    pretrained = {own for name, own in _own_names(module).items() if not is_classifier(name)}
    missing = sorted(pretrained.intersection(loading["missing_keys"]))
    unexpected = sorted(loading["unexpected_keys"])
    if missing:
        behind = f".{missing[0].removeprefix(prefix)}"
        elsewhere = [name for name in unexpected if name.endswith(behind)]
        hint = f"; found {elsewhere[0]!r}, which has another prefix" if elsewhere else ""
        raise SubtuneError(f"{directory} has no weights {missing[0]!r}, which its model has{hint}")
    for own, stored, expected in sorted(loading["mismatched_keys"]):
        if own in pretrained:
            raise SubtuneError(
                f"{directory}: {own} has the shape {list(stored)}, expected {list(expected)} as "
                "the model's configuration says"
            )
    modules = {_of_any_layer(own.removeprefix(prefix)) for own in pretrained}
    for own in unexpected:
        if _of_any_layer(own.removeprefix(prefix)) in modules:
            raise SubtuneError(
                f"{directory} has weights {own!r}, which a model of its configuration has not"
            )


def _of_any_layer(name: str) -> str:
    """A parameter's module, without the layer's number."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", f".{name}").rpartition(".")[0]


def _skeleton(
    module: PreTrainedModel, own_names: Mapping[str, str], transposed: frozenset[str]
) -> Skeleton:
    buffers = dict(module.named_buffers())
    empty: dict[int, nn.Parameter] = {}
    for inner in module.modules():
        for part, value in inner._parameters.items():
            if value is not None:
                # Tied parameters stay tied.
                kept = empty.setdefault(id(value), nn.Parameter(value.detach().to("meta"), False))
                inner._parameters[part] = kept
    key_bias = f".{naming.KEY}.bias"
    cancels = naming_of(module.config.model_type).key_bias_cancels
    without_effect = frozenset(name for name in own_names if cancels and name.endswith(key_bias))
    return Skeleton(module, own_names, transposed, buffers, without_effect)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars, and its warnings of new heads, which are meant."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
