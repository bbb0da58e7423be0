"""BitFit+: a replication of BitFit, and which of the biases and LayerNorm weights matter."""

from subtune.papers.base import Claim, Needs, Paper, Table
from subtune.papers.common import changes, dev_scores

EXHIBITS = (
    dev_scores("figure3", "Replications", ["figure3", "figure3 (original paper, in parentheses)"]),
    changes("figure4", "Change of the biases, RTE", "bitfit", "rte"),
    changes("figure5", "Change of the biases, MRPC", "bitfit", "mrpc"),
    changes("figure6", "Change of the biases, CoLA", "bitfit", "cola"),
    dev_scores("figure7", "Ablations", ["figure3", "figure7 (averages quoted in the text)"]),
    Table(
        "repeat_variance",
        "Variance over seeds",
        "Variance and standard deviation of dev scores over seeds. The paper repeats one method on "
        "one task: b_m2,b_q on RTE three times, with a variance of 1.04 % in accuracy.",
        make="subtune.tables.significance:repeat_variance",
        reads={"chosen": "chosen"},
        needs=Needs(seeds=2),
    ),
    *(
        changes(f"figure{number}", f"Change, {method}, RTE", method, "rte")
        for number, method in (
            (8, "g_LN1"),
            (9, "g_LN2"),
            (10, "g_LN1,g_LN2"),
            (11, "rand_bias"),
            (12, "bitfit without b_m2,b_q"),
            (13, "bitfit,g_LN1,g_LN2"),
            (14, "b_m2,b_q,g_LN1,g_LN2"),
            (15, "b_LN1,b_LN2"),
        )
    ),
)

CLAIMS = (
    Claim(
        "Training only biases scores as full fine-tuning does",
        "4.1, Figure 3",
        "BitFit − Full",
        "same",
        of=("bitfit", "full"),
    ),
    Claim(
        "Biases score better than as many random parameters",
        "4.1, Figure 3",
        "BitFit − rand_uniform",
        "more",
        of=("bitfit", "rand_uniform"),
    ),
    Claim(
        "Biases score better than as many parameters in random rows and columns",
        "4.1, Figure 3",
        "BitFit − rand_row_col",
        "more",
        of=("bitfit", "rand_row_col"),
    ),
    Claim(
        "b_m2 and b_q are not special: the other biases do as well",
        "4.2, Figure 7",
        "BitFit without b_m2,b_q − b_m2,b_q",
        "no less",
        of=("bitfit without b_m2,b_q", "b_m2,b_q"),
    ),
    Claim(
        "b_m2 and b_q are not special: as many random biases do as well",
        "4.2, Figure 7",
        "rand_bias − b_m2,b_q",
        "no less",
        of=("rand_bias", "b_m2,b_q"),
    ),
    Claim(
        "LayerNorm's weights score less than all biases",
        "4.2, Figure 7",
        "BitFit − g_LN1,g_LN2",
        "more",
        of=("bitfit", "g_LN1,g_LN2"),
    ),
)

PAPER = Paper(
    name="bitfit_plus",
    citation="BitFit+ (Weng et al.)",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    quoted={"full": "Full (of the BitFit paper)"},
)
