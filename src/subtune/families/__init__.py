"""Families of models. No module outside this package names a family.

subtune has its own forward pass for some families, which are called packed: batches have no
padding. For all others it runs transformers' code, and a `Naming` gives each parameter its role.
"""

from subtune.core.files import read_package_yaml
from subtune.families.base import BERT, ROBERTA, XLM_ROBERTA, Naming

# Families that subtune computes without padding, by the ``model_type`` in ``config.json``.
FAMILIES = {family.model_type: family for family in (BERT, ROBERTA, XLM_ROBERTA)}
NAMINGS = {
    model_type: Naming(**fields)
    for fields in read_package_yaml("subtune.families", "namings.yaml")
    for model_type in fields["model_types"]
}


def naming_of(model_type: str) -> Naming:
    """Return the roles of parameters in models of a type. Models of an unknown type have none."""
    return NAMINGS.get(model_type, Naming())


def first_position(model_type: str, padding: int) -> int:
    """Return the row of the table of positions that a text's first token reads.

    ``padding`` is the id of the padding token.
    """
    return padding + 1 if naming_of(model_type).positions_behind_padding else 0
