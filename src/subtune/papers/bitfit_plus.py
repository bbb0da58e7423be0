"""BitFit+: a replication of BitFit, and which of the biases and LayerNorm weights matter."""

from typing import Any

from subtune.papers.base import Claim, Needs, Paper, Table
from subtune.papers.common import STATISTICS, changes, dev_scores, two_biases_change_most

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
        make="subtune.exhibits.tables.significance:repeat_variance",
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

GAMMAS = "g_LN1,g_LN2"
# Every other method that the paper trained.
OTHERS = r"(?!(full|bitfit)$)"
OTHER_BIASES = ("b_k", "b_v", "b_m1", "b_LN1", "b_m3", "b_LN2")


def better(text: str, section: str, first: str, second: str, quoted: str = "") -> Claim:
    """A claim that one method's average is above another's."""
    return Claim(text, section, f"{first} − {second}{quoted}", "more", of=(first, second))


def alike(text: str, section: str, first: str, second: str, **changed: Any) -> Claim:
    """A claim that two methods' averages are about the same."""
    statistic = changed.pop("statistic", f"{first} − {second}")
    return Claim(text, section, statistic, "same", of=(first, second), **changed)


CLAIMS = (
    Claim(
        "The replications score as the original paper's",
        "4.1, Figure 3",
        "distance of this run from the original paper, in parentheses in Figure 3; mean over five "
        "methods",
        "same",
        reads=("chosen", "printed"),
        units=f"{STATISTICS}:distance_to_printed",
        of=(
            {m: m for m in ("bitfit", "b_m2,b_q", "frozen", "rand_uniform", "rand_row_col")},
            "figure3 (original paper, in parentheses)",
            "validation",
        ),
    ),
    alike(
        "Training only biases scores as full fine-tuning does",
        "4.1, Figure 3",
        "bitfit",
        "full",
    ),
    better(
        "Biases score better than as many random parameters",
        "4.1, Figure 3",
        "bitfit",
        "rand_uniform",
    ),
    better(
        "Biases score better than as many parameters in random rows and columns",
        "4.1, Figure 3",
        "bitfit",
        "rand_row_col",
    ),
    Claim(
        "BitFit scores best of all parameter-efficient methods, on average",
        "Abstract, 5, Figures 3 and 7",
        "BitFit − the best other method",
        "more",
        units=f"{STATISTICS}:best_on_average_minus",
        of=("bitfit$", OTHERS),
    ),
    Claim(
        "BitFit scores best of all parameter-efficient methods, on each of three tasks",
        "5, Figure 3",
        "BitFit − the best other method",
        "more",
        units=f"{STATISTICS}:best_minus",
        of=("bitfit$", OTHERS, 3),
        at_least=(3, 3),
    ),
    two_biases_change_most("4.1, Figures 4 to 6", tasks=3),
    alike(
        "b_m2 and b_q alone score as all biases do",
        "4.1, Figure 3",
        "b_m2,b_q",
        "bitfit",
        contradicted_by="Figure 3: averages of 70.8 and 73.3 are 2.5 points apart, more than the "
        "2 that count as none",
    ),
    better(
        "b_m2 and b_q are not special: the other biases score better",
        "4.2, Figure 7",
        "bitfit without b_m2,b_q",
        "b_m2,b_q",
    ),
    better(
        "b_m2 and b_q are not special: as many random biases score better",
        "4.2, Figure 7",
        "rand_bias",
        "b_m2,b_q",
    ),
    better(
        "b_m2 and b_q are not special: the biases of LayerNorm score better",
        "4.2, Figure 7",
        "b_LN1,b_LN2",
        "b_m2,b_q",
    ),
    better(
        "All biases with LayerNorm's weights score better than b_m2 and b_q",
        "5, Figure 7",
        f"bitfit,{GAMMAS}",
        "b_m2,b_q",
    ),
    better(
        "Of LayerNorm's weights, the second score better than the first",
        "4.2, Figure 7",
        "g_LN2",
        "g_LN1",
    ),
    alike(
        "The second LayerNorm's weights score as both do",
        "4.2, Figure 7",
        "g_LN2",
        GAMMAS,
    ),
    Claim(
        "LayerNorm's weights score less than all biases",
        "Abstract, 4.2, Figure 7",
        "BitFit − the best of g_LN1, g_LN2 and both",
        "more",
        units=f"{STATISTICS}:best_on_average_minus",
        of=("bitfit$", r"g_LN[12](,g_LN2)?$"),
    ),
    Claim(
        "LayerNorm's biases score better than its weights",
        "4.2, 5, Figure 7",
        "b_LN1,b_LN2 − the best of g_LN1, g_LN2 and both",
        "more",
        units=f"{STATISTICS}:best_on_average_minus",
        of=("b_LN1,b_LN2$", r"g_LN[12](,g_LN2)?$"),
    ),
    better(
        "Adding all biases to LayerNorm's weights scores better",
        "4.2, Figure 7",
        f"bitfit,{GAMMAS}",
        GAMMAS,
        " (the text: +3.7 points)",
    ),
    better(
        "Adding b_m2 and b_q to LayerNorm's weights scores better",
        "4.2, Figure 7",
        f"b_m2,b_q,{GAMMAS}",
        GAMMAS,
        " (the text: +3.0 points)",
    ),
    alike(
        "Adding LayerNorm's weights to all biases hardly matters",
        "4.2, Figure 7",
        f"bitfit,{GAMMAS}",
        "bitfit",
        statistic=f"bitfit,{GAMMAS} − bitfit (the text: −0.9 points)",
    ),
    alike(
        "Adding LayerNorm's weights to b_m2 and b_q hardly matters",
        "4.2, Figure 7",
        f"b_m2,b_q,{GAMMAS}",
        "b_m2,b_q",
        statistic=f"b_m2,b_q,{GAMMAS} − b_m2,b_q (the text: +0.9 points)",
    ),
    Claim(
        "b_q and b_m2 change more than LayerNorm's weights",
        "4.2, Figure 13",
        "the smaller of their mean absolute changes ÷ the larger of g_LN1's and g_LN2's",
        "more",
        measure="ratio",
        reads=("parameter_changes",),
        units=f"{STATISTICS}:changes_to_largest_other",
        of=(f"bitfit,{GAMMAS}", ("b_q", "b_m2"), "g_"),
        is_printed=False,
    ),
    Claim(
        "What changes more does not score better",
        "4.2, Figures 4, 10 and 13",
        "rank correlation over methods of how much their parameters change where all train, and "
        "their scores, its sign turned",
        "no less",
        measure="rank correlation",
        reads=("parameter_changes", "chosen"),
        units=f"{STATISTICS}:change_and_score",
        of=(
            f"bitfit,{GAMMAS}",
            {
                "b_m2,b_q": ("b_m2", "b_q"),
                "bitfit without b_m2,b_q": OTHER_BIASES,
                "b_LN1,b_LN2": ("b_LN1", "b_LN2"),
                "g_LN1": ("g_LN1",),
                "g_LN2": ("g_LN2",),
                GAMMAS: ("g_LN1", "g_LN2"),
            },
        ),
        is_printed=False,
    ),
)

PAPER = Paper(
    name="bitfit_plus",
    citation="BitFit+ (Weng et al.)",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    quoted={"full": "Full (of the BitFit paper)"},
)
