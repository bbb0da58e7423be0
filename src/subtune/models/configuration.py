"""What a model's configuration may say, so that what it describes is what is computed."""

import json
from collections.abc import Mapping
from typing import Any

from subtune.core.errors import SubtuneError
from subtune.families.base import Family

# As transformers has it in RoBERTa and its like, where a configuration says nothing.
PADDING = 1
# Names of sizes, and the largest that is not a slip.
LARGEST = (
    dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 1000)
    | dict.fromkeys(("encoder_layers", "decoder_layers"), 1000)
    | dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), 100_000)
    | dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim"), 1_000_000)
    | dict.fromkeys(("vocab_size", "max_position_embeddings", "n_positions"), 1_000_000_000)
)
# What a configuration says beside sizes: shares, and numbers near 0.
BELOW_1 = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "layer_norm_eps",
    "initializer_range",
)


def check_sizes(fields: Mapping[str, Any]) -> None:
    """Refuse numbers that make no model, and weights that are not plain numbers.

    Raises:
        SubtuneError: a size is none, or the weights are quantized.
    """
    for name, largest in LARGEST.items():
        value = fields.get(name)
        # Some families have a list in the place of a number.
        if isinstance(value, str | bool | int | float) and not (
            type(value) is int and 1 <= value <= largest
        ):
            raise _error(name, value, f"a whole number from 1 to {largest:,}")
    if fields.get("quantization_config"):
        method = fields["quantization_config"]
        if isinstance(method, dict):
            method = method.get("quant_method", method)
        raise _error("quantization_config", method, "weights that are not quantized")


def require_padding(fields: Mapping[str, Any]) -> None:
    """Refuse a model whose positions begin behind the id of padding, and that has none.

    Raises:
        SubtuneError: the id is no row of the words.
    """
    value, words = fields.get("pad_token_id", PADDING), fields.get("vocab_size")
    if type(value) is not int or value < 0 or (words is not None and value >= words):
        raise _error("pad_token_id", value, "a token's number, behind which positions begin")


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
