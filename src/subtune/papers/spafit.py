"""SPAFIT: layers in three strata, frozen, with their biases, and with LoRA beside biases."""

from subtune.papers.base import Claim, Paper, Table
from subtune.papers.common import dev_scores

EXHIBITS = (
    Table(
        "table1",
        "Methods and their parameters",
        "What each method trains beside the classifier, and how many parameters that is with it; "
        "beside it the paper's count.",
        make="subtune.tables.methods:methods_and_parameters",
        reads={"directories": "models"},
        facts=("paper", "models", "selections"),
        # As many as its largest task has.
        options={"labels": 3},
    ),
    dev_scores("table2", "Dev scores", ["table2"]),
)

CLAIMS = (
    Claim(
        "SPAFIT scores no less than LoRA",
        "5, Table 2",
        "mean of the SPAFIT methods − mean of the LoRA methods",
        "no less",
        units="subtune.analysis.statistics:family_minus",
        of=("SPAFIT-", "lora-"),
    ),
    Claim(
        "SPAFIT trains fewer parameters than LoRA",
        "5, Table 2",
        "the fewest of LoRA ÷ the most of SPAFIT",
        "more",
        measure="ratio",
        units="subtune.analysis.statistics:parameters_of_families",
        of=("lora-", "SPAFIT-"),
    ),
    Claim(
        "SPAFIT scores as full fine-tuning does",
        "5, Table 2",
        "mean of the SPAFIT methods − Full",
        "same",
        units="subtune.analysis.statistics:family_minus",
        of=("SPAFIT-", "full$"),
    ),
)

PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
    not_competing=("full",),
)
