"""The values of every stage, from a dataset's rows to a run. Equal values have equal ids.

Every stage that computes has a version of its code, which is raised when the same value would no
longer give the same result.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from subtune.core.content_ids import Value
from subtune.selections import Selection
from subtune.selections.whole import WholeTensors
from subtune.tasks import Task, TaskSpec

DATA_VERSION = 1
TOKENS_VERSION = 1
FISHER_VERSION = 1
RANKING_VERSION = 1
RECIPE_VERSION = 5

# Of a search: for which share of all steps a learning rate is on trial, and how many train whole.
TRIAL = 0.1
FINALISTS = 2

LearningRate = Annotated[float, Field(gt=0)]
Searched = Annotated[tuple[LearningRate, ...], Field(min_length=2)]


class ModelSpec(Value):
    """A pretrained encoder.

    On the hub it is a ``repository`` at a commit, its ``version``; of local files ``version`` is a
    hash, and neither their place nor the name that a configuration gives them is part of the value.
    """

    source: Literal["hub", "files"]
    repository: str | None = None
    version: str


class DataSpec(Value):
    """Rows of one task: of those splits that train and evaluate, or of others, which are predicted.

    ``version`` pins their content: the hub's commit, or a hash of the splits' files. Where the
    files lie is not part of the value.
    """

    task: TaskSpec
    source: Literal["hub", "tsv", "builtin", "files"]
    version: str
    splits: tuple[str, ...] = Field(default_factory=lambda data: data["task"].labelled)
    data_version: int = DATA_VERSION

    @field_validator("task", mode="before")
    @classmethod
    def _what_decides(cls, task: Any) -> Any:
        return task.spec() if isinstance(task, Task) else task

    @property
    def key(self) -> str:
        return f"{self.task.name}-{self.id}"


class TokensSpec(Value):
    """A task's token ids.

    ``tokenizer`` is the content id of the model whose tokenizer is used. ``doc_stride``: of a row
    that is longer than ``max_length``, how many tokens of its text each example begins after the
    one before, where examples overlap.
    """

    data: DataSpec
    tokenizer: str
    max_length: int = Field(ge=4, le=512)
    doc_stride: int | None = Field(default=None, ge=1)
    tokens_version: int = TOKENS_VERSION

    @property
    def key(self) -> str:
        return f"{self.data.task.name}-{self.id}"


class FisherSpec(Value):
    """Fisher information of one task before fine-tuning.

    It is kept of every entry of the vectors, and of those matrices that ``in_full`` selects; of
    other matrices its sum is kept. ``rows`` limits the estimate to a sample of the training
    examples, drawn by ``seed``, which also draws the classifier that no one has trained yet.
    """

    model: ModelSpec
    tokens: TokensSpec
    rows: int | None = Field(default=None, ge=1)
    seed: int = 0
    in_full: WholeTensors | None = None
    fisher_version: int = FISHER_VERSION

    @property
    def key(self) -> str:
        return f"{self.tokens.data.task.name}-{self.id}"


class RankingSpec(Value):
    """A ranking of the entries of ``of``, by the information summed over tasks."""

    of: WholeTensors
    fishers: tuple[FisherSpec, ...]
    ranking_version: int = RANKING_VERSION


class Recipe(Value):
    """How a run trains: AdamW on the selected entries, evaluated after every epoch.

    Of several learning rates a run finds its own, as `subtune.runs.search` describes.
    ``warmup`` is the share of all steps in which the learning rate rises from 0. ``train_rows``
    limits training to the first rows of the training set's first shuffle.
    """

    learning_rate: LearningRate | Searched
    batch_size: int = Field(ge=1)
    epochs: int = Field(ge=1)
    schedule: Literal["constant", "linear"]
    warmup: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    max_grad_norm: float = Field(gt=0)
    precision: Literal["fp32", "bf16"]
    train_rows: int | None = Field(default=None, ge=1)

    @property
    def one_learning_rate(self) -> float:
        """The learning rate of a recipe that has one."""
        assert not isinstance(self.learning_rate, tuple)
        return self.learning_rate

    @property
    def searched(self) -> tuple[float, ...]:
        """The learning rates of which one is to be found; none where there is one already."""
        return self.learning_rate if isinstance(self.learning_rate, tuple) else ()

    @property
    def whole_runs(self) -> float:
        """How many runs' steps it takes: of a search those on trial, and those of the finalists."""
        return len(self.searched) * TRIAL + FINALISTS if self.searched else 1


class RunSpec(Value):
    """Everything that decides a run's result, and nothing else."""

    model: ModelSpec
    tokens: TokensSpec
    selection: Selection
    recipe: Recipe
    seed: int
    recipe_version: int = RECIPE_VERSION

    def at(self, learning_rate: float) -> "RunSpec":
        """The same run with one learning rate."""
        return self.replaced(recipe=self.recipe.replaced(learning_rate=learning_rate))
