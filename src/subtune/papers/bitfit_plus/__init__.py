"""BitFit+: a replication of BitFit, and which of the biases and LayerNorm weights matter."""

from subtune.papers.bitfit_plus import claims
from subtune.papers.bitfit_plus.exhibits import EXHIBITS
from subtune.papers.paper import Paper, read_claims

PAPER = Paper(
    name="bitfit_plus",
    citation="BitFit+ (Weng et al.)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
)
