"""All kinds of task. Other packages name none of them."""

from subtune.tasks.sentences import Classification, MultiLabel, Regression
from subtune.tasks.span import Span
from subtune.tasks.task_kind import TaskKind
from subtune.tasks.tokens import Tokens

KINDS: dict[str, TaskKind] = {
    kind.name: kind for kind in (Classification(), MultiLabel(), Regression(), Tokens(), Span())
}
