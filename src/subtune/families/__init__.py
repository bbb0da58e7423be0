"""Families of models, one module each; nothing outside names one.

Models of a packed family have a forward pass of their own here. Of all others transformers' own is
run, and a family says which of their parameters has which role.
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
# Of no role that is known here, but that positions begin behind the id of padding, as RoBERTa's.
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
# Its parameters' names are those that the papers' methods and figures are written in.
CANONICAL = BERT


def family_of(model_type: object) -> Family:
    """The packed family that a configuration's ``model_type`` names.

    Raises:
        SubtuneError: there is none of this name.
    """
    if model_type not in FAMILIES:
        raise SubtuneError(f"model_type: {one_of(model_type, FAMILIES)}")
    return FAMILIES[str(model_type)]


def is_packed(model_type: object) -> bool:
    """Whether models of a type have a forward pass of their own here."""
    return model_type in FAMILIES


def naming_of(model_type: str) -> Naming:
    """The roles of the parameters of transformers' models of a type; of unknown ones, none."""
    return NAMINGS.get(model_type) or NAMINGS_OF_OTHERS.get(model_type, UNKNOWN)
