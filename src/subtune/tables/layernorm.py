"""The LayerNorm paper's tables."""

from collections.abc import Sequence

import pandas as pd

from subtune.tables.writing import EMPTY, METRIC_TITLES
from subtune.tasks import Task


def table1(ranking: pd.DataFrame) -> pd.DataFrame:
    """Components by summed normalised Fisher information, beside the paper's ranks."""
    return pd.DataFrame(
        {
            "rank": ranking["rank"],
            "component": ranking["component"],
            "information": ranking["information"].map("{:.4f}".format),
            "paper's rank": ranking["reported_rank"],
        }
    )


def table4(tasks: Sequence[Task]) -> pd.DataFrame:
    """The metrics; where a task has several, the first decides and is the tables'."""
    return pd.DataFrame(
        {
            "task": [task.title for task in tasks],
            "metric": [_metric_title(task) for task in tasks],
            "also computed": [
                ", ".join(METRIC_TITLES[name] for name in task.metrics[1:]) or EMPTY
                for task in tasks
            ],
        }
    )


def _metric_title(task: Task) -> str:
    name = METRIC_TITLES[task.metrics[0]]
    kinds = [split.removeprefix("validation_") for split in task.evaluation]
    return name if len(kinds) == 1 else " / ".join(f"{kind} {name}" for kind in kinds)
