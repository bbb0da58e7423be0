"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""

from dataclasses import replace
from typing import Any

from subtune.papers.base import Claim, Figure, Needs, Paper, Table
from subtune.papers.common import STATISTICS, dev_scores, metrics, test_scores

COMPONENT = "output.LayerNorm"

EXHIBITS = (
    Figure(
        "figure1",
        "Change of each component in full fine-tuning",
        "Mean absolute change (LayerNorm paper, Eq. 1) of every component in every layer after "
        "full fine-tuning, one panel per task, on one logarithmic scale. Layers count from 0.",
        make="subtune.exhibits.figures.changes:component_changes",
        reads={"changes": "changes"},
        facts=("task_titles",),
    ),
    Table(
        "table1",
        "Components by Fisher information",
        "Components by Fisher information before fine-tuning: averaged within each component, "
        "divided by the task's sum, added over tasks. Beside it the paper's rank.",
        make="subtune.exhibits.tables.components:component_ranking",
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
        make="subtune.exhibits.tables.significance:kruskal_wallis",
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
        make="subtune.exhibits.figures.fractions:score_by_fraction",
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
        make="subtune.exhibits.figures.information:information_by_task",
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
        make="subtune.exhibits.figures.information:global_information",
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
        make="subtune.exhibits.figures.fractions:score_by_fraction",
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

# The smallest share of LayerNorm that still does as well (section 6).
SMALL_PART = 0.1
PART = "top 10 % of LayerNorm (or the nearest share that was run)"


def on_test(claim: Claim, **changed: Any) -> Claim:
    """The same claim, of the scores that the GLUE server returned."""
    return replace(claim, text=f"{claim.text}, on test sets", reads=("test_scores",), **changed)


AS_FULL = Claim(
    "Training only LayerNorm scores as full fine-tuning does",
    "Abstract, 3.1, Table 2",
    "LayerNorm − Full",
    "same",
    of=("layernorm", "full"),
)
BETTER_THAN_FULL = Claim(
    "Training only LayerNorm scores better than full fine-tuning on some tasks",
    "Abstract, Table 2",
    "LayerNorm − Full",
    "more",
    of=("layernorm", "full"),
    at_least=(1, 9),
    contradicted_by="Table 2: LayerNorm is below Full in all nine columns; nearest SST-2, 0.9312 "
    "and 0.9335",
)
AS_BITFIT = Claim(
    "Training only LayerNorm scores as training only biases does",
    "3.1, Table 2",
    "LayerNorm − BitFit; p of the Kruskal–Wallis test",
    "same",
    of=("layernorm", "bitfit"),
    groups=("bitfit", "layernorm"),
)
BETTER_THAN_BITFIT = Claim(
    "Training only LayerNorm scores better than training only biases on some tasks",
    "Abstract, Table 2",
    "LayerNorm − BitFit",
    "more",
    of=("layernorm", "bitfit"),
    at_least=(1, 9),
)
BETTER_THAN_RANDOM = Claim(
    "LayerNorm scores better than as many random parameters",
    "3.1, Table 2",
    "LayerNorm − Random",
    "more",
    of=("layernorm", "random"),
)

CLAIMS = (
    Claim(
        "Full fine-tuning changes the output LayerNorm more than any other component, on most "
        "tasks",
        "Abstract, 2.2, Figure 1",
        "its mean absolute change ÷ the largest other component's",
        "more",
        measure="ratio",
        reads=("changes",),
        units=f"{STATISTICS}:change_to_largest_other",
        of=(COMPONENT,),
        at_least=(5, 8),
        is_printed=False,
    ),
    Claim(
        "The output LayerNorm has more Fisher information than any other component",
        "2.4, Table 1",
        "its share of a task's information ÷ the largest other component's; its rank in the sum "
        "over tasks",
        "more",
        measure="ratio",
        reads=("component_shares",),
        units=f"{STATISTICS}:share_to_largest_other",
        of=(COMPONENT, ()),
        order=f"{STATISTICS}:ranks_first",
    ),
    Claim(
        "The LayerNorm of attention has the second most Fisher information",
        "2.4, Table 1",
        "its share of a task's information ÷ the largest of components other than it and the "
        "output LayerNorm; its rank in the sum over tasks",
        "more",
        measure="ratio",
        reads=("component_shares",),
        units=f"{STATISTICS}:share_to_largest_other",
        of=("attention.output.LayerNorm", (COMPONENT,)),
        order=f"{STATISTICS}:ranks_first",
    ),
    AS_FULL,
    on_test(AS_FULL, printed_in="Abstract, 3.1, Table 3"),
    BETTER_THAN_FULL,
    on_test(BETTER_THAN_FULL, printed_in="Abstract, Table 3", contradicted_by=""),
    AS_BITFIT,
    on_test(AS_BITFIT, printed_in="3.1, Table 3"),
    replace(
        AS_BITFIT,
        text=f"{AS_BITFIT.text}, on dev and test sets together",
        printed_in="3.1, Tables 2 and 3",
        reads=("chosen", "test_scores"),
        units=f"{STATISTICS}:minus_on_both",
    ),
    BETTER_THAN_BITFIT,
    on_test(BETTER_THAN_BITFIT, printed_in="Abstract, Table 3"),
    BETTER_THAN_RANDOM,
    on_test(BETTER_THAN_RANDOM, printed_in="3.1, Table 3"),
    Claim(
        "LayerNorm trains less than a fifth of BitFit's parameters",
        "1, 3.1",
        "a fifth of BitFit's parameters ÷ LayerNorm's, without the classifier's",
        "more",
        measure="ratio",
        units=f"{STATISTICS}:parameters_of_families",
        of=("bitfit$", "layernorm$", 1 / 5),
    ),
    Claim(
        "A small part of LayerNorm scores as all of it does",
        "Abstract, 3.2, 6, Figure 2",
        f"{PART} − all of LayerNorm",
        "no less",
        units=f"{STATISTICS}:fraction_minus_whole",
        of=("layernorm", "individual", SMALL_PART),
        is_printed=False,
    ),
    Claim(
        "On MRPC and RTE a small part of LayerNorm scores better than all of it",
        "3.2, Figure 2",
        f"{PART} − all of LayerNorm",
        "more",
        units=f"{STATISTICS}:fraction_minus_whole",
        of=("layernorm", "individual", SMALL_PART),
        tasks=("mrpc", "rte"),
        at_least=(2, 2),
        is_printed=False,
    ),
    Claim(
        "On QNLI, SST-2 and STS-B a small part of LayerNorm scores less than all of it",
        "3.2, Figure 2",
        f"all of LayerNorm − {PART}",
        "more",
        units=f"{STATISTICS}:whole_minus_fraction",
        of=("layernorm", "individual", SMALL_PART),
        tasks=("qnli", "sst2", "stsb"),
        at_least=(3, 3),
        is_printed=False,
    ),
    Claim(
        "LayerNorm's biases carry more information than its weights, on every task",
        "3.3, 4, Figure 3",
        "the biases' share of LayerNorm's information − the weights'",
        "more",
        measure="share",
        reads=("layernorm_information",),
        units=f"{STATISTICS}:bias_minus_weight",
        at_least=(8, 8),
    ),
    Claim(
        "LayerNorms of later layers carry more information, on every task",
        "3.3, 4, Figures 3 and 4",
        "rank correlation of a layer's number and its information",
        "more",
        measure="rank correlation",
        reads=("layernorm_information",),
        units=f"{STATISTICS}:rank_of_layers",
        of=("share", None),
        at_least=(8, 8),
    ),
    Claim(
        "Full fine-tuning changes LayerNorms of later layers more",
        "4",
        "rank correlation of a layer's number and its output LayerNorm's change",
        "more",
        measure="rank correlation",
        reads=("changes",),
        units=f"{STATISTICS}:rank_of_layers",
        of=("change", COMPONENT),
        is_printed=False,
    ),
    *(
        Claim(
            f"A small part of LayerNorm chosen {how} scores as all of it does",
            f"{section}, Figure 5",
            f"{PART}, {name} mask − all of LayerNorm",
            "no less",
            units=f"{STATISTICS}:fraction_minus_whole",
            of=("layernorm", scope, SMALL_PART),
            is_printed=False,
        )
        for how, section, name, scope in (
            ("for all tasks", "3.4", "global", "global"),
            ("from the other tasks", "3.5", "cross-validated", "cv"),
        )
    ),
    *(
        Claim(
            f"A mask {what} scores as the task's own does",
            f"{section}, Figure 5",
            f"{name} − individual, mean over fractions",
            "same",
            units=f"{STATISTICS}:scope_minus",
            of=(scope, "individual"),
            is_printed=False,
        )
        for what, section, name, scope in (
            ("of all tasks", "3.4", "global", "global"),
            ("from the other tasks", "3.5", "cross-validated", "cv"),
        )
    ),
)

PAPER = Paper(
    name="layernorm",
    citation="LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    printed_data={"layernorm_information": "figure3", "component_shares": "table1"},
)
