"""A model's configuration: its fields, and the settings that subtune refuses."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from subtune.core.errors import SubtuneError, one_line
from subtune.families import FAMILIES, first_position, naming_of
from subtune.families.base import MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION, Family

CONFIG = "config.json"
# The id of padding in RoBERTa and families like it, if a configuration does not say.
PADDING = 1
# The number of positions of a model that does not say how many it has.
MANY = 1 << 20
# The files in which sentence-transformers lists a model's parts, and describes one.
MODULES, PART, POOLING = "modules.json", "config.json", "*_Pooling/config.json"
# The tokens of a text that a sequence classifier reads: the first, or the mean of all.
Pooling = Literal["first", "mean"]
# Names that configurations have for the number of positions.
POSITIONS = ("max_position_embeddings", "n_positions")


def read_config(directory: Path) -> dict[str, Any]:
    """Return the fields of a model's configuration.

    Raises:
        SubtuneError: there is no configuration, or it describes a model that cannot be trained.
    """
    path = directory / CONFIG
    if not path.is_file():
        raise SubtuneError(f"found no {CONFIG} in {str(directory)!r}")
    with one_line(f"{path} is not a model's configuration"):
        fields = json.loads(path.read_text())
        model_type = fields.get("model_type")
        method = (fields.get("quantization_config") or {}).get("quant_method")
    if not isinstance(model_type, str):
        raise _error(path, "model_type", model_type, "a model's name")
    if model_type in FAMILIES:
        _require_computed(path, fields, FAMILIES[model_type])
    elif first_position(model_type, 0):
        _require_number(path, "pad_token_id", fields.get("pad_token_id", PADDING))
    if fields.get("quantization_config"):
        raise _error(path, "quantization_config", method, "weights that are not quantized")
    return fields


def own_pooling(read: Callable[[str], str | None]) -> Pooling | None:
    """Return "mean" if a model's files say that sentence-transformers trained it so.

    Args:
        read: returns the text of one of the model's files, or None if there is no such file.

    Raises:
        SubtuneError: a file is not what sentence-transformers writes.
    """
    with one_line(f"{MODULES} or the {PART} of a part that it lists cannot be read"):
        for part in json.loads(read(MODULES) or "[]"):
            if part["type"].endswith(".Pooling"):
                fields = json.loads(read(f"{Path(part['path']).name}/{PART}") or "{}")
                modes = [name for name, value in fields.items() if "_mode_" in name and value]
                # Since version 6 one field names the mode.
                if modes == ["pooling_mode_mean_tokens"] or fields.get("pooling_mode") == "mean":
                    return "mean"
    return None


def pooling_in(directory: Path) -> Pooling | None:
    """Return the pooling of a model in a local directory, as `own_pooling` does."""

    def read(name: str) -> str | None:
        path = directory / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return own_pooling(read)


def head_by(pooling: Pooling | None, head: str, config: Mapping[str, Any]) -> str:
    """Return the head of a task for a model with a pooling.

    Without a pooling transformers' class decides what the head reads.

    Args:
        head: of the task's kind.
        config: the fields of the model's configuration.
    """
    if pooling != "mean" or head != SEQUENCE_CLASSIFICATION:
        return head
    return head if naming_of(config["model_type"]).pooling_field else MEAN_CLASSIFICATION


def sequence_head(directory: Path) -> str:
    """Return the head of a text's classifier for a local model with its own pooling."""
    return head_by(pooling_in(directory), SEQUENCE_CLASSIFICATION, read_config(directory))


def longest_text(config: Mapping[str, Any]) -> int:
    """Return how many tokens the longest text may have, special tokens included.

    ``config`` has the fields of a model's configuration.
    """
    model_type = config["model_type"]
    fields = {**FAMILIES[model_type].defaults, **config} if model_type in FAMILIES else config
    positions = next((fields[name] for name in POSITIONS if fields.get(name)), MANY)
    return positions - first_position(model_type, fields.get("pad_token_id", PADDING))


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Return whether a model tells the two texts of a pair apart, by its configuration's fields."""
    return config.get("type_vocab_size", 1) > 1


def _require_computed(path: Path, fields: Mapping[str, Any], family: Family) -> None:
    """Refuse settings that our own forward pass would ignore, and sizes that are no sizes."""
    for name, values in family.computed.items():
        if fields.get(name) is not None and fields[name] not in values:
            expected = " or ".join(map(json.dumps, values)) or "nothing"
            raise _error(path, name, fields[name], expected)
    for name, default in family.defaults.items():
        _require_number(path, name, fields.get(name, default))
    dimensions = family.dimensions(fields)
    if dimensions.hidden_size % dimensions.num_attention_heads:
        expected = f"a multiple of num_attention_heads, {dimensions.num_attention_heads}"
        raise _error(path, "hidden_size", dimensions.hidden_size, expected)


def _require_number(path: Path, name: str, value: object) -> None:
    lowest = 0 if name.endswith("_id") else 1
    if type(value) is not int or value < lowest:
        raise _error(path, name, value, f"a whole number from {lowest}")


def _error(path: Path, field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{path}: {field}: found {json.dumps(value)}, expected {expected}")
