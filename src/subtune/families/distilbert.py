"""DistilBERT (Sanh et al., 2019)."""

from subtune.families import naming as roles
from subtune.families.naming import Naming

DISTILBERT = Naming(
    model_types=("distilbert",),
    layers="transformer.layer.",
    inside={
        "attention.q_lin": roles.QUERY,
        "attention.k_lin": roles.KEY,
        "attention.v_lin": roles.VALUE,
        "attention.out_lin": roles.ATTENTION_OUTPUT,
        "sa_layer_norm": roles.ATTENTION_NORM,
        "ffn.lin1": roles.INTERMEDIATE,
        "ffn.lin2": roles.OUTPUT,
        "output_layer_norm": roles.OUTPUT_NORM,
    },
    key_bias_cancels=True,
)
