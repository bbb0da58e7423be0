"""Tables of BEFT."""

from subtune.exhibits.findings import choice_by_information
from subtune.exhibits.methods import scores_by_train_rows
from subtune.papers.beft import claims
from subtune.papers.paper import Needs, Paper, Table, read_claims

BIASES = ("b_q", "b_k", "b_v")

EXHIBITS = (
    Table(
        "table1",
        "Dev scores of the query's, the key's and the value's bias",
        "Dev scores in every metric by the number of training rows, each method at its best "
        "learning rate for that many. The best of each row is bold. The key's bias has no "
        "gradient, so that b_k scores as the classifier alone does. Scores of the paper are not "
        "beside ours, because its printed tables were not at hand. A notebook beside its code has "
        "one run of each on 1,000 rows of SST-2, with BERT-base: 0.858 with b_v, 0.800 with b_q "
        "and 0.772 with b_k. The code also trains the pooler's bias.",
        make=lambda results: scores_by_train_rows(results["sizes"], results.column_titles, BIASES),
        needs=Needs(methods=BIASES, sizes=2),
    ),
    Table(
        "choice_by_information",
        "The bias that Fisher information chooses",
        "The three biases by Fisher information before fine-tuning, and by dev score for each "
        "number of training rows, in the metric that decides. Information is the mean over a "
        "bias's entries in all layers, as a share of the three. The last column is the best score "
        "minus that of the bias with the most information: 0 if the choice is right. The paper's "
        "code squares the gradient of a batch's mean loss; here gradients of single rows are "
        "squared.",
        make=lambda results: choice_by_information(
            results["sizes"], results["parameter_information"], results.task_titles, BIASES
        ),
        needs=Needs(methods=BIASES, sizes=2, information=True),
    ),
)
PAPER = Paper(
    name="beft",
    citation="BEFT (Huang et al., 2026)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, claims),
)
