"""SPAFIT: layers in three strata: frozen, with their biases, and with LoRA beside biases."""

from subtune.papers.paper import Paper
from subtune.papers.spafit.claims import CLAIMS
from subtune.papers.spafit.exhibits import EXHIBITS

PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
)
