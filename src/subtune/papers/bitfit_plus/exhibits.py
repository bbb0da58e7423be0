"""Tables and figures of BitFit+."""

from subtune.exhibits.tables import variance_table
from subtune.papers.bitfit_plus import claims
from subtune.papers.paper import Needs, Paper, Table, read_claims
from subtune.papers.shared import changes, dev_scores

# Methods whose scores the paper quotes from another paper.
QUOTED = {"full": "Full (of the BitFit paper)"}

EXHIBITS = (
    dev_scores(
        "figure3",
        "Replications",
        ["figure3", "figure3 (original paper, in parentheses)"],
        quoted=QUOTED,
    ),
    changes("figure4", "Change of the biases, RTE", "bitfit", "rte"),
    changes("figure5", "Change of the biases, MRPC", "bitfit", "mrpc"),
    changes("figure6", "Change of the biases, CoLA", "bitfit", "cola"),
    dev_scores(
        "figure7", "Ablations", ["figure3", "figure7 (averages quoted in the text)"], quoted=QUOTED
    ),
    Table(
        "repeat_variance",
        "Variance over seeds",
        "Variance and standard deviation of dev scores over seeds. The paper repeats only "
        "b_m2,b_q on RTE, three times, and finds a variance of 1.04 % in accuracy.",
        make=variance_table,
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
PAPER = Paper(
    name="bitfit_plus",
    citation="BitFit+ (Weng et al.)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, vars(claims)),
)
