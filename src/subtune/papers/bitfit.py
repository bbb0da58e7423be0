"""BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models."""

from subtune.papers.base import Claim, Paper, Table
from subtune.papers.common import changes, dev_scores, metrics, test_scores

EXHIBITS = (
    dev_scores(
        "table1",
        "Dev scores of BERT-large, beside other methods and the paper's test scores",
        ["table1"],
    ),
    test_scores("table1_test", ["table1"]),
    dev_scores("table2", "Dev scores by model", ["table2"]),
    changes("figure1", "Change of the biases, RTE", "bitfit", "rte"),
    dev_scores("table3", "Parts of the biases, and random parameters", ["table3"]),
    Table(
        "generalisation_gap",
        "Generalisation gap: train minus dev",
        "Score on the training rows, score on dev, and the gap, which is the first minus the "
        "second, at each method's best learning rate and epoch; beside them what section 4 of the "
        "paper says of accuracies, without a table.",
        make="subtune.tables.gap:generalisation_gap",
        reads={"scores": "train_scores"},
        facts=("columns",),
        printed="generalisation_gap",
    ),
    metrics("table5"),
    Table(
        "table6",
        "Best learning rates",
        "The learning rate with the best dev score, by task and model, beside the paper's.",
        make="subtune.tables.choices:best_learning_rates",
        reads={"chosen": "chosen"},
        facts=("tasks",),
        printed="table6",
        options={"method": "bitfit"},
    ),
    changes("figure3", "Change of the biases, CoLA", "bitfit", "cola"),
    changes("figure4", "Change of the biases, MRPC", "bitfit", "mrpc"),
    changes("figure5", "Change of the biases, STS-B", "bitfit", "stsb"),
)

CLAIMS = (
    Claim(
        "Training only biases scores as full fine-tuning does",
        "4, Tables 1 and 2",
        "BitFit − Full",
        "same",
        of=("bitfit", "full"),
    ),
    Claim(
        "Biases score better than as many random parameters",
        "4, Table 3",
        "BitFit − random",
        "more",
        of=("bitfit", ("rand_100k", "rand_uniform")),
    ),
    Claim(
        "b_q and b_m2 change more than the other biases",
        "4, Figure 1",
        "the smaller of their mean absolute changes ÷ the largest other bias's",
        "more",
        measure="ratio",
        reads="parameter_changes",
        units="subtune.analysis.statistics:changes_to_largest_other_bias",
        of=("bitfit", ("b_q", "b_m2")),
    ),
    Claim(
        "b_m2 and b_q alone score hardly less than all biases",
        "4, Table 3",
        "b_m2,b_q − BitFit",
        "no less",
        of=("b_m2,b_q", "bitfit"),
    ),
    Claim(
        "A frozen encoder scores less",
        "4, Table 3",
        "BitFit − Frozen",
        "more",
        of=("bitfit", "frozen"),
    ),
    Claim(
        "BitFit's generalisation gap is smaller than that of full fine-tuning",
        "4, Generalization gap",
        "gap of Full − gap of BitFit",
        "more",
        reads="train_scores",
        units="subtune.analysis.statistics:gap_minus",
        of=("full", "bitfit"),
    ),
)

PAPER = Paper(
    name="bitfit",
    citation="BitFit (Ben-Zaken et al., 2021)",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    scored_on_training_rows=("full", "bitfit"),
)
