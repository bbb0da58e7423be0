"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""

from subtune.papers.base import Claim, Figure, Needs, Paper, Table
from subtune.papers.common import dev_scores, metrics, test_scores

COMPONENT = "output.LayerNorm"

EXHIBITS = (
    Figure(
        "figure1",
        "Change of each component in full fine-tuning",
        "Mean absolute change (LayerNorm paper, Eq. 1) of every component in every layer after "
        "full fine-tuning, one panel per task, on one logarithmic scale. Layers count from 0.",
        make="subtune.figures.changes:component_changes",
        reads={"changes": "changes"},
        facts=("task_titles",),
    ),
    Table(
        "table1",
        "Components by Fisher information",
        "Components by Fisher information before fine-tuning: averaged within each component, "
        "divided by the task's sum, added over tasks. Beside it the paper's rank.",
        make="subtune.tables.components:component_ranking",
        reads={"shares": "component_shares"},
        printed="table1",
    ),
    dev_scores("table2", "Dev scores", ["table2"]),
    test_scores("table3", ["table3"]),
    Table(
        "kruskal_wallis",
        "BitFit against LayerNorm",
        "P-values of the Kruskal–Wallis test between the scores of BitFit and of LayerNorm: of "
        "these runs, of the paper's printed tables, and as the paper reports them.",
        make="subtune.tables.significance:kruskal_wallis",
        reads={"dev": "chosen"},
        reads_if_there={"test": "test_scores"},
        facts=("paper",),
        printed="kruskal_wallis",
        options={
            "methods": ["bitfit", "layernorm"],
            "exhibits": {"table2 (validation)": ["table2"], "table3 (test)": ["table3"]},
        },
    ),
    Figure(
        "figure2",
        "Dev score by trained fraction, masks of the task itself",
        "Dev score against the trained fraction of LayerNorm, each task with its own mask. At 100 "
        "% all of LayerNorm trains.",
        make="subtune.figures.fractions:score_by_fraction",
        reads={"chosen": "chosen"},
        facts=("column_titles",),
        options={"scopes": ["individual"], "references": []},
        needs=Needs(fractions=True),
    ),
    Figure(
        "figure3",
        "Fisher information of LayerNorm, by layer and task",
        "Share of the task's LayerNorm Fisher information before fine-tuning, by layer, weights "
        "beside biases. Below it the paper's numbers for BERT-large-cased, whose scale it does not "
        "state: they are no shares, nor parts of a largest value. Hatched are six cells that "
        "cannot be read; what is computed of the paper's numbers leaves their layers out.",
        make="subtune.figures.information:information_by_task",
        reads={"shares": "layernorm_information"},
        facts=("task_titles",),
        printed="figure3",
    ),
    Figure(
        "figure4",
        "Global Fisher information of LayerNorm",
        "Each layer's share of a task's LayerNorm Fisher information, within weights and within "
        "biases, added over tasks: every column adds up to the number of tasks. Beside it the "
        "paper's numbers, which are its Figure 3 taken in this way. (Global masks are made as "
        "section 3.4 says, of weights and biases together.) Colours are multiples of an even "
        "share, on one scale.",
        make="subtune.figures.information:global_information",
        reads={"shares": "global_layernorm_information"},
        printed="figure4",
    ),
    Figure(
        "figure5",
        "Dev score by trained fraction, three kinds of mask",
        "Dev score against the trained fraction of LayerNorm, for masks from the task itself "
        "(individual), from all tasks (global) and from all other tasks (cross-validated). Beside "
        "the paper's three curves lines of all of LayerNorm and of full fine-tuning. Bands are one "
        "standard deviation over seeds, where there are several.",
        make="subtune.figures.fractions:score_by_fraction",
        reads={"chosen": "chosen"},
        facts=("column_titles",),
        options={
            "scopes": ["individual", "global", "cv"],
            "references": ["layernorm", "full"],
        },
        needs=Needs(fractions=True),
    ),
    metrics("table4"),
)

CLAIMS = (
    Claim(
        "Full fine-tuning changes the output LayerNorm more than any other component",
        "2.2, Figure 1",
        "its mean absolute change ÷ the largest other component's",
        "more",
        measure="ratio",
        reads="changes",
        units="subtune.analysis.statistics:change_to_largest_other",
        of=(COMPONENT,),
    ),
    Claim(
        "The output LayerNorm has more Fisher information than any other component",
        "2.4, Table 1",
        "its share of a task's information ÷ the largest other component's",
        "more",
        measure="ratio",
        reads="component_shares",
        units="subtune.analysis.statistics:share_to_largest_other",
        of=(COMPONENT,),
    ),
    Claim(
        "Training only LayerNorm scores as training only biases does",
        "3.1, Tables 2 and 3",
        "LayerNorm − BitFit; p of the Kruskal–Wallis test",
        "same",
        of=("layernorm", "bitfit"),
        groups=("bitfit", "layernorm"),
    ),
    Claim(
        "LayerNorm scores better than as many random parameters",
        "3.1, Table 2",
        "LayerNorm − Random",
        "more",
        of=("layernorm", "random"),
    ),
    Claim(
        "A small part of LayerNorm scores as all of it does",
        "3.2, Figure 2",
        "top 10 % (or the nearest share that was run) − all of LayerNorm",
        "no less",
        units="subtune.analysis.statistics:fraction_minus_whole",
        # The smallest share that still does as well (section 6).
        of=("layernorm", "individual", 0.1),
    ),
    Claim(
        "LayerNorm's biases carry more information than its weights",
        "3.3, Figure 3",
        "the biases' share of LayerNorm's information − the weights'",
        "more",
        measure="share",
        reads="layernorm_information",
        units="subtune.analysis.statistics:bias_minus_weight",
    ),
    Claim(
        "LayerNorms of later layers carry more information",
        "3.3, Figures 3 and 4",
        "rank correlation of a layer's number and its information",
        "more",
        measure="rank correlation",
        reads="layernorm_information",
        units="subtune.analysis.statistics:rank_of_layers",
    ),
    Claim(
        "A global mask scores as the task's own does",
        "3.4, Figure 5",
        "global − individual, mean over fractions",
        "same",
        units="subtune.analysis.statistics:scope_minus",
        of=("global", "individual"),
    ),
    Claim(
        "A mask from the other tasks scores as the task's own does",
        "3.5, Figure 5",
        "cross-validated − individual, mean over fractions",
        "same",
        units="subtune.analysis.statistics:scope_minus",
        of=("cv", "individual"),
    ),
)

PAPER = Paper(
    name="layernorm",
    citation="LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    printed_shares={"layernorm_information": "figure3"},
)
