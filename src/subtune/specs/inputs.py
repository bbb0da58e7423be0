"""Specs of a run's inputs: a model, rows and token ids."""

from typing import Any, Literal

from pydantic import Field, field_validator

from subtune.core.ids import Value
from subtune.tasks import Task, TaskSpec

DATA_VERSION = 1
TOKENS_VERSION = 1

# A regression trains on its labels as they are, or on labels with mean 0 and deviation 1.
Labels = Literal["raw", "standard"]


class ModelSpec(Value):
    """A pretrained model, and the tokens of a text that its sequence classifier reads.

    The path of local files is not part of the value, nor is the model's name in a configuration.

    Attributes:
        repository: the model's name on the hub.
        version: a commit of the repository, or a hash of local files.
        pooling: whether the classifier reads the first token or the mean of all tokens. Default:
            the tokens that transformers' class reads, which is the first one in most encoders.
    """

    source: Literal["hub", "files"]
    repository: str | None = None
    version: str
    pooling: Literal["first", "mean"] | None = None


class DataSpec(Value):
    """Rows of some splits of one task. The path of local files is not part of the value.

    Attributes:
        version: a commit of the hub, or a hash of the splits' files.
        splits: the names of the splits; default: those for training and evaluation.
    """

    task: TaskSpec
    source: Literal["hub", "tsv", "builtin", "files"]
    version: str
    splits: tuple[str, ...] = Field(default_factory=lambda data: data["task"].labelled)
    data_version: int = DATA_VERSION

    @field_validator("task", mode="before")
    @classmethod
    def _without_presentation(cls, task: Any) -> Any:
        return task.spec() if isinstance(task, Task) else task

    @property
    def key(self) -> str:
        return f"{self.task.name}-{self.id}"


class TokensSpec(Value):
    """A task's token ids.

    Attributes:
        tokenizer: the content id of the model whose tokenizer is used.
        max_length: the largest number of tokens of an example.
        doc_stride: the number of tokens from the start of an example to the start of the next one,
            if a row longer than ``max_length`` is split into overlapping examples.
        apart: whether each text of a pair is a separate example.
    """

    data: DataSpec
    tokenizer: str
    max_length: int = Field(ge=4, le=512)
    doc_stride: int | None = Field(default=None, ge=1)
    apart: bool = False
    tokens_version: int = TOKENS_VERSION

    @property
    def key(self) -> str:
        return f"{self.data.task.name}-{self.id}"
