"""Statistics that only BEFT's claims need."""

from collections.abc import Sequence

import pandas as pd

from subtune.analysis.statistics import NOTHING, minus_on_rows


def minus_most_informed(
    sizes: pd.DataFrame, information: pd.DataFrame, method: str, methods: Sequence[str]
) -> pd.Series:
    """Return each score on the fewest rows minus that of the method with the most information.

    `minus_on_rows` does not fit: the second method differs between tasks.

    Args:
        methods: methods of one parameter each, which have the parameter's name.
    """
    rows = information[information["parameter"].isin(methods)]
    most = rows.loc[rows.groupby("task")["information"].idxmax()].set_index("task")["parameter"]
    parts = [
        minus_on_rows(task_sizes, None, "min", method, most[task])
        for task, task_sizes in sizes.groupby("task")
        if task in most
    ]
    return pd.concat(parts) if parts else NOTHING
