"""Tasks: what each is made of, and one module per kind of task."""

from subtune.tasks.task import (
    COEFFICIENTS,
    CORRELATIONS,
    DIAGNOSTIC,
    METRICS,
    TASKS,
    Task,
    TaskSpec,
)

__all__ = ["COEFFICIENTS", "CORRELATIONS", "DIAGNOSTIC", "METRICS", "TASKS", "Task", "TaskSpec"]
