"""Tasks, kinds of tasks, examples and metrics."""

from subtune.tasks.task import DIAGNOSTIC, TASKS, Task, TaskSpec

__all__ = ["DIAGNOSTIC", "TASKS", "Task", "TaskSpec"]
