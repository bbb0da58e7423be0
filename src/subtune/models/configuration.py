"""A model's configuration: its fields, and the settings that subtune refuses."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError
from subtune.families import family_of, is_packed, naming_of
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
    try:
        fields = json.loads((directory / CONFIG).read_text())
        model_type = fields.get("model_type")
        if not isinstance(model_type, str):
            raise SubtuneError(f"model_type: found {model_type!r}, expected a model's name")
        if is_packed(model_type):
            _require_computed(fields, family_of(model_type))
        if method := fields.get("quantization_config"):
            if isinstance(method, dict):
                method = method.get("quant_method", method)
            raise _error("quantization_config", method, "weights that are not quantized")
        if naming_of(model_type).positions_behind_padding:
            _require_padding(fields)
    except OSError:
        raise SubtuneError(f"found no {CONFIG} in {str(directory)!r}") from None
    except (ValueError, AttributeError, RecursionError):
        raise SubtuneError(f"{directory / CONFIG} is not a model's configuration") from None
    except SubtuneError as error:
        raise SubtuneError(f"{directory / CONFIG}: {error}") from None
    return fields


def longest_text(config: Mapping[str, Any]) -> int:
    """Return how many tokens the longest text may have, special tokens included.

    Args:
        config: the fields of a model's configuration.
    """
    model_type = config["model_type"]
    if is_packed(model_type):
        family = family_of(model_type)
        fields = {**family.defaults, **config}
        return fields["max_position_embeddings"] - family.first_position(fields["pad_token_id"])
    positions = next((config[name] for name in POSITIONS if config.get(name)), MANY)
    behind = naming_of(model_type).positions_behind_padding
    return positions - (config.get("pad_token_id", PADDING) + 1 if behind else 0)


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Return whether a model tells the two texts of a pair apart.

    Args:
        config: the fields of a model's configuration.
    """
    return config.get("type_vocab_size", 1) > 1


def _require_padding(fields: Mapping[str, Any]) -> None:
    """Refuse a model that needs an id of padding, and has none among its words."""
    value, words = fields.get("pad_token_id", PADDING), fields.get("vocab_size")
    if type(value) is not int or value < 0 or (words is not None and value >= words):
        raise _error("pad_token_id", value, "a token's number, behind which positions begin")


def _require_computed(fields: Mapping[str, Any], family: Family) -> None:
    """Refuse settings that our own forward pass would ignore, and sizes that are no sizes."""
    for name, values in family.computed.items():
        value = fields.get(name)
        if value is not None and value not in values:
            raise _error(name, value, " or ".join(map(json.dumps, values)) or "nothing")
    for name, default in family.defaults.items():
        value = fields.get(name, default)
        lowest = 0 if name.endswith("_id") else 1
        if type(value) is not int or value < lowest:
            raise _error(name, value, f"a whole number from {lowest}")
    dimensions = family.dimensions(fields)
    heads = dimensions.num_attention_heads
    if dimensions.hidden_size % heads:
        expected = f"a multiple of num_attention_heads, {heads}"
        raise _error("hidden_size", dimensions.hidden_size, expected)


def _error(field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{field}: found {json.dumps(value)}, expected {expected}")
