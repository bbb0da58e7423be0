"""SPAFIT: layers in three strata: frozen, biases, and LoRA with biases."""

import numpy as np
import pandas as pd

from subtune.analysis.statistics import best_rates
from subtune.exhibits.score_tables import parameters_table
from subtune.papers.paper import Paper, Table, read_claims
from subtune.papers.shared import dev_scores

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


def rate_to(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Return the log ratio of best learning rates to ``learning_rate``, per model, task and method.

    No shared statistic fits: they compare scores or numbers of parameters.
    """
    return np.log(best_rates(chosen, methods) / learning_rate)


PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, globals()),
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
)
