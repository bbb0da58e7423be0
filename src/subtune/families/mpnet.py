"""MPNet (Song et al., 2020)."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

MPNET = Naming(
    model_types=("mpnet",),
    layers="encoder.layer.",
    inside={
        "attention.attn.q": roles.QUERY,
        "attention.attn.k": roles.KEY,
        "attention.attn.v": roles.VALUE,
        "attention.attn.o": roles.ATTENTION_OUTPUT,
        "attention.LayerNorm": roles.ATTENTION_NORM,
    },
    outside={"encoder.relative_attention_bias": roles.RELATIVE_POSITIONS},
    key_bias_cancels=True,
    positions_behind_padding=True,
)
