"""Tables and figures of BitFit."""

from dataclasses import replace

from subtune.exhibits.figures import draw_scores_by_size
from subtune.exhibits.score_tables import gap_table
from subtune.exhibits.tables import learning_rates_table
from subtune.papers.bitfit import claims
from subtune.papers.paper import Figure, Needs, Paper, Table, read_claims
from subtune.papers.shared import (
    COMPARED,
    SEVERAL_SEEDS,
    changes,
    dev_scores,
    metrics_of_tasks,
    test_scores,
)

PART_OF_SPEECH = ("ptb", "ud_ewt")
SQUAD = ("squad",)
# Methods of the figures on SQuAD and of the generalisation gap.
COMPARED_IN_DETAIL = ("full", "bitfit")


def on_squad(name: str, metric: str, title: str) -> Figure:
    """Return a figure of scores on SQuAD by the number of training examples, in one metric."""
    return Figure(
        name,
        f"{title} on SQuAD by number of training examples",
        f"{title} on SQuAD's dev set by the number of training examples, on a logarithmic axis, at "
        f"each method's best learning rate for that number. Bands are {SEVERAL_SEEDS}. The paper "
        "gives no numbers for its curves, so only ours are shown.",
        make=lambda results: draw_scores_by_size(results, metric, COMPARED_IN_DETAIL),
        needs=Needs(methods=COMPARED_IN_DETAIL, tables=("sizes",)),
        tasks=SQUAD,
    )


EXHIBITS = (
    dev_scores(
        "table1", "Dev scores, beside other methods and the paper's test scores", ["table1"]
    ),
    test_scores("table1_test", ["table1"]),
    dev_scores("table2", "Dev scores by model", ["table2"]),
    changes("figure1", "Change of the biases, RTE", "bitfit", "rte"),
    dev_scores("table3", "Parts of the biases, and random parameters", ["table3"]),
    Table(
        "generalisation_gap",
        "Generalisation gap: train minus dev",
        "Train score, dev score, and the gap (train minus dev), at each method's best learning "
        "rate and epoch. The last column has the accuracies that the text of section 4 of the "
        "paper mentions; the paper has no such table. Runs whose records have no train score "
        "are left out.",
        make=gap_table,
    ),
    replace(
        dev_scores("pos", "Part-of-speech tagging", ["pos"], printed_tasks=["ptb"]),
        caption=f"{COMPARED} The paper's scores are for the Penn Treebank (PTB), from the text of "
        "section 4, which does not name the split. UD-EWT is another data set, with other "
        "texts and more tags, for which the paper prints no scores.",
        tasks=PART_OF_SPEECH,
    ),
    on_squad("figure2", "exact_match", "Exact match"),
    metrics_of_tasks("table5"),
    Table(
        "table6",
        "Best learning rates",
        "The learning rate with the best dev score, by task and model, beside the paper's.",
        make=lambda results: learning_rates_table(results, "table6", method="bitfit"),
    ),
    changes("figure3", "Change of the biases, CoLA", "bitfit", "cola"),
    changes("figure4", "Change of the biases, MRPC", "bitfit", "mrpc"),
    changes("figure5", "Change of the biases, STS-B", "bitfit", "stsb"),
    on_squad("figure6", "f1", "F1"),
)
PAPER = Paper(
    name="bitfit",
    citation="BitFit (Ben-Zaken et al., 2021)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, vars(claims)),
    printed_data={"train_rows": "train_rows"},
    printed_learning_rates={"bitfit": "table6"},
    scored_on_training_rows=COMPARED_IN_DETAIL,
    tasks_apart=(*PART_OF_SPEECH, *SQUAD),
)
