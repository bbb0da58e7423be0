"""Tasks: what each is made of, and one module per kind of task."""

from subtune.tasks.task import DIAGNOSTIC, TASKS, Task, TaskSpec

__all__ = ["DIAGNOSTIC", "TASKS", "Task", "TaskSpec"]
