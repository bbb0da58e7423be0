"""Tables and figures of SPAFIT."""

from subtune.exhibits.score_tables import parameters_table
from subtune.papers.paper import Paper, Table, read_claims
from subtune.papers.shared import dev_scores
from subtune.papers.spafit import claims

EXHIBITS = (
    Table(
        "table1",
        "Methods and their parameters",
        "The parameters that each method trains in addition to the classifier, their number in "
        "millions, with a classifier of three labels, and the paper's count. Layers count from 0. "
        "Full BitFit is the selection with the paper's count. The paper's description, the biases "
        "of all layers, gives a hundredth of that count.",
        # The largest task has three labels.
        make=lambda results: parameters_table(results, labels=3),
    ),
    dev_scores("table2", "Dev scores", ["table2"], not_competing=["full"]),
)
PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
)
