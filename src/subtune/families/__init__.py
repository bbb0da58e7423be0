"""Families of models, one module each. No module outside this package names a family.

subtune has its own forward pass for packed families. For all others it runs transformers' code, and
a `Naming` gives each parameter its role.
"""

from dataclasses import replace

from subtune.core.errors import SubtuneError, one_of
from subtune.families.albert import ALBERT
from subtune.families.base import Family
from subtune.families.bert import BERT
from subtune.families.deberta import DEBERTA
from subtune.families.distilbert import DISTILBERT
from subtune.families.electra import ELECTRA
from subtune.families.gemma import GEMMA
from subtune.families.gpt2 import GPT2
from subtune.families.llama import LLAMA
from subtune.families.modernbert import MODERNBERT
from subtune.families.mpnet import MPNET
from subtune.families.naming import UNKNOWN, Naming
from subtune.families.roberta import ROBERTA, XLM_ROBERTA

FAMILIES = {family.model_type: family for family in (BERT, ROBERTA, XLM_ROBERTA)}
NAMINGS = {
    model_type: of_family
    for of_family in (
        ALBERT,
        DEBERTA,
        DISTILBERT,
        ELECTRA,
        GEMMA,
        GPT2,
        LLAMA,
        MODERNBERT,
        MPNET,
    )
    for model_type in of_family.model_types
}
# These have no known roles, but their positions begin behind the padding id, as RoBERTa's do.
LIKE_ROBERTA = replace(UNKNOWN, positions_behind_padding=True)
NAMINGS_OF_OTHERS = dict.fromkeys(
    (
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "roberta-prelayernorm",
        "xlm-roberta-xl",
        "xmod",
    ),
    LIKE_ROBERTA,
)
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
    return NAMINGS.get(model_type) or NAMINGS_OF_OTHERS.get(model_type, UNKNOWN)
