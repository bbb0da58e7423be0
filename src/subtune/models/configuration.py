"""A model's configuration: its fields, and the settings that subtune refuses."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, one_line
from subtune.families import FAMILIES, first_position
from subtune.families.base import Family

CONFIG = "config.json"
# The id of padding in RoBERTa and families like it, if a configuration does not say.
PADDING = 1
# The number of positions of a model that does not say how many it has.
MANY = 1 << 20
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
