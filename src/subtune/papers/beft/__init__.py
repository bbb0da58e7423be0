"""BEFT: Bias-Efficient Fine-Tuning of Language Models in Low-Data Regimes."""

from subtune.papers.beft import claims
from subtune.papers.beft.exhibits import EXHIBITS
from subtune.papers.paper import Paper, read_claims

PAPER = Paper(
    name="beft",
    citation="BEFT (Huang et al., 2026)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
)
