"""SPAFIT: frozen layers, layers with trained biases, and layers with LoRA and trained biases."""

import numpy as np
import pandas as pd

from subtune.analysis.statistics import best_rates
from subtune.exhibits.score_tables import parameters_table
from subtune.papers.paper import Paper, Table, read_claims
from subtune.papers.shared import dev_score_table

EXHIBITS = (
    Table(
        "table1",
        "Methods and their parameters",
        "The table shows which parameters each method trains in the three groups of layers and "
        "outside the layers. It also lists their number (in millions, with a classifier for three "
        "labels) and the number in the paper's Table 2. Layers are numbered from 0; N1 and N2 are "
        "the last layers of the first two groups. 'Full BitFit' has the printed number of "
        "parameters; 'Full BitFit, as the text says' trains what the text describes.",
        # No task has more than three labels.
        make=lambda results: parameters_table(results, labels=3),
    ),
    dev_score_table("table2", "Dev scores", ["table2"], not_competing=["full"]),
)


def log_rate_ratio(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Compute ``log(best / learning_rate)`` of best rates, which no shared statistic compares."""
    return np.log(best_rates(chosen, methods) / learning_rate)


PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, log_rate_ratio),
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
    # Strata of models with another number of layers.
    more_methods="SPAFIT-.*",
)
