"""BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models."""

from typing import Any

from subtune.papers.base import Claim, Figure, Needs, Paper, Table
from subtune.papers.common import (
    COMPARED,
    SCORE_BY_TRAIN_ROWS,
    STATISTICS,
    changes,
    dev_scores,
    metrics,
    test_scores,
    two_biases_change_most,
)

PART_OF_SPEECH = ("ptb", "ud_ewt")
SQUAD = ("squad",)


def on_squad(name: str, metric: str, title: str) -> Figure:
    """Scores on SQuAD by the number of training examples, in one metric."""
    return Figure(
        name,
        f"{title} on SQuAD by number of training examples",
        f"{title} on SQuAD's dev set by the number of training examples, on a logarithmic axis, at "
        "each method's best learning rate for that many. Bands are one standard deviation over "
        "seeds, where there are several. The paper draws its curves and prints none of their "
        "numbers, so that none stand beside ours.",
        make=SCORE_BY_TRAIN_ROWS,
        reads={"sizes": "sizes"},
        facts=("task_titles",),
        options={"metric": metric, "methods": ("full", "bitfit")},
        style="sizes",
        needs=Needs(methods=("full", "bitfit")),
        tasks=SQUAD,
    )


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
        make="subtune.exhibits.tables.gap:generalisation_gap",
        reads={"scores": "train_scores"},
        facts=("columns",),
        printed="generalisation_gap",
    ),
    Table(
        "pos",
        "Part-of-speech tagging",
        f"{COMPARED} The paper's are of the Penn Treebank (PTB), in the text of section 4, which "
        "does not say of which rows. UD-EWT is another data set, with other texts and more tags: "
        "its scores have none of the paper's to stand beside.",
        make="subtune.exhibits.tables.comparison:comparison",
        reads={"chosen": "chosen"},
        facts=("paper", "columns", "source"),
        options={"exhibits": ["pos"], "printed_tasks": ["ptb"]},
        tasks=PART_OF_SPEECH,
    ),
    on_squad("figure2", "exact_match", "Exact match"),
    metrics("table5"),
    Table(
        "table6",
        "Best learning rates",
        "The learning rate with the best dev score, by task and model, beside the paper's.",
        make="subtune.exhibits.tables.choices:best_learning_rates",
        reads={"chosen": "chosen"},
        facts=("tasks",),
        printed="table6",
        options={"method": "bitfit"},
    ),
    changes("figure3", "Change of the biases, CoLA", "bitfit", "cola"),
    changes("figure4", "Change of the biases, MRPC", "bitfit", "mrpc"),
    changes("figure5", "Change of the biases, STS-B", "bitfit", "stsb"),
    on_squad("figure6", "f1", "F1"),
)

DIFF_PRUNING = "diff-pruning (Guo et al. 2020)"
ADAPTERS = "adapters (Houlsby et al. 2019)"


def against(other: str, split: str) -> dict[str, Any]:
    """How BitFit is compared with what Table 1 quotes of another method."""
    return {
        "reads": ("chosen" if split == "validation" else "test_scores", "printed"),
        "units": f"{STATISTICS}:minus_printed",
        "of": ({"bitfit": other}, "table1", split),
    }


CLAIMS = (
    Claim(
        "Training only biases scores as full fine-tuning does",
        "Abstract, 4, Tables 1 and 2",
        "BitFit − Full",
        "same",
        of=("bitfit", "full"),
    ),
    Claim(
        "With small to medium training data, training only biases scores no less than full "
        "fine-tuning",
        "Abstract, 1, Table 2",
        "BitFit − Full on the tasks of less than 100,000 rows",
        "no less",
        of=("bitfit", "full"),
        tasks=("sst2", "cola", "mrpc", "stsb", "rte"),
    ),
    Claim(
        "Training only biases scores better than full fine-tuning on some tasks",
        "Abstract, 3, Table 2",
        "BitFit − Full",
        "more",
        of=("bitfit", "full"),
        at_least=(1, 27),
    ),
    Claim(
        "The larger the training data, the less BitFit reaches of full fine-tuning",
        "Abstract, 4, Table 2",
        "rank correlation over tasks of the number of training rows and Full − BitFit",
        "more",
        measure="rank correlation",
        reads=("chosen", "train_rows"),
        units=f"{STATISTICS}:minus_by_size",
        of=("full", "bitfit"),
    ),
    Claim(
        "Other models show the same trends",
        "4, Table 2",
        "rank correlation over tasks of BitFit − Full, between models",
        "more",
        measure="rank correlation",
        units=f"{STATISTICS}:agreement_of_models",
        of=("bitfit", "full"),
        at_least=(3, 3),
    ),
    Claim(
        "BitFit scores better than Diff-Pruning on 5 of 9 tasks",
        "4, Table 1 (V)",
        "BitFit − Diff-Pruning, as Table 1 quotes it",
        "more",
        **against(DIFF_PRUNING, "validation"),
        at_least=(5, 9),
    ),
    Claim(
        "BitFit scores less than Diff-Pruning on 3 of 9 tasks at most",
        "4, Table 1 (V)",
        "BitFit − Diff-Pruning, as Table 1 quotes it",
        "no less",
        **against(DIFF_PRUNING, "validation"),
        at_least=(6, 9),
        margin=0.0,
    ),
    Claim(
        "With large training data, BitFit scores as another sparse method does",
        "Abstract, Table 1 (V)",
        "BitFit − Diff-Pruning on the tasks of more than 100,000 rows",
        "same",
        **against(DIFF_PRUNING, "validation"),
        tasks=("qnli", "mnli", "qqp"),
    ),
    Claim(
        "BitFit scores better than Diff-Pruning on one test set",
        "4, Table 1 (T)",
        "BitFit − Diff-Pruning, as Table 1 quotes it",
        "more",
        **against(DIFF_PRUNING, "test"),
        at_least=(1, 9),
    ),
    Claim(
        "BitFit scores better than Adapters on three test sets",
        "4, Table 1 (T)",
        "BitFit − Adapters, as Table 1 quotes it",
        "more",
        **against(ADAPTERS, "test"),
        at_least=(3, 9),
    ),
    *(
        Claim(
            f"BitFit is competitive with {title} on test sets",
            "4, Table 1 (T)",
            f"BitFit − {title}, as Table 1 quotes it",
            "no less",
            **against(other, "test"),
        )
        for title, other in (("Diff-Pruning", DIFF_PRUNING), ("Adapters", ADAPTERS))
    ),
    Claim(
        "BitFit trains less than 0.1 % of the parameters",
        "3, Tables 1 and 2",
        "0.1 % of Full's parameters ÷ BitFit's, without the classifier's",
        "more",
        measure="ratio",
        units=f"{STATISTICS}:parameters_of_families",
        of=("full$", "bitfit$", 0.001),
    ),
    Claim(
        "Biases score better than as many random parameters, on every task",
        "4, Table 3",
        "BitFit − random",
        "more",
        of=("bitfit", ("rand_100k", "rand_uniform")),
        at_least=(9, 9),
    ),
    Claim(
        "b_k, the key's bias, does not change",
        "4, Figure 1",
        "its mean absolute change, as a share of the other biases' mean",
        "same",
        measure="share",
        reads=("parameter_changes",),
        units=f"{STATISTICS}:change_beside_others",
        of=("bitfit", "b_k", "b_"),
        at_least=(4, 4),
        is_printed=False,
    ),
    two_biases_change_most("4, Figure 1", tasks=4),
    Claim(
        "b_m2 and b_q alone score hardly less than all biases",
        "1, 4, Table 3",
        "b_m2,b_q − BitFit",
        "no less",
        of=("b_m2,b_q", "bitfit"),
    ),
    Claim(
        "b_m2 and b_q alone rival full fine-tuning",
        "3, Table 3",
        "b_m2,b_q − Full",
        "no less",
        of=("b_m2,b_q", "full"),
    ),
    Claim(
        "b_m2 alone scores less than b_m2 and b_q",
        "4, Table 3",
        "b_m2,b_q − b_m2",
        "more",
        of=("b_m2,b_q", "b_m2"),
    ),
    Claim(
        "b_q alone scores less than b_m2 and b_q",
        "4, Table 3",
        "b_m2,b_q − b_q",
        "more",
        of=("b_m2,b_q", "b_q"),
    ),
    Claim(
        "A frozen encoder scores less, on every task",
        "4, Table 3",
        "BitFit − Frozen",
        "more",
        of=("bitfit", "frozen"),
        at_least=(9, 9),
    ),
    Claim(
        "BitFit's generalisation gap is smaller than that of full fine-tuning",
        "4, Generalization gap",
        "gap of Full − gap of BitFit",
        "more",
        reads=("train_scores",),
        units=f"{STATISTICS}:gap_minus",
        of=("full", "bitfit"),
        is_printed=False,
    ),
    Claim(
        "Full fine-tuning scores nearly 100 % on its training rows",
        "4, Generalization gap",
        "train score of Full − 1",
        "no less",
        reads=("train_scores",),
        units=f"{STATISTICS}:train_minus",
        of=("full", 1.0),
        is_printed=False,
    ),
    Claim(
        "BitFit's generalisation gap is often less than 2 points",
        "4, Generalization gap",
        "0.02 − gap of BitFit",
        "more",
        reads=("train_scores",),
        units=f"{STATISTICS}:gap_under",
        of=("bitfit", 0.02),
        at_least=(1, 2),
        is_printed=False,
    ),
    Claim(
        "BitFit converges within 7 epochs on most tasks",
        "A.2",
        "7 − the best epoch of BitFit",
        "no less",
        measure="epochs",
        units=f"{STATISTICS}:epochs_before",
        of=("bitfit", 7),
        at_least=(5, 8),
        is_printed=False,
    ),
    Claim(
        "BitFit's best learning rates are those of Table 6",
        "A.3, Table 6",
        "our best learning rate ÷ the paper's, of the same model",
        "same",
        measure="ratio",
        reads=("chosen", "printed"),
        units=f"{STATISTICS}:rate_to_printed",
        of=("bitfit$",),
        at_least=(1, 2),
    ),
    Claim(
        "BitFit's scores vary less over seeds than those of full fine-tuning",
        "A.2",
        "standard deviation over seeds of Full − that of BitFit",
        "more",
        units=f"{STATISTICS}:spread_minus",
        of=("full", "bitfit"),
        is_printed=False,
    ),
    Claim(
        "On part-of-speech tagging BitFit scores as full fine-tuning does, within 0.1 points",
        "4, Token-level tasks",
        "BitFit − Full",
        "same",
        of=("bitfit", "full"),
        tasks=PART_OF_SPEECH,
        margin=0.001,
    ),
    Claim(
        "With little training data BitFit scores better than full fine-tuning",
        "4, Figure 2",
        "BitFit − Full in exact match, on the smallest part of the training data",
        "more",
        reads=("sizes",),
        units=f"{STATISTICS}:minus_on_fewest_rows",
        of=("exact_match", "bitfit", "full"),
        tasks=SQUAD,
        is_printed=False,
    ),
    Claim(
        "With all training data full fine-tuning scores better than BitFit",
        "4, Figure 2",
        "Full − BitFit in exact match, on the largest part of the training data",
        "more",
        reads=("sizes",),
        units=f"{STATISTICS}:minus_on_most_rows",
        of=("exact_match", "full", "bitfit"),
        tasks=SQUAD,
        is_printed=False,
    ),
    Claim(
        "The more of the same training data, the less BitFit reaches of full fine-tuning",
        "4, Figures 2 and 6",
        "rank correlation of the number of training rows and Full − BitFit in exact match",
        "more",
        measure="rank correlation",
        reads=("sizes",),
        units=f"{STATISTICS}:minus_by_rows",
        of=("exact_match", "full", "bitfit"),
        tasks=SQUAD,
        is_printed=False,
    ),
)

PAPER = Paper(
    name="bitfit",
    citation="BitFit (Ben-Zaken et al., 2021)",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    printed_data={"train_rows": "train_rows"},
    printed_learning_rates={"bitfit": "table6"},
    scored_on_training_rows=("full", "bitfit"),
    tasks_apart=(*PART_OF_SPEECH, *SQUAD),
)
