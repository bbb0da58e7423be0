"""All kinds of task; nothing outside this package names one."""

from subtune.tasks.multilabel import MultiLabel
from subtune.tasks.sentences import Classification, Regression
from subtune.tasks.span import Span
from subtune.tasks.task_kind import TaskKind
from subtune.tasks.tokens import Tokens

KINDS: dict[str, TaskKind] = {
    kind.name: kind for kind in (Classification(), MultiLabel(), Regression(), Tokens(), Span())
}
