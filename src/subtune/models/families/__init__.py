"""Families of encoders, one module each; nothing outside names one."""

from subtune.errors import SubtuneError, one_of
from subtune.models.families.base import Family
from subtune.models.families.bert import BERT
from subtune.models.families.roberta import ROBERTA

FAMILIES = {family.model_type: family for family in (BERT, ROBERTA)}
# Its parameters' names are those that the papers' methods and figures are written in.
CANONICAL = BERT


def family_of(model_type: object) -> Family:
    """The family that a configuration's ``model_type`` names.

    Raises:
        SubtuneError: there is none of this name.
    """
    if model_type not in FAMILIES:
        raise SubtuneError(f"model_type: {one_of(model_type, FAMILIES)}")
    return FAMILIES[str(model_type)]
