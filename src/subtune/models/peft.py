"""Transformers' models with modules that PEFT injects.

PEFT's own code injects the modules and runs their forward pass. A parameter that PEFT trains is
named ``added.<name>``, where ``<name>`` is its name in PEFT's model. A frozen parameter that PEFT
adds is named ``fixed.<name>``. All other parameters keep their canonical names.
"""

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import peft
import torch
from peft.mapping import (
    PEFT_TYPE_TO_CONFIG_MAPPING,
    PEFT_TYPE_TO_PREFIX_MAPPING,
    PEFT_TYPE_TO_TUNER_MAPPING,
)
from peft.tuners.tuners_utils import BaseTuner
from peft.utils import ModulesToSaveWrapper
from transformers import PretrainedConfig, PreTrainedModel

from subtune.core.errors import (
    SubtuneError,
    convert_errors,
    error_reason,
    format_allowed,
    join_names,
    locate_errors,
    shorten,
)
from subtune.core.user_code import import_own_functions, require_planned_code
from subtune.methods.added import PeftSettings
from subtune.methods.roles import ADDED, FIXED, Shape, is_classifier
from subtune.methods.selection import matches_any
from subtune.models.encoder import Encoder, make_transformers_model
from subtune.models.families import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models.model_files import silence_transformers
from subtune.models.transformers_models import canonical_parameters, make_empty_model, strip_values

# The PEFT task type of each head. Question answering is left out, because PEFT's class for this
# task does not pass token types to the model.
TASK_TYPES = dict.fromkeys((MEAN_CLASSIFICATION, TOKEN_CLASSIFICATION), "TOKEN_CLS")
TASK_TYPES[SEQUENCE_CLASSIFICATION] = "SEQ_CLS"
TYPES = {kind.value: config for kind, config in PEFT_TYPE_TO_CONFIG_MAPPING.items()}
# The PEFT types that are not supported, with the reasons.
UNSUPPORTED_TYPES = {
    "ADALORA": "it changes its ranks after every training step, which subtune does not do",
    "ADAMSS": "its number of parameters depends on the weights, which planning does not read",
    "ADAPTION_PROMPT": "PEFT supports it only for text generation",
    "CPT": "PEFT supports it only for text generation",
    "LILY": "the logits of an example would depend on the other examples in its batch",
    "MULTITASK_PROMPT_TUNING": "it needs a task id for each example",
    "OSF": "it changes gradients in hooks on PEFT's own parameters",
    "POLY": "it needs a task id for each example",
    "SHADOW": "rounding errors are too large to compare subtune's training with PEFT's",
    "TRAINABLE_TOKENS": "PEFT saves no classifier for it; use LORA with `trainable_token_indices`",
    "XLORA": "it mixes adapters that have already been trained",
}
# Fields of a PEFT config that users cannot set. Some are common to several PEFT types, such as
# ``task_type``. Others depend on the model, load files, import code or need another training
# procedure. Names that end with `_config` or begin with `prompt_tuning_init` are rejected, too.
COMMON = {field.name for field in dataclasses.fields(peft.PeftConfig)}
RESERVED = {field.name for field in dataclasses.fields(peft.PromptLearningConfig)}
RESERVED -= {"modules_to_save", "num_virtual_tokens"}
RESERVED |= {"alora_invocation_tokens", "fan_in_fan_out", "layer_replication", "megatron_core"}
RESERVED |= {"tokenizer_kwargs", "tokenizer_name_or_path", "use_qalora"}
# Values of ``init_lora_weights`` that begin with these words are not supported, because the
# initialisation reads data, or because PEFT repeats it when it loads an adapter.
REFUSED_INITIALISATIONS = ("corda", "eva", "loftq", "lora_ga", "pissa_niter")


def peft_config(settings: PeftSettings, head: str) -> peft.PeftConfig:
    """Build a PEFT config, with the task type of the model's head."""
    config_class = _find_config_class(settings)
    initialisation = settings.fields.get("init_lora_weights")
    if isinstance(initialisation, str) and initialisation.startswith(REFUSED_INITIALISATIONS):
        raise SubtuneError(f"peft.init_lora_weights: {shorten(initialisation)!r} is not supported")
    reserved = RESERVED if settings.type else COMMON
    for name in settings.fields:
        if name in reserved or name.endswith("_config") or name.startswith("prompt_tuning_init"):
            raise SubtuneError(f"peft.{name}: this field cannot be set; remove it")
    if issubclass(config_class, peft.PromptLearningConfig):
        if head == QUESTION_ANSWERING:
            raise SubtuneError(
                f"peft.type: PEFT does not support question answering with {settings.title}"
            )
        if settings.virtual_tokens < 1:
            raise SubtuneError("peft.num_virtual_tokens: expected a number above 0")
    with convert_errors(f"peft: {settings.title}"), silence_transformers():
        config = config_class(task_type=TASK_TYPES.get(head), **settings.fields)
    if settings.model:
        config.peft_type = settings.model
    return config


def _find_config_class(settings: PeftSettings) -> type[peft.PeftConfig]:
    """Return the config class of a PEFT type, or of the user's tuner, which is made known to PEFT.

    Raises:
        SubtuneError: the type is not supported, or the tuner's code cannot be imported or has
            changed since the run was planned.
    """
    if settings.type:
        supported = sorted(TYPES.keys() - UNSUPPORTED_TYPES)
        if settings.type not in supported:
            reason = UNSUPPORTED_TYPES.get(settings.type.upper())
            message = f"{settings.type} is not supported, because {reason}"
            raise SubtuneError(
                f"peft.type: {message if reason else format_allowed(settings.type, supported)}"
            )
        return TYPES[settings.type]
    require_planned_code(settings.places, settings.code)
    with locate_errors("peft"):
        # The classes may be in one file, which is imported once.
        found: list[Any] = import_own_functions(settings.places)
        config_class, tuner = found
        _require_class(settings.config, config_class, peft.PeftConfig)
        _require_class(settings.model, tuner, BaseTuner)
        # The field names the classifier, which PEFT trains, too.
        if "modules_to_save" not in {field.name for field in dataclasses.fields(config_class)}:
            raise SubtuneError(f"{settings.config}: has no field `modules_to_save`; add it")
        if not hasattr(tuner, "prefix"):
            raise SubtuneError(f"{settings.model}: has no attribute `prefix`; add it")
    # Unlike `peft.utils.register_peft_method`, this works for names that PEFT does not list.
    name: Any = settings.model
    PEFT_TYPE_TO_CONFIG_MAPPING[name] = config_class
    PEFT_TYPE_TO_TUNER_MAPPING[name] = tuner
    PEFT_TYPE_TO_PREFIX_MAPPING[name] = tuner.prefix
    return config_class


def _require_class(place: str, found: Any, expected: type) -> None:
    if not (isinstance(found, type) and issubclass(found, expected)):
        raise SubtuneError(f"{place}: expected a subclass of {expected.__name__}")


def inject_peft(encoder: Encoder, settings: PeftSettings, seed: int) -> Encoder:
    """Inject PEFT's modules into an encoder, with random initial values from ``seed``."""
    module, names = make_peft_model(encoder, settings, seed)
    parameters = canonical_parameters(module, names)
    parameters = {name: value.contiguous() for name, value in parameters.items()}
    inside = replace(strip_values(module, names), injected=True)
    return replace(encoder, parameters=parameters, transformers=inside).to(encoder.device)


def make_peft_model(
    encoder: Encoder, settings: PeftSettings, seed: int
) -> tuple[peft.PeftModel, dict[str, str]]:
    """Build PEFT's model on the CPU from an encoder, and map canonical names to PEFT's names."""
    on_cpu = replace(encoder, config=copy.deepcopy(encoder.config)).to("cpu")
    names = {name: encoder.exported_name(name) for name in encoder.parameters}
    module = make_transformers_model(on_cpu, attn_implementation="eager")
    return _inject_modules(module, names, settings, encoder.head, seed)


def peft_shapes(
    config: PretrainedConfig, head: str, settings: PeftSettings, names: Mapping[str, str]
) -> dict[str, Shape]:
    """Map canonical parameter names to shapes, including the parameters that PEFT adds.

    Modules that PEFT copies and trains are left out. ``names`` maps canonical to transformers'
    names.
    """

    def inject(device: str) -> tuple[peft.PeftModel, dict[str, str]]:
        module = make_empty_model(copy.deepcopy(config), head)
        if device != "meta":
            module.to_empty(device=device)
            for value in (*module.parameters(), *module.buffers()):
                value.data.zero_()
        return _inject_modules(module, names, settings, head, seed=0)

    # A forward pass on ``meta`` does not show whether the model accepts virtual tokens.
    try:
        module, injected = inject("cpu" if settings.virtual_tokens else "meta")
        _try_forward_pass(module, settings)
    except RuntimeError:
        # Some initialisations read the model's values, which do not exist on ``meta``.
        module, injected = inject("cpu")
    return {name: tuple(p.shape) for name, p in canonical_parameters(module, injected).items()}


def _inject_modules(
    module: PreTrainedModel, names: Mapping[str, str], settings: PeftSettings, head: str, seed: int
) -> tuple[peft.PeftModel, dict[str, str]]:
    """Inject PEFT's modules into the transformers model, and map canonical names to its names."""
    config = peft_config(settings, head)
    device = next(module.parameters()).device
    modules_with_weights = {own.split(".")[-2] for own in names.values() if "." in own}
    canonical = {own: name for name, own in names.items()}
    for field in ("target_modules", "feedforward_modules"):
        patterns = getattr(config, field, None)
        if patterns and not isinstance(patterns, str) and any("*" in p for p in patterns):
            setattr(config, field, _find_modules(names, patterns))
    known = {id(value): canonical[own] for own, value in module.named_parameters()}
    # The whole head is always trained, so PEFT must save the head for every task type.
    heads = {own.partition(".")[0] for own, name in canonical.items() if is_classifier(name)}
    config.modules_to_save = sorted({*(config.modules_to_save or []), *heads})
    modules = [f".{name}" for name, _ in module.named_modules()]
    missing = [
        name for name in config.modules_to_save if not any(m.endswith(f".{name}") for m in modules)
    ]
    if missing:
        raise SubtuneError(
            f"peft.modules_to_save: the model has no module {join_names(missing)}; correct or "
            "remove it"
        )
    try:
        with torch.random.fork_rng(devices=[]), device, silence_transformers():
            torch.manual_seed(seed)
            peft_model = peft.get_peft_model(module, config, autocast_adapter_dtype=False)
    except Exception as error:
        if device.type == "meta" and isinstance(error, RuntimeError):
            raise
        needs_targets = "target_modules" in str(error)
        modules_hint = f"; the model's modules: {join_names(sorted(modules_with_weights))}"
        raise SubtuneError(
            f"peft: {settings.title}: {error_reason(error)}{modules_hint if needs_targets else ''}"
        ) from None
    return peft_model, _name_parameters(peft_model, known)


def _find_modules(names: Mapping[str, str], patterns: Iterable[str]) -> list[str] | None:
    """Find the modules whose canonical names match a pattern, by transformers' names.

    If no module matches, the result is None, so that PEFT's defaults for the model's family apply.
    """
    modules = {name.rpartition(".")[0]: own.rpartition(".")[0] for name, own in names.items()}
    return [own for name, own in modules.items() if matches_any(name, patterns)] or None


def _name_parameters(module: peft.PeftModel, known: dict[int, str]) -> dict[str, str]:
    """Map canonical parameter names to the names in PEFT's model. The classifier comes last.

    If PEFT trains a copy of a module, the original module is left out. ``known`` maps the Python
    ``id`` of each of the model's own parameters to its canonical name; the ids of copies are added.
    """
    unused = set()
    for wrapper in module.modules():
        if isinstance(wrapper, ModulesToSaveWrapper):
            # PEFT trains a copy of this module, and does not use the original.
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
    """Run a forward pass, and raise a `SubtuneError` if PEFT's code fails on this model.

    On the device ``meta``, PEFT checks the inputs, but the pass stops with a ``RuntimeError`` at
    the first operation that needs a value. This error is ignored.
    """
    device = next(module.parameters()).device
    ids = torch.ones(1, 4, dtype=torch.long, device=device)
    try:
        with device, torch.no_grad(), silence_transformers():
            module(input_ids=ids, attention_mask=torch.ones_like(ids))
    except Exception as error:
        if device.type == "meta" and isinstance(error, RuntimeError):
            return
        raise SubtuneError(f"peft: {settings.title}: {error_reason(error)}") from None
