"""Transformers' models with injected modules of PEFT.

PEFT's own code injects the modules and computes with them. A parameter that PEFT trains is named
``added.<its name in PEFT's model>``. A parameter that PEFT adds without training is named
``fixed.<its name>``. All others keep their canonical names.
"""

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import replace

import peft
import torch
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
from peft.utils import ModulesToSaveWrapper
from transformers import PretrainedConfig, PreTrainedModel

from subtune.core.errors import SubtuneError, cut, error_reason, listed, one_line, one_of
from subtune.methods.added import PeftSettings
from subtune.methods.roles import ADDED, FIXED, Shape, is_classifier
from subtune.models.encoder import Encoder, quiet
from subtune.models.families import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models.transformers_models import (
    canonical_parameters,
    make_empty_model,
    make_transformers_model,
    own_names,
    strip_values,
)

# PEFT's task types by head. Its class for question answering does not pass token types on, so that
# head has none here.
TASK_TYPES = {
    SEQUENCE_CLASSIFICATION: "SEQ_CLS",
    MEAN_CLASSIFICATION: "TOKEN_CLS",
    TOKEN_CLASSIFICATION: "TOKEN_CLS",
}
TYPES = {kind.value: config for kind, config in PEFT_TYPE_TO_CONFIG_MAPPING.items()}
UNFIT = {
    "ADALORA": "it moves its ranks between layers in calls between steps",
    "ADAMSS": "the number of its values depends on the weights, which a plan does not read",
    "ADAPTION_PROMPT": "PEFT has it for generators of text only",
    "CPT": "PEFT has it for generators of text only",
    "LILY": "a row's result would depend on the other rows of its batch",
    "MULTITASK_PROMPT_TUNING": "it reads the id of each row's task",
    "OSF": "it changes its gradients in hooks of PEFT's own parameters",
    "POLY": "it reads the id of each row's task",
    "SHADOW": "its training could not be compared with PEFT's: it rounds too differently",
    "TRAINABLE_TOKENS": "PEFT saves no classifier with it; LORA has `trainable_token_indices`",
    "XLORA": "it mixes adapters that are trained already",
}
# Fields that users cannot set: fields that all PEFT types have, fields that this package or the
# model decides, fields that load files or import code, and fields that need another way to train.
RESERVED = {field.name for field in dataclasses.fields(peft.PromptLearningConfig)}
RESERVED -= {"modules_to_save", "num_virtual_tokens"}
RESERVED |= {
    "alora_invocation_tokens",
    "arrow_config",
    "corda_config",
    "eva_config",
    "fan_in_fan_out",
    "layer_replication",
    "loftq_config",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "prompt_tuning_init",
    "prompt_tuning_init_text",
    "runtime_config",
    "tokenizer_kwargs",
    "tokenizer_name_or_path",
    "use_qalora",
}
# Initialisations that read data, or that PEFT repeats when it loads a folder.
REFUSED_INITIALISATIONS = ("corda", "eva", "loftq", "lora_ga", "pissa_niter")


def peft_config(settings: PeftSettings, head: str) -> peft.PeftConfig:
    """Return PEFT's configuration.

    Raises:
        SubtuneError: PEFT has no such type, field or value, or not for this head.
    """
    fit = sorted(TYPES.keys() - UNFIT)
    if settings.type not in fit:
        why = UNFIT.get(settings.type)
        message = f"{settings.type} cannot train here, since {why}"
        raise SubtuneError(f"peft.type: {message if why else one_of(settings.type.upper(), fit)}")
    made = TYPES[settings.type]
    start = settings.fields.get("init_lora_weights")
    if isinstance(start, str) and start.startswith(REFUSED_INITIALISATIONS):
        raise SubtuneError(f"peft.init_lora_weights: {cut(start)!r} is not supported here")
    for name in RESERVED.intersection(settings.fields):
        raise SubtuneError(f"peft.{name}: cannot be set here")
    if issubclass(made, peft.PromptLearningConfig):
        if head == QUESTION_ANSWERING:
            raise SubtuneError(f"peft.type: {settings.type} has no head for question answering")
        if settings.virtual_tokens < 1:
            raise SubtuneError("peft.num_virtual_tokens: expected a number above 0")
    with one_line(f"peft: {settings.type}"), quiet():
        return made(task_type=TASK_TYPES.get(head), **settings.fields)


def inject_peft(encoder: Encoder, settings: PeftSettings, seed: int) -> Encoder:
    """Return an encoder with PEFT's modules, whose values are drawn from a seed.

    Raises:
        SubtuneError: PEFT cannot put such modules into this model.
    """
    module, names = make_peft_model(encoder, settings, seed)
    parameters = canonical_parameters(module, names)
    parameters = {name: value.contiguous() for name, value in parameters.items()}
    inside = replace(strip_values(module, names), injected=True)
    return replace(encoder, parameters=parameters, transformers=inside).to(encoder.device)


def make_peft_model(
    encoder: Encoder, settings: PeftSettings, seed: int
) -> tuple[peft.PeftModel, dict[str, str]]:
    """Return PEFT's model with an encoder's values on a CPU, and its names by canonical name."""
    on_cpu = replace(encoder, config=copy.deepcopy(encoder.config)).to("cpu")
    names = {name: encoder.exported_name(name) for name in encoder.parameters}
    module = make_transformers_model(on_cpu, attn_implementation="eager")
    return _inject_modules(module, names, settings, encoder.head, seed)


def peft_shapes(
    config: PretrainedConfig,
    head: str,
    settings: PeftSettings,
    names: Mapping[str, str] | None = None,
) -> dict[str, Shape]:
    """Return the shape of every parameter that is used, by canonical name.

    Args:
        config: transformers' configuration of the model, with the number of outputs.
        head: the model's head.
        settings: the settings of PEFT's modules.
        names: transformers' name of each of the model's parameters, by canonical name; default:
            by the roles of its family.

    Raises:
        SubtuneError: PEFT cannot put such modules into this model.
    """

    def inject(device: str) -> tuple[peft.PeftModel, dict[str, str]]:
        module = make_empty_model(copy.deepcopy(config), head)
        if device != "meta":
            module.to_empty(device=device)
            for value in (*module.parameters(), *module.buffers()):
                value.data.zero_()
        return _inject_modules(module, names or own_names(module), settings, head, seed=0)

    # Only a real forward pass shows whether virtual tokens fit.
    try:
        module, injected = inject("cpu" if settings.virtual_tokens else "meta")
        _try_forward_pass(module, settings)
    except RuntimeError:
        # Some initialisations read the model's values.
        module, injected = inject("cpu")
    return {name: tuple(p.shape) for name, p in canonical_parameters(module, injected).items()}


def _inject_modules(
    module: PreTrainedModel,
    names: Mapping[str, str],
    settings: PeftSettings,
    head: str,
    seed: int,
) -> tuple[peft.PeftModel, dict[str, str]]:
    """Return PEFT's model around a model, and its parameters' own names by canonical name."""
    config = peft_config(settings, head)
    device = next(module.parameters()).device
    with_weights = {own.split(".")[-2] for own in names.values() if "." in own}
    canonical = {own: name for name, own in names.items()}
    known = {id(value): canonical[own] for own, value in module.named_parameters()}
    # The whole head trains, so PEFT must save it, whatever the task type.
    heads = {own.partition(".")[0] for own, name in canonical.items() if is_classifier(name)}
    config.modules_to_save = sorted({*(config.modules_to_save or []), *heads})
    modules = [f".{name}" for name, _ in module.named_modules()]
    missing = [
        name for name in config.modules_to_save if not any(m.endswith(f".{name}") for m in modules)
    ]
    if missing:
        raise SubtuneError(f"peft.modules_to_save: the model has no module {listed(missing)}")
    try:
        with torch.random.fork_rng(devices=[]), device, quiet():
            torch.manual_seed(seed)
            made = peft.get_peft_model(module, config, autocast_adapter_dtype=False)
    except Exception as error:
        if device.type == "meta" and isinstance(error, RuntimeError):
            raise
        asks = "target_modules" in str(error)
        choice = f"; the model's modules: {listed(sorted(with_weights))}" if asks else ""
        raise SubtuneError(f"peft: {settings.type}: {error_reason(error)}{choice}") from None
    return made, _name_parameters(made, known)


def _name_parameters(module: peft.PeftModel, known: dict[int, str]) -> dict[str, str]:
    """Return PEFT's name of every parameter that is used, by canonical name, the classifier's last.

    Args:
        module: PEFT's model.
        known: the canonical names of the model's own parameters, by their Python identity.
    """
    unused = set()
    for wrapper in module.modules():
        if isinstance(wrapper, ModulesToSaveWrapper):
            # PEFT trains a copy of this module, and never computes with the original.
            copied = dict(wrapper.modules_to_save["default"].named_parameters())
            for own, value in wrapper.original_module.named_parameters():
                known[id(copied[own])] = known[id(value)]
                unused.add(id(value))
    names = {}
    for own, value in module.named_parameters():
        name = known.get(id(value))
        if name is None or (value.requires_grad and not is_classifier(name)):
            name = f"{ADDED if value.requires_grad else FIXED}.{own}"
        if id(value) not in unused:
            names[name] = own
    return dict(sorted(names.items(), key=lambda item: is_classifier(item[0])))


def _try_forward_pass(module: peft.PeftModel, settings: PeftSettings) -> None:
    """Refuse a type of PEFT whose code fails on this model.

    On ``meta``, PEFT checks the inputs, and the pass stops where it needs the first value.
    """
    device = next(module.parameters()).device
    ids = torch.ones(1, 4, dtype=torch.long, device=device)
    try:
        with device, torch.no_grad(), quiet():
            module(input_ids=ids, attention_mask=torch.ones_like(ids))
    except Exception as error:
        if device.type == "meta" and isinstance(error, RuntimeError):
            return
        raise SubtuneError(f"peft: {settings.type}: {error_reason(error)}") from None
