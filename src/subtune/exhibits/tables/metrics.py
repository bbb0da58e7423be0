"""A table of the tasks' metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from subtune.exhibits.tables.writing import EMPTY
from subtune.tasks.metrics import TITLES


def metrics(tasks: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the tasks' metrics; the first of a task decides and is shown in the tables."""
    return pd.DataFrame(
        {
            "task": [task["title"] for task in tasks],
            "metric": [_metric_title(task) for task in tasks],
            "also computed": [
                ", ".join(TITLES[name] for name in task["metrics"][1:]) or EMPTY for task in tasks
            ],
        }
    )


def _metric_title(task: Mapping[str, Any]) -> str:
    name = TITLES[task["metrics"][0]]
    kinds = [split.removeprefix("validation_") for split in task["evaluation"]]
    return name if len(kinds) == 1 else " / ".join(f"{kind} {name}" for kind in kinds)
