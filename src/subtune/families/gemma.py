"""Gemma 2 and 3 (Gemma Team, 2024, 2025): Llama's layers, with norms before and after each part."""

from dataclasses import replace

from subtune.families import naming as roles
from subtune.families.llama import LLAMA

GEMMA = replace(
    LLAMA,
    model_types=("gemma2", "gemma3_text"),
    inside={
        **LLAMA.inside,
        "input_layernorm": roles.ATTENTION_INPUT_NORM,
        "post_attention_layernorm": roles.ATTENTION_NORM,
        "pre_feedforward_layernorm": roles.INTERMEDIATE_NORM,
        "post_feedforward_layernorm": roles.OUTPUT_NORM,
    },
)
