"""DeBERTa (He et al., 2021), all versions. Attention scores know relative positions."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

DEBERTA = Naming(
    model_types=("deberta", "deberta-v2"),
    layers="encoder.layer.",
    inside={
        # Versions 2 and 3.
        "attention.self.query_proj": roles.QUERY,
        "attention.self.key_proj": roles.KEY,
        "attention.self.value_proj": roles.VALUE,
        # Version 1, whose key has no bias.
        "attention.self.in_proj": roles.QUERY_KEY_VALUE,
        "attention.self.q_bias": f"{roles.QUERY}.bias",
        "attention.self.v_bias": f"{roles.VALUE}.bias",
    },
    outside={
        "encoder.rel_embeddings": roles.RELATIVE_POSITIONS,
        # This norm reads the relative positions only.
        "encoder.LayerNorm": f"{roles.RELATIVE_POSITIONS}.LayerNorm",
    },
)
