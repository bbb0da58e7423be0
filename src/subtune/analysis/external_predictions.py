"""Score a user's external predictions on the examples on which full fine-tuning is scored.

The table of scores gets one row per system and run of full fine-tuning, as if the system were a
method. ``run`` is the run's id, a colon and the system's name; there is no record with this id.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import drop_runs_with_mask
from subtune.analysis.run_scores import (
    ROW_COLUMNS,
    build_pseudo_value_row,
    make_masked_metric,
    read_scored_predictions,
)
from subtune.analysis.tables import set_types
from subtune.methods import FULL
from subtune.runs import records
from subtune.tasks.task import ScoreColumn

# Values for external systems in the columns that describe a run.
NO_RUN: dict[str, Any] = {
    **dict.fromkeys(("learning_rate", "smallest_rate", "largest_rate", "share_read"), np.nan),
    **dict.fromkeys(("encoder_size", "plateau", "best_epoch", "judged_at", "curve"), None),
    **dict.fromkeys(("trainable", "classifier", "seconds", "delta_bytes"), 0),
    **dict.fromkeys(("searched", "at_edge"), False),
}


def score_external_predictions(
    chosen: pd.DataFrame,
    store: Path,
    columns: Sequence[ScoreColumn],
    external: Mapping[str, Mapping[str, np.ndarray]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Score external predictions, with one row for each run of full fine-tuning.

    Without such runs, the method with the most runs is used. ``external[task][system]`` are
    logits ``[n, o]`` for the ``n`` dev or test examples of a task. The tables have the columns
    of ``chosen`` and of `subtune.analysis.run_scores.tabulate_pseudo_values`.
    """
    split_of = {column.key: column.split for column in columns}
    judged = drop_runs_with_mask(chosen[chosen["judges"]]).dropna(subset=["value"])
    judged = judged[judged["task"].isin([*external])]
    rows, parts = [], list[list[Any]]()
    for (_, task_name), runs in judged.groupby(["model", "task"], sort=False):
        names = runs["method"]
        method = FULL if names.eq(FULL).any() else names.mode()[0]
        for row in runs[names == method].to_dict("records"):
            task, table = read_scored_predictions(store, row, split_of[row["column"]])
            table = table.drop(columns=[*table.filter(like="logit_")])
            for system, logits in external[str(task_name)].items():
                own = {f"logit_{n}": logits[table["idx"], n] for n in range(logits.shape[1])}
                predicted = table.assign(**own)
                score = make_masked_metric(task, row["metric"], predicted)
                run = f"{row['run']}:{system}"
                about = {"method": system, "run": run, "value": score(np.full(len(table), True))}
                columns_of = {name: values.to_numpy() for name, values in predicted.items()}
                about["one_answer"] = records.has_constant_predictions(columns_of)
                rows.append(row | NO_RUN | about)
                parts += build_pseudo_value_row(run, score, predicted)
    table = pd.DataFrame(rows, columns=[*chosen]).astype(chosen.dtypes)
    return set_types(table, "scores"), pd.DataFrame(parts, columns=[*ROW_COLUMNS])
