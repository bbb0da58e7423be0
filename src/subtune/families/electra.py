"""ELECTRA (Clark et al., 2020): BERT's names, and a projection of narrow embeddings."""

from subtune.families.naming import LAYERS, Naming

ELECTRA = Naming(model_types=("electra",), layers=LAYERS, inside={}, key_bias_cancels=True)
