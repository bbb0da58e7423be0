"""BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models."""

from subtune.papers.bitfit import claims
from subtune.papers.bitfit.exhibits import EXHIBITS, PART_OF_SPEECH, SQUAD
from subtune.papers.paper import Paper, read_claims

PAPER = Paper(
    name="bitfit",
    citation="BitFit (Ben-Zaken et al., 2021)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
    printed_data={"train_rows": "train_rows"},
    printed_learning_rates={"bitfit": "table6"},
    scored_on_training_rows=("full", "bitfit"),
    tasks_apart=(*PART_OF_SPEECH, *SQUAD),
)
