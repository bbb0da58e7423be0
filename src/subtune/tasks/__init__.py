"""Tasks and kinds of task: a module per kind."""

from subtune.tasks.spec import TaskSpec
from subtune.tasks.task import DIAGNOSTIC, TASKS, Task

__all__ = ["DIAGNOSTIC", "TASKS", "Task", "TaskSpec"]
