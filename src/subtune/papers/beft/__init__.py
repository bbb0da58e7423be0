"""BEFT: Bias-Efficient Fine-Tuning of Language Models in Low-Data Regimes."""

from collections.abc import Sequence

import pandas as pd

from subtune.analysis.statistics import empty_values, minus_at_train_size
from subtune.exhibits.output import ExperimentResults, Needs, Table, format_number
from subtune.exhibits.score_tables import scores_by_train_size_table
from subtune.papers.paper import Paper, read_claims

BIASES = ("b_q", "b_k", "b_v")


def information_table(results: ExperimentResults) -> pd.DataFrame:
    """Rank `BIASES` by Fisher information and by score.

    There is one row per model, task and training set size. It shows how much lower the score is if
    the bias with the most Fisher information is chosen. Diverged methods have no rank by score.
    """
    sizes, information = results["sizes"], results["parameter_information"]
    rows_of_biases = information[information["parameter"].isin(BIASES)]
    wide = rows_of_biases.pivot(index="task", columns="parameter", values="information")
    shares = wide.div(wide.sum(axis=1), axis=0)
    rows = []
    decide = sizes[sizes["decides"] & sizes["method"].isin(BIASES)]
    for (model, task, count), same in decide.groupby(["model", "task", "train_rows"], sort=False):
        scores = same.groupby("method")["value"].mean().dropna().sort_values(ascending=False)
        share = shares.loc[task].dropna().sort_values(ascending=False)
        loss = scores.max() - scores.get(share.index[0], float("nan"))
        rows.append(
            {
                "model": model,
                "task": results.task_titles[task],
                "training rows": f"{count:,}",
                "by information": ", ".join(f"{name} {value:.1%}" for name, value in share.items()),
                "by score": ", ".join(f"{name} {value:.4f}" for name, value in scores.items()),
                "choice scores less by": format_number(loss),
            }
        )
    return pd.DataFrame(rows)


EXHIBITS = (
    Table(
        "table1",
        "Dev scores of the query, key and value biases",
        "The table lists dev scores in all metrics for each number of training examples, at the "
        "best learning rate of each method. The best score of each row is bold. The paper's "
        "tables were not available. A notebook in its repository shows one run per bias, with the "
        "pooler's bias, on 1,000 examples of SST-2 with BERT-base: 0.858 with b_v, 0.800 with b_q "
        "and 0.772 with b_k.",
        make=lambda results: scores_by_train_size_table(results, BIASES),
        needs=Needs(methods=BIASES, tables=("sizes",)),
    ),
    Table(
        "choice_by_information",
        "The bias with the highest Fisher information",
        "The table compares the Fisher information of the three biases before fine-tuning with "
        "the dev scores of training each bias, in the first metric, for each number of training "
        "examples. The information is averaged over a bias's entries in all layers, and is shown "
        "as a share of the sum over the three biases. The last column is the best score minus the "
        "score of the bias with the most information. A value of 0 means that Fisher information "
        "chose the best bias.",
        make=information_table,
        needs=Needs(methods=BIASES, tables=("sizes", "parameter_information")),
    ),
)


def minus_most_informed(
    sizes: pd.DataFrame, information: pd.DataFrame, method: str, methods: Sequence[str]
) -> pd.Series:
    """Compute ``method - most_informed`` of the scores of two methods.

    Each of ``methods`` trains the parameter after which it is named. ``most_informed`` is the
    method whose parameter has the most Fisher information. Both scores are from the smallest
    training set. `minus_at_train_size` cannot be used, because the second method differs between
    tasks.
    """
    rows = information[information["parameter"].isin(methods)]
    most = rows.loc[rows.groupby("task")["information"].idxmax()].set_index("task")["parameter"]
    parts = [
        minus_at_train_size(task_sizes, None, "min", method, most[task])
        for task, task_sizes in sizes.groupby("task")
        if task in most
    ]
    return pd.concat(parts) if parts else empty_values()


PAPER = Paper(
    name="beft",
    citation="BEFT (Huang et al., 2026)",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, minus_most_informed),
)
