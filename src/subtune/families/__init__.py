"""Families of models. No module outside this package names a family.

subtune has its own forward pass for packed families. For all others it runs transformers' code, and
a `Naming` gives each parameter its role.
"""

from subtune.core import resources
from subtune.core.errors import SubtuneError, one_of
from subtune.families.base import Family
from subtune.families.bert import BERT
from subtune.families.naming import UNKNOWN, Naming
from subtune.families.roberta import ROBERTA, XLM_ROBERTA

FAMILIES = {family.model_type: family for family in (BERT, ROBERTA, XLM_ROBERTA)}
NAMINGS = {
    model_type: Naming(**fields)
    for fields in resources.read_yaml("subtune.families", "namings.yaml")
    for model_type in fields["model_types"]
}
# The papers' methods and figures use BERT's parameter names.
CANONICAL = BERT


def family_of(model_type: object) -> Family:
    """Return the packed family that a ``config.json`` names in ``model_type``.

    Raises:
        SubtuneError: no packed family has this name.
    """
    if model_type not in FAMILIES:
        raise SubtuneError(f"model_type: {one_of(model_type, FAMILIES)}")
    return FAMILIES[str(model_type)]


def is_packed(model_type: object) -> bool:
    """Return whether subtune has its own forward pass for models of a type."""
    return model_type in FAMILIES


def naming_of(model_type: str) -> Naming:
    """Return the roles of the parameters of models of a type; unknown types have no roles."""
    return NAMINGS.get(model_type, UNKNOWN)
