"""Claims of three papers about which single entries of weight matrices to train."""

import numpy as np
import pandas as pd

from subtune.analysis.candidates import select_scored_runs
from subtune.analysis.intervals import Study, estimate_study_of_runs, mean_interval
from subtune.exhibits.output import ExperimentResults, Table
from subtune.papers.paper import Paper, read_claims


def compare_with_random_entries(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate each method's difference in score from random entries, by task and on average."""
    runs = select_scored_runs(results["chosen"], results["row_scores"])
    is_random = runs["method"].str.startswith("random-")
    pairs = runs[~is_random].merge(runs[is_random], on=["task", "seed"], suffixes=("", "_random"))
    tasks = [*pairs.groupby("task"), *([("all", pairs)] if pairs["task"].nunique() > 1 else [])]
    found = [
        (task, method, *mean_interval([_compare_runs(rows) for _, rows in runs.groupby("task")]))
        for task, of_task in tasks
        for method, runs in of_task.groupby("method")
    ]
    table = pd.DataFrame(found, columns=["task", "method", "minus random", "low", "high"])
    return table.sort_values(["task", "minus random"], ascending=[True, False]).round(4)


def _compare_runs(pairs: pd.DataFrame) -> Study:
    differences = [*(pairs["value"] - pairs["value_random"])]
    parts = np.stack([*(pairs["parts"] - pairs["parts_random"])])
    return estimate_study_of_runs(differences, parts, [*pairs["rows"]], folds=0)


PAPER = Paper(
    name="rankings",
    citation="Rankings of single entries (claims of three papers, and controls)",
    exhibits=(
        Table(
            "differences",
            "Differences from random entries",
            "The 95 % intervals are computed over seeds and dev examples.",
            make=compare_with_random_entries,
        ),
    ),
    claims=read_claims(__package__),
)
