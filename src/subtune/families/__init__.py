"""Families of models. No module outside this package names a family.

subtune has its own forward pass for packed families. For all others it runs transformers' code, and
a `Naming` gives each parameter its role.
"""

from subtune.core.layout import read_yaml
from subtune.families.base import BERT, ROBERTA, XLM_ROBERTA, Naming

# Packed families by the model types for which subtune has its own forward pass.
FAMILIES = {family.model_type: family for family in (BERT, ROBERTA, XLM_ROBERTA)}
NAMINGS = {
    model_type: Naming(**fields)
    for fields in read_yaml("subtune.families", "namings.yaml")
    for model_type in fields["model_types"]
}


def naming_of(model_type: str) -> Naming:
    """Return the roles of parameters in models of a type; unknown types have no roles."""
    return NAMINGS.get(model_type, Naming())


def first_position(model_type: str, padding: int) -> int:
    """Return the row of the position table that the first token reads.

    ``padding`` is the padding token's id.
    """
    return padding + 1 if naming_of(model_type).positions_behind_padding else 0
