"""Tables and figures of the LayerNorm paper."""

from subtune.exhibits.figures import draw_scores_by_fraction
from subtune.exhibits.heat_maps import (
    draw_component_changes,
    draw_global_information,
    draw_information,
)
from subtune.exhibits.tables import component_table, kruskal_wallis_table
from subtune.papers.layernorm import claims
from subtune.papers.paper import Figure, Needs, Paper, Table, read_claims
from subtune.papers.shared import SEVERAL_SEEDS, dev_scores, metrics_of_tasks, test_scores

EXHIBITS = (
    Figure(
        "figure1",
        "Change of each component in full fine-tuning",
        "Mean absolute change (LayerNorm paper, Eq. 1) of every component in every layer after "
        "full fine-tuning, one panel per task, on one logarithmic scale. Layers count from 0.",
        make=draw_component_changes,
        needs=Needs(methods=("full",)),
    ),
    Table(
        "table1",
        "Components by Fisher information",
        "Components by Fisher information before fine-tuning: averaged within each component, "
        "divided by the task's sum, summed over tasks. The paper's rank is shown beside it.",
        make=lambda results: component_table(results, "table1"),
        needs=Needs(tables=("component_shares",)),
    ),
    dev_scores("table2", "Dev scores", ["table2"]),
    test_scores("table3", ["table3"]),
    Table(
        "kruskal_wallis",
        "BitFit against LayerNorm",
        "P-values of the Kruskal–Wallis test between the scores of BitFit and of LayerNorm, "
        "computed from these runs and from the paper's tables, and as the paper reports them.",
        make=lambda results: kruskal_wallis_table(results, ["bitfit", "layernorm"]),
    ),
    Figure(
        "figure2",
        "Dev score by trained fraction, masks of the task itself",
        "Dev score against the trained fraction of LayerNorm, with each task's own mask. At 100 "
        "%, all of LayerNorm trains.",
        make=lambda results: draw_scores_by_fraction(results, ["individual"]),
        needs=Needs(fractions=True),
    ),
    Figure(
        "figure3",
        "Fisher information of LayerNorm, by layer and task",
        "Share of the task's LayerNorm Fisher information before fine-tuning, by layer, weights "
        "beside biases. Below are the paper's numbers for BERT-large-cased. The paper does not "
        "state their scale; they are neither shares nor relative to the largest value. The six "
        "hatched cells cannot be read. Statistics of the paper's numbers omit layers with hatched "
        "cells.",
        make=draw_information,
        needs=Needs(tables=("layernorm_information",)),
    ),
    Figure(
        "figure4",
        "Global Fisher information of LayerNorm",
        "Each layer's share of a task's LayerNorm Fisher information, separately for weights and "
        "biases, summed over tasks: every column sums to the number of tasks. The paper's numbers, "
        "beside ours, follow from its Figure 3 in the same way. (Global masks use weights "
        "and biases together, as section 3.4 says.) Colours are multiples of an even share, on "
        "one scale.",
        make=draw_global_information,
        needs=Needs(tables=("global_layernorm_information",)),
    ),
    Figure(
        "figure5",
        "Dev score by trained fraction, three kinds of mask",
        "Dev score against the trained fraction of LayerNorm, for masks from the task itself "
        "(individual), from all tasks (global) and from all other tasks (cross-validated). In "
        "addition to the paper's three curves, lines show all of LayerNorm and full fine-tuning. "
        f"Bands are {SEVERAL_SEEDS}.",
        make=lambda results: draw_scores_by_fraction(
            results, ["individual", "global", "cv"], references=["layernorm", "full"]
        ),
        needs=Needs(fractions=True),
    ),
    metrics_of_tasks("table4"),
)
PAPER = Paper(
    name="layernorm",
    citation="LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, vars(claims)),
    printed_data={"layernorm_information": "figure3", "component_shares": "table1"},
)
