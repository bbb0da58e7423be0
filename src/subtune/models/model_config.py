"""The configuration of a model: ``config.json``, and the files of sentence-transformers."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from subtune.core.errors import SubtuneError, convert_errors, locate_errors
from subtune.methods.roles import (
    NAMINGS,
    ROLES_KEY,
    check_roles,
    family_naming,
    first_position,
)
from subtune.models.families import FAMILIES, MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION

# The configuration files of transformers and PEFT, and the spec of an exported run.
CONFIG, ADAPTER, SPEC = "config.json", "adapter_config.json", "subtune.json"
# Patterns of the subfolders that are searched for models.
SUBFOLDER_PATTERNS = ("*", "*/*", "*/*/*")
# The default padding id of RoBERTa and similar models.
PADDING = 1
# The number of positions if a model's configuration does not limit it.
UNLIMITED_POSITIONS = 1 << 20
# Files of sentence-transformers: the list of a model's modules, the configuration of one module,
# and a pattern for the configuration of the pooling module.
MODULES, MODULE_CONFIG, POOLING = "modules.json", "config.json", "*_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"
# The suffix of the names of pooling modules.
POOLED = " pooling"
# The input of a sequence classifier: the first hidden state, or the mean of all hidden states.
Pooling = Literal["first", "mean"]
NO_POOLING = (
    "pooling: found {!r} for a decoder; remove this setting, because only the last token of a "
    "decoder attends to the whole text"
)
# If the name of a model type contains one of these strings, transformers does not draw the
# classifier from a normal distribution with standard deviation ``initializer_range``.
OWN_INITIALISATION = ("funnel", "modernbert", "modernvbert", "t5")
# The config field for the maximum number of positions has one of these names, depending on the
# model.
POSITIONS = ("max_position_embeddings", "n_positions")


def read_model_config(directory: Path) -> dict[str, Any]:
    """Read the fields of a model's ``config.json``, and check that subtune can train the model."""
    path = directory / CONFIG
    if not path.is_file():
        raise SubtuneError(_format_missing_config(directory))
    with convert_errors(f"{path} is not a model configuration"):
        fields = json.loads(path.read_text())
        model_type = fields.get("model_type")
        method = (fields.get("quantization_config") or {}).get("quant_method")
    if not isinstance(model_type, str):
        raise _config_error(path, "model_type", model_type, "the name of a model type")
    # Reject values that subtune's forward pass does not support.
    computed = FAMILIES[model_type].computed if model_type in FAMILIES else {}
    for name, values in computed.items():
        if fields.get(name) is not None and fields[name] not in values:
            expected = " or ".join(map(json.dumps, values)) or "nothing"
            raise _config_error(path, name, fields[name], expected)
    if ROLES_KEY in fields:
        with locate_errors(f"{path}: {ROLES_KEY}"):
            check_roles(model_type, fields[ROLES_KEY], {*NAMINGS, *FAMILIES})
    if fields.get("quantization_config"):
        raise _config_error(path, "quantization_config", method, "weights that are not quantized")
    return fields


def _format_missing_config(directory: Path) -> str:
    """Say what a folder without ``config.json`` contains, and which folder to use as the model."""
    if (directory / ADAPTER).is_file():
        base = _read_field(directory / ADAPTER, "base_model_name_or_path")
        return (
            f"{str(directory)!r} is a PEFT adapter, not a whole model; use its base model"
            f"{f' ({base})' if base else ''}, or a merged model written by `subtune export` "
            "(without --adapter) or with PEFT's `merge_and_unload`"
        )
    models = [
        path.parent
        for depth in SUBFOLDER_PATTERNS
        for path in directory.glob(f"{depth}/{CONFIG}")
        if _read_field(path, "model_type")
    ]
    advice = "use a folder written by transformers' `save_pretrained`"
    if (directory / "runs").is_dir():
        advice = "these are subtune's results; `subtune export RUN --to FOLDER` writes a model"
    elif models:
        newest = max(models, key=lambda model: (model / CONFIG).stat().st_mtime)
        others = f" (and {len(models) - 1:,} more)" if len(models) > 1 else ""
        advice = f"use a model folder inside it: {newest}{others}"
    return f"found no {CONFIG} in {str(directory)!r}; {advice}"


def _read_field(path: Path, name: str) -> str | None:
    """Read a field of a JSON file; None if the field is not a string or cannot be read."""
    with suppress(OSError, ValueError, AttributeError):
        value = json.loads(path.read_text(encoding="utf-8")).get(name)
        return value if isinstance(value, str) else None
    return None


def find_pooling(read: Callable[[str], str | None]) -> Pooling | None:
    """Find the pooling of a sentence-transformers model; None for another pooling or kind of model.

    ``read`` returns the text of one of the model's files, or None if the file does not exist.
    """
    poolings: dict[str, Pooling] = {"mean pooling": "mean", "cls pooling": "first"}
    found = [name for name in _list_modules(read) if name.endswith(POOLED)]
    return poolings.get(found[0]) if len(found) == 1 else None


def _list_modules(read: Callable[[str], str | None]) -> list[str]:
    """List a sentence-transformers model's modules: types, or modes such as ``mean pooling``."""
    modules = []
    with convert_errors(
        f"cannot read {MODULES}, or the {MODULE_CONFIG} of a module that {MODULES} lists"
    ):
        for part in json.loads(read(MODULES) or "[]"):
            name = part["type"].rpartition(".")[2]
            if name == "Pooling":
                fields = json.loads(read(f"{Path(part['path']).name}/{MODULE_CONFIG}") or "{}")
                # Since version 6, sentence-transformers stores the pooling mode in one field.
                modes = fields.get("pooling_mode") or [
                    name.removeprefix("pooling_mode_").removesuffix("s").removesuffix("_token")
                    for name, value in fields.items()
                    if name.startswith("pooling_mode_") and value
                ]
                modes = [modes] if isinstance(modes, str) else modes
                name = (" and ".join(modes) or "unknown") + POOLED
            modules.append(name)
    return modules


def list_parts_left_out(directory: Path, is_decoder: bool) -> list[str]:
    """List the parts of a local sentence-transformers model that subtune does not compute."""
    read = partial(_read_text_if_any, directory)
    # Normalisation and dropout have no parameters.
    computed = {"Transformer", "Normalize", "Dropout", f"mean{POOLED}"}
    computed.add(f"{'lasttoken' if is_decoder else 'cls'}{POOLED}")
    modules = _list_modules(read)
    others = [name for name in modules if name not in computed]
    parts = [name if name.endswith(POOLED) else f"the module {name}" for name in others]
    with convert_errors(f"cannot read {directory / PROMPTS}"):
        settings = json.loads((modules and read(PROMPTS)) or "{}")
        if settings.get("default_prompt_name"):
            parts.append(f"the prompt {settings['prompts'][settings['default_prompt_name']]!r}")
    return parts


def read_pooling(directory: Path) -> Pooling | None:
    """Find the pooling of a model in a local directory. See `find_pooling`."""
    return find_pooling(partial(_read_text_if_any, directory))


def _read_text_if_any(directory: Path, name: str) -> str | None:
    path = directory / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


def choose_head(pooling: Pooling | None, head: str, model_type: str) -> str:
    """Choose the head for a pooling, given the usual head for the kind of task."""
    if pooling != "mean" or head != SEQUENCE_CLASSIFICATION:
        return head
    return head if family_naming(model_type).pooling_field else MEAN_CLASSIFICATION


def has_own_initialisation(name: str) -> bool:
    """Return whether a model type or repository name contains a string in `OWN_INITIALISATION`."""
    return any(part in name.lower() for part in OWN_INITIALISATION)


def longest_text(config: Mapping[str, Any]) -> int:
    """Compute the largest number of tokens that a model can read, including special tokens."""
    model_type = config["model_type"]
    fields = {**FAMILIES[model_type].defaults, **config} if model_type in FAMILIES else config
    positions = next((fields[name] for name in POSITIONS if fields.get(name)), UNLIMITED_POSITIONS)
    return positions - first_position(model_type, fields.get("pad_token_id", PADDING))


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Return whether a model distinguishes token types, as BERT does for the texts of a pair."""
    return config.get("type_vocab_size", 1) > 1


def needs_single_eos_token(config: Mapping[str, Any], head: str) -> bool:
    """Return whether a text needs exactly one EOS token, which encoder-decoder classifiers read."""
    return config.get("is_encoder_decoder", False) and head == SEQUENCE_CLASSIFICATION


def _config_error(path: Path, field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{path}: {field}: found {json.dumps(value)}, expected {expected}")
