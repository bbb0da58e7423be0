"""The values that decide each stage's result, from a dataset's rows to a run.

Each stage's code has a version. Raise it when the same value no longer gives the same result.
Defaults are left out of ids and records, so a default never changes without a new version.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from subtune.core.content_ids import Value
from subtune.selections import Selection
from subtune.selections.added import Embeddings
from subtune.selections.kind import WholeTensors
from subtune.tasks import Task, TaskSpec

DATA_VERSION = 1
TOKENS_VERSION = 1
FISHER_VERSION = 1
RANKING_VERSION = 1
RECIPE_VERSION = 5
SEARCH_VERSION = 1

# Outside papers, a search is scored on one of this many folds of the training rows, if possible.
SEARCH_FOLDS = 5
# A search tries at most this many learning rates beyond the ends of its list.
OUTWARD = 4
# Configurations and searches have no larger learning rates.
LEARNING_RATES_BELOW = 10

# ``tf32`` is fp32 whose products GPUs may shorten to 10 bits of mantissa.
Precision = Literal["fp32", "tf32", "bf16"]
# A regression trains on its labels as they are, or on labels with mean 0 and deviation 1.
Labels = Literal["raw", "standard"]
# The loss may give rarer label words larger weights.
ClassWeights = Literal["balanced"]
LearningRate = Annotated[float, Field(gt=0)]


class ModelSpec(Value):
    """A pretrained encoder, and the tokens of a text that its sequence classifier reads.

    Without ``pooling``, the classifier reads what transformers' class reads: the first token in
    most encoders. On the hub ``version`` is a commit of the ``repository``. For local files it is a
    hash; neither their path nor their name in the configuration is part of the value.
    """

    source: Literal["hub", "files"]
    repository: str | None = None
    version: str
    pooling: Literal["first", "mean"] | None = None


class DataSpec(Value):
    """Rows of some splits of one task; by default the splits that train and evaluate.

    ``version`` fixes their content: the hub's commit, or a hash of the splits' files. The files'
    path is not part of the value.
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

    ``tokenizer`` is the content id of the model whose tokenizer is used. If a row longer than
    ``max_length`` is split into overlapping examples, each begins ``doc_stride`` tokens after the
    previous one. With ``apart``, each text of a pair is a separate example.
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


class FisherSpec(Value):
    """Fisher information of one task before fine-tuning.

    Every entry of vectors is kept, and every entry of the matrices that ``in_full`` selects. Other
    matrices keep only their sum. ``rows`` is the number of training examples to sample. ``seed``
    draws the sample and the untrained classifier. ``labels`` are those of a `Recipe`.
    """

    model: ModelSpec
    tokens: TokensSpec
    rows: int | None = Field(default=None, ge=1)
    seed: int = 0
    in_full: WholeTensors | None = None
    labels: Labels = "raw"
    fisher_version: int = FISHER_VERSION

    @property
    def key(self) -> str:
        return f"{self.tokens.data.task.name}-{self.id}"


class RankingSpec(Value):
    """A ranking of the entries that ``of`` selects, by information summed over tasks."""

    of: WholeTensors
    fishers: tuple[FisherSpec, ...]
    ranking_version: int = RANKING_VERSION


class Fold(Value):
    """A fold of cross-validation: a run trains on the other folds and is scored on this one.

    ``number`` is the fold's index, from 0, among the ``of`` folds of a ``partition`` of the
    training rows, which `subtune.data.batches` draws. The fold's rows replace the task's first
    evaluation split. With ``rows``, at most this many of the fold's rows are scored.
    """

    of: int = Field(ge=2)
    number: int = Field(ge=0)
    partition: int = Field(default=0, ge=0)
    rows: int | None = Field(default=None, ge=1)


class Recipe(Value):
    """The recipe of a run: AdamW on the selected entries, with an evaluation after every epoch.

    Attributes:
        warmup: the share of all steps in which the learning rate rises from 0.
        train_rows: the number of training rows: the first rows of the training set's first shuffle.
        patience: the run ends after this many epochs without a better score.
        labels: with ``standard``, a regression trains on labels with mean 0 and deviation 1.
        fold: the run trains on the rows outside the fold and is scored on those inside.
        refit: the run ends after this many epochs of its schedule and keeps the last one, unscored.
        class_weights: the loss weighs each label word by the inverse of its frequency.
    """

    learning_rate: LearningRate
    batch_size: int = Field(ge=1)
    epochs: int = Field(ge=1)
    schedule: Literal["constant", "linear"]
    warmup: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    max_grad_norm: float = Field(gt=0)
    precision: Precision
    train_rows: int | None = Field(default=None, ge=1)
    patience: int | None = Field(default=None, ge=1)
    labels: Labels = "raw"
    fold: Fold | None = None
    refit: int | None = Field(default=None, ge=1)
    class_weights: ClassWeights | None = None


class Fit(Value):
    """The recipe of a run that trains nothing: a regression is fitted to frozen embeddings.

    With ``train_rows``, the regression is fitted to the rows that a run of the same seed trains on;
    with a ``fold``, to the rows outside it. With ``refit``, nothing is scored. ``class_weights``
    are those of a `Recipe`.
    """

    train_rows: int | None = Field(default=None, ge=1)
    fold: Fold | None = None
    refit: int | None = Field(default=None, ge=1)
    class_weights: ClassWeights | None = None

    # Fields of `Recipe` that plans and tables read from every recipe.
    learning_rate: ClassVar[None] = None
    batch_size: ClassVar[int] = 1
    epochs: ClassVar[int] = 1
    precision: ClassVar[Precision] = "fp32"


class RunSpec(Value):
    """Everything that decides a run's result, and nothing else."""

    model: ModelSpec
    tokens: TokensSpec
    selection: Selection
    recipe: Recipe | Fit
    seed: int
    recipe_version: int = RECIPE_VERSION

    @model_validator(mode="after")
    def _recipe_fits_the_selection(self) -> Self:
        if isinstance(self.selection, Embeddings) != isinstance(self.recipe, Fit):
            raise ValueError("expected a recipe without training for embeddings, and for no other")
        return self

    @property
    def training(self) -> Recipe:
        """The recipe of a run that trains."""
        assert isinstance(self.recipe, Recipe)
        return self.recipe

    def at(self, learning_rate: float) -> "RunSpec":
        """Return the same run with another learning rate."""
        return self.replaced(recipe=self.recipe.replaced(learning_rate=learning_rate))

    def refit(self, epoch: int) -> "RunSpec":
        """Return the run that trains once more on the rows of all folds, until an epoch."""
        patient = {} if isinstance(self.recipe, Fit) else {"patience": None}
        return self.replaced(recipe=self.recipe.replaced(fold=None, refit=epoch, **patient))


class SearchSpec(Value):
    """A search for the learning rate of all seeds and folds of a method.

    ``run`` is the run that is scored, at the first rate. ``rates`` are those with which the search
    begins, in order.
    """

    run: RunSpec
    rates: tuple[LearningRate, ...] = Field(min_length=2)
    search_version: int = SEARCH_VERSION


class PlannedRun(Value):
    """A run whose learning rate may still be unknown: ``search`` is the id of its search.

    Until the search is done, the run has the first of the search's rates.
    """

    run: RunSpec
    search: str | None = None

    @property
    def key(self) -> str:
        """The name of the run in plans: the run's id, or another if a search finds its rate."""
        return self.id if self.search else self.run.id

    def at(self, learning_rate: float) -> RunSpec:
        """Return the run with the learning rate that its search found."""
        return self.run.at(learning_rate)
