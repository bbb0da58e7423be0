"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""

from subtune.papers.layernorm import claims
from subtune.papers.layernorm.exhibits import EXHIBITS
from subtune.papers.paper import Paper, read_claims

PAPER = Paper(
    name="layernorm",
    citation="LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
    printed_data={"layernorm_information": "figure3", "component_shares": "table1"},
)
