"""Tasks and kinds of task: a module per kind."""

from subtune.tasks.task import DIAGNOSTIC, TASKS, Task, TaskSpec

__all__ = ["DIAGNOSTIC", "TASKS", "Task", "TaskSpec"]
