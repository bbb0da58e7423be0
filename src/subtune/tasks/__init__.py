"""Tasks, the kinds of task, examples and metrics."""

from subtune.tasks.task import DIAGNOSTIC, TASKS, Task, TaskSpec

__all__ = ["DIAGNOSTIC", "TASKS", "Task", "TaskSpec"]
