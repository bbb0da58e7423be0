"""GPT-2 (Radford et al., 2019): query, key and value are one matrix."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

GPT2 = Naming(
    model_types=("gpt2",),
    layers="h.",
    inside={
        "ln_1": roles.ATTENTION_NORM,
        "attn.c_attn": roles.QUERY_KEY_VALUE,
        "attn.c_proj": roles.ATTENTION_OUTPUT,
        "ln_2": roles.OUTPUT_NORM,
        "mlp.c_fc": roles.INTERMEDIATE,
        "mlp.c_proj": roles.OUTPUT,
    },
    outside={"wte": roles.WORDS, "wpe": roles.POSITIONS, "ln_f": roles.FINAL_NORM},
)
