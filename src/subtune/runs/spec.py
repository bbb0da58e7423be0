"""Specs: the values that decide each step's result, from a dataset's rows to a run.

Each step's code has a version, which stands here. Raise the version when the same spec no longer
gives the same result. Ids and records leave out fields that have their default, so a default never
changes without a new version.
"""

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, field_validator

from subtune.core.ids import Value, content_id
from subtune.methods import Selection
from subtune.methods.added import TfIdf
from subtune.methods.selection import WholeTensors, Work
from subtune.methods.single_entries import Scope
from subtune.tasks import Task, TaskSpec

DATA_VERSION = 1
TOKENS_VERSION = 1
FISHER_VERSION = 1
RANKING_VERSION = 1
RECIPE_VERSION = 5
SEARCH_VERSION = 1

# All learning rates of configurations and searches are below this one.
LEARNING_RATES_BELOW = 10

# A regression trains on its labels as they are, or on labels with mean 0 and deviation 1.
Labels = Literal["raw", "standard"]
# ``tf32`` is fp32 whose products GPUs may shorten to 10 bits of mantissa.
Precision = Literal["fp32", "tf32", "bf16"]
# The loss may give rarer label words larger weights.
ClassWeights = Literal["balanced"]


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
    splits: tuple[str, ...] = Field(default_factory=lambda data: data["task"].labelled_splits)
    data_version: int = DATA_VERSION

    @field_validator("task", mode="before")
    @classmethod
    def _keep_spec_fields(cls, task: Any) -> Any:
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


class FisherSpec(Value):
    """The Fisher information of a model's parameters on one task, before fine-tuning.

    Vectors have the information of every entry. So have the matrices that ``in_full`` selects; all
    other matrices have only the sum over their entries.

    Attributes:
        rows: the number of training examples that are sampled; default: all.
        seed: the seed of the sample and of the untrained classifier.
        in_full: the selected matrices.
        labels: the labels of a `Recipe`.
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
    """A ranking of selected entries by Fisher information, which is summed over tasks.

    Attributes:
        of: the selection of the entries.
        fishers: the information of each task.
    """

    of: WholeTensors
    fishers: tuple[FisherSpec, ...]
    ranking_version: int = RANKING_VERSION


class Fold(Value):
    """A fold of cross-validation: a run trains on the other folds and is scored on this one.

    The fold's rows replace the task's first evaluation split.

    Attributes:
        of: the number of folds into which a partition divides the training rows.
        number: the fold's index, from 0.
        partition: the index of the partition, which `subtune.tasks.examples` draws.
        rows: the largest number of the fold's rows that are scored; default: all.
    """

    of: int = Field(ge=2)
    number: int = Field(ge=0)
    partition: int = Field(default=0, ge=0)
    rows: int | None = Field(default=None, ge=1)


class Recipe(Value):
    """The recipe of a run: AdamW on the selected entries, with an evaluation after every epoch.

    Attributes:
        warmup: the share of all steps in which the learning rate rises from 0.
        train_rows: the number of training rows, taken from the start of the training set's first
            shuffle; default: all.
        patience: the run ends after this many epochs without a better score.
        labels: whether a regression trains on its labels as they are, or with mean 0 and deviation
            1.
        fold: the fold on which the run is scored; it trains on the rows outside.
        refit: the run ends after this many epochs of its schedule, keeps the last one's values, and
            scores none.
        class_weights: whether the loss weighs each label word by the inverse of its frequency.
    """

    learning_rate: PositiveFloat
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
    """The recipe of a run that trains nothing in the model: a regression is fitted to texts.

    Attributes:
        train_rows: the regression is fitted to the rows on which a run of the same seed trains.
        fold: the fold on which the regression is scored; it is fitted to the rows outside.
        refit: if set, nothing is scored.
        class_weights: the class weights of a `Recipe`.
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

    @property
    def training_recipe(self) -> Recipe:
        """The recipe of a run that trains."""
        assert isinstance(self.recipe, Recipe)
        return self.recipe

    @property
    def reads_texts(self) -> bool:
        """True if the run reads whole texts, and neither tokens nor a model."""
        return isinstance(self.selection, TfIdf)

    def work(self, ranked: Mapping[str, WholeTensors]) -> Work:
        """Return the kind of what the run trains. A mask is of the kind of the ranked tensors.

        ``ranked``: the tensors that each ranking ranks, by the ranking's id.
        """
        ranking = self.selection.ranking
        return (ranked[ranking] if ranking else self.selection).work()

    def step_key(self, ranked: Mapping[str, WholeTensors], on_gpu: bool) -> Hashable:
        """Return what is equal in runs that share training steps.

        They train on the same batches in the same order, so only the selection and the learning
        rate may differ, and they have the same kind of work. Runs that train vectors may train
        different ones; all other runs have the same selection. The key of a run that shares no
        steps is its id: each run of Diff pruning has its own initial values, and on a CPU sharing
        saves no time if matrices train.

        Args:
            ranked: the argument of `work`.
            on_gpu: whether the run trains on a GPU.
        """
        work = self.work(ranked)
        if work is Work.DIFFERENCES or (work.trains_matrices and not on_gpu):
            return self.id
        recipe = self.recipe.model_dump_json(exclude={"learning_rate"})
        selection = None if work in (Work.NOTHING, Work.VECTORS) else self.selection
        return self.model.id, self.tokens.id, recipe, self.seed, work, selection

    def with_learning_rate(self, learning_rate: float) -> "RunSpec":
        """Return the run that differs only in its learning rate."""
        return self.replaced(recipe=self.recipe.replaced(learning_rate=learning_rate))

    def make_refit(self, epochs: int) -> "RunSpec":
        """Return the refit of a fold's run: it trains on the rows of all folds, for ``epochs``."""
        recipe = self.recipe.replaced(fold=None, refit=epochs)
        if isinstance(recipe, Recipe):
            recipe = recipe.replaced(patience=None)
        return self.replaced(recipe=recipe)


class SearchSpec(Value):
    """A search for the learning rate of all seeds and folds of a method.

    Attributes:
        run: the run that the search trains and scores; its learning rate is the first one.
        rates: the learning rates with which the search begins, in ascending order.
    """

    run: RunSpec
    rates: tuple[PositiveFloat, ...] = Field(min_length=2)
    search_version: int = SEARCH_VERSION


class PlannedRun(Value):
    """A row of the plan: a run, and an experiment's names for it in tables and figures.

    Its `key` and the id of its ``spec`` do not depend on these names; its own id does.

    Attributes:
        spec: the run. If a search finds its learning rate, it has the first of the search's rates.
        search: the id of that search, if there is one.
        model_name: the model's name in the configuration; like all names, empty for a run of a
            search.
        train_rows: the number of training rows, even if the recipe sets no limit.
        seed: the experiment's seed. If seeds do not change a run, the run has seed 0, and counts
            for all of them.
        fraction: the share of the method's entries that train; None for a whole method.
        scope: the tasks whose Fisher information chose these entries; None for a whole method.
    """

    spec: RunSpec
    search: str | None = None
    model_name: str = ""
    method: str = ""
    train_rows: int = 0
    seed: int = 0
    fraction: float | None = None
    scope: Scope | None = None

    @cached_property
    def key(self) -> str:
        """The run's name in plans: the run's id, or another one if a search finds its rate."""
        if self.search is None:
            return self.spec.id
        return content_id({"run": self.spec.written(), "search": self.search})

    @property
    def task_name(self) -> str:
        return self.spec.tokens.data.task.name

    def columns(self) -> dict[str, Any]:
        """Return the columns of tables that the run's record does not have.

        ``learning_rate`` is None if a search finds it.
        """
        recipe = self.spec.recipe
        return {
            "key": self.key,
            "search": self.search,
            "model": self.model_name,
            "task": self.task_name,
            "method": self.method,
            "fraction": self.fraction,
            "scope": self.scope,
            "train_rows": self.train_rows,
            "fold": recipe.fold.number if recipe.fold else None,
            "learning_rate": None if self.search else recipe.learning_rate,
            "seed": self.seed,
        }

    def with_found_rate(self, rates: Mapping[str, float]) -> RunSpec:
        """Return the run itself, with the learning rate that its search found, if it has one.

        ``rates``: the found learning rates, by the search's id.
        """
        return self.spec.with_learning_rate(rates[self.search]) if self.search else self.spec
