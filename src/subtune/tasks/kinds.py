"""All kinds of task; nothing outside this package names one."""

from subtune.tasks.classification import CLASSIFICATION
from subtune.tasks.kind import Kind
from subtune.tasks.regression import REGRESSION
from subtune.tasks.span import SPAN
from subtune.tasks.tokens import TOKENS

KINDS: dict[str, Kind] = {kind.name: kind for kind in (CLASSIFICATION, REGRESSION, TOKENS, SPAN)}
