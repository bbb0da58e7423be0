"""Llama (Touvron et al., 2023) and its likes: norms before each part, and a gate."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

LLAMA = Naming(
    model_types=("llama", "mistral", "qwen2", "qwen3", "gemma", "smollm3"),
    layers="layers.",
    inside={
        "self_attn.q_proj": roles.QUERY,
        "self_attn.k_proj": roles.KEY,
        "self_attn.v_proj": roles.VALUE,
        "self_attn.q_norm": roles.QUERY_NORM,
        "self_attn.k_norm": roles.KEY_NORM,
        "self_attn.o_proj": roles.ATTENTION_OUTPUT,
        "input_layernorm": roles.ATTENTION_NORM,
        "mlp.gate_proj": roles.GATE,
        "mlp.up_proj": roles.INTERMEDIATE,
        "mlp.down_proj": roles.OUTPUT,
        "post_attention_layernorm": roles.OUTPUT_NORM,
    },
    outside={"embed_tokens": roles.WORDS, "norm": roles.FINAL_NORM},
)
