"""SPAFIT: layers in three strata: frozen, with their biases, and with LoRA beside biases."""

from subtune.papers.paper import Paper, read_claims
from subtune.papers.spafit import claims
from subtune.papers.spafit.exhibits import EXHIBITS

PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
)
