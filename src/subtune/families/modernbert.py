"""ModernBERT (Warner et al., 2024): norms before each part, no biases, fused matrices."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

MODERNBERT = Naming(
    model_types=("modernbert",),
    layers="layers.",
    inside={
        "attn_norm": roles.ATTENTION_NORM,
        "attn.Wqkv": roles.QUERY_KEY_VALUE,
        "attn.Wo": roles.ATTENTION_OUTPUT,
        "mlp_norm": roles.OUTPUT_NORM,
        "mlp.Wi": roles.GATE_AND_INTERMEDIATE,
        "mlp.Wo": roles.OUTPUT,
    },
    outside={
        "embeddings.tok_embeddings": roles.WORDS,
        "embeddings.norm": roles.EMBEDDINGS_NORM,
        "final_norm": roles.FINAL_NORM,
    },
    # Pretraining predicts words through this head.
    pretrained_head=("head",),
)
