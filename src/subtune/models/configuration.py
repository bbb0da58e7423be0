"""What a model's configuration may say, so that what it describes is what is computed."""

import json
from collections.abc import Mapping
from typing import Any

from subtune.errors import SubtuneError
from subtune.models.families.base import Family

# What a configuration says beside sizes: shares, and numbers near 0.
BELOW_1 = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "layer_norm_eps",
    "initializer_range",
)


def check(fields: Mapping[str, Any], family: Family) -> None:
    """Refuse what the forward pass would silently leave out, or fail on.

    Raises:
        SubtuneError: a field has a value whose computation is not here, or that is no size or no
            probability.
    """
    for name, values in family.computed.items():
        value = fields.get(name)
        if value is not None and value not in values:
            raise _error(name, value, " or ".join(map(json.dumps, values)) or "nothing")
    for name, default in family.defaults.items():
        value = fields.get(name, default)
        lowest = 0 if name.endswith("_id") else 1
        if type(value) is not int or value < lowest:
            raise _error(name, value, f"a whole number from {lowest}")
    for name in BELOW_1:
        value = fields.get(name) or 0
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise _error(name, value, "a number from 0, below 1")
    dimensions = family.dimensions(fields)
    heads = dimensions.num_attention_heads
    if dimensions.hidden_size % heads:
        expected = f"a multiple of num_attention_heads, {heads}"
        raise _error("hidden_size", dimensions.hidden_size, expected)


def _error(field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{field}: found {json.dumps(value)}, expected {expected}")
