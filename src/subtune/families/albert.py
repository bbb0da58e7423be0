"""ALBERT (Lan et al., 2020): all depths share one layer, which is layer 0 here."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

ALBERT = Naming(
    model_types=("albert",),
    layers="encoder.albert_layer_groups.0.albert_layers.",
    inside={
        "attention.query": roles.QUERY,
        "attention.key": roles.KEY,
        "attention.value": roles.VALUE,
        "attention.dense": roles.ATTENTION_OUTPUT,
        "attention.LayerNorm": roles.ATTENTION_NORM,
        "ffn": roles.INTERMEDIATE,
        "ffn_output": roles.OUTPUT,
        "full_layer_layer_norm": roles.OUTPUT_NORM,
    },
    key_bias_cancels=True,
)
