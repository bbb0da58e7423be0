"""Tasks, kinds of tasks, examples and metrics."""

from subtune.tasks.task import DIAGNOSTIC, TASKS, Task
from subtune.tasks.task_kind import TaskSpec

__all__ = ["DIAGNOSTIC", "TASKS", "Task", "TaskSpec"]
