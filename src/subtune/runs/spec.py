"""Specs: all settings that affect the result of a step, such as tokenizing texts or training a run.

The code of each step has a version, which this module defines. Raise the version when the same spec
no longer gives the same result. Ids and records leave out fields whose value is the default, so
raise the version when a default changes, too.
"""

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, field_validator

from subtune.core.ids import HashableModel, content_id
from subtune.methods import Selection
from subtune.methods.added import TfIdf
from subtune.methods.selection import TrainingCost, WholeTensors
from subtune.methods.single_entries import Scope
from subtune.tasks import Task, TaskSpec

DATA_VERSION = 1
TOKENS_VERSION = 1
FISHER_VERSION = 1
RANKING_VERSION = 1
RECIPE_VERSION = 5
FIT_VERSION = 1
SEARCH_VERSION = 1
FOLD_VERSION = 2

# The exclusive upper bound of learning rates in configurations and searches.
LEARNING_RATES_BELOW = 10

# The labels of a regression task: unchanged, or standardised to mean 0 and standard deviation 1.
Labels = Literal["raw", "standard"]
# ``tf32`` is fp32, but GPUs may round the inputs of matrix products to 10 bits of mantissa.
Precision = Literal["fp32", "tf32", "bf16"]
# ``balanced`` gives a larger weight in the loss to classes with fewer examples.
ClassWeights = Literal["balanced"]


class ModelSpec(HashableModel):
    """A pretrained model, and the pooling of its sequence classifier.

    The path of local files and the model's name in a configuration are not part of the spec.

    Attributes:
        source: whether the model comes from the hub or from local files.
        repository: the model's name on the hub; None for local files.
        version: the commit of the repository, or a hash of the local files.
        pooling: whether the classifier reads the first token or the mean of all tokens. None means
            the pooling of the model's class in transformers: the first token in most encoders.
        initial_classifier: whether the classifier is drawn from a normal distribution or by
            transformers' code, for types in `subtune.models.model_config.OWN_INITIALISATION`.
    """

    source: Literal["hub", "files"]
    repository: str | None = None
    version: str
    pooling: Literal["first", "mean"] | None = None
    initial_classifier: Literal["normal", "transformers"] = "normal"


class DataSpec(HashableModel):
    """Examples of some splits of one task. The path of local files is not part of the spec.

    Attributes:
        source: the kind of source that the examples are read from.
        version: the commit on the hub, or a hash of the splits' files.
        splits: the names of the splits. The default is the splits for training and evaluation.
        data_version: the version of the code that reads the examples.
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


class TokensSpec(HashableModel):
    """The token ids of a task's examples.

    Attributes:
        data: the examples.
        tokenizer: the content id of the model whose tokenizer is used.
        max_length: the largest number of tokens of an example.
        doc_stride: a text with more than ``max_length`` tokens is split into overlapping examples,
            which start this many tokens apart. None means that long texts are truncated.
        apart: whether each text of a pair is tokenized separately.
        tokens_version: the version of the code that tokenizes.
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


class FisherSpec(HashableModel):
    """The Fisher information of a model's parameters on one task, before fine-tuning.

    For vectors and for the tensors that ``in_full`` selects, the information of every entry is
    stored. For each of the other matrices, only the sum over its entries is stored.

    Attributes:
        rows: the number of training examples that are sampled; None means all.
        seed: the seed of the sample and of the untrained classifier.
        in_full: the selection of tensors for which the information of every entry is stored.
        labels: whether the labels of a regression task are standardised, as in `Recipe`.
        fisher_version: the version of the code that computes the information.
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


class RankingSpec(HashableModel):
    """A ranking of the entries of a selection by their Fisher information, summed over tasks.

    Attributes:
        of: the selection whose entries are ranked.
        fishers: the specs of the Fisher information, one per task.
        ranking_version: the version of the code that ranks entries.
    """

    of: WholeTensors
    fishers: tuple[FisherSpec, ...]
    ranking_version: int = RANKING_VERSION


class Fold(HashableModel):
    """A fold on which a run is scored in cross-validation. The run trains on all other folds.

    The fold's examples replace the task's first evaluation split.

    Attributes:
        of: the number of folds into which the training examples are split.
        number: the index of this fold, from 0.
        partition: the seed with which `subtune.tasks.row_sets` divides the examples into folds.
        rows: the maximum number of scored examples of the fold; None means all.
        version: the version of the code that divides the examples. Records without this field have
            version 1, in which folds depended on token ids. Plans use `FOLD_VERSION`.
    """

    of: int = Field(ge=2)
    number: int = Field(ge=0)
    partition: int = Field(default=0, ge=0)
    rows: int | None = Field(default=None, ge=1)
    version: int = 1


class Recipe(HashableModel):
    """The hyperparameters of a run that trains the selected entries with AdamW.

    The run is evaluated after every epoch.

    Attributes:
        warmup: the fraction of all training steps in which the learning rate increases from 0.
        train_rows: the number of training examples; None means all. The examples are the first ones
            of the training set after shuffling.
        patience: the run stops early after this many epochs without a better score; None means no
            early stopping.
        labels: whether the labels of a regression task are used unchanged, or standardised to
            mean 0 and standard deviation 1.
        fold: the fold on which the run is scored. The run trains on the examples of all other
            folds. None means no cross-validation.
        refit: for a refit, the number of epochs after which the run stops. The learning-rate
            schedule still covers ``epochs``. A refit is not scored, and keeps the values of its
            last epoch. None if the run is not a refit.
        class_weights: whether classes with fewer examples get larger weights in the loss.
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


class Fit(HashableModel):
    """The hyperparameters of a run that fits a regression to texts or embeddings.

    Attributes:
        train_rows: as in `Recipe`. With the same seed, the same examples are drawn.
        fold: the fold on which the regression is scored. The regression is fitted to the examples
            of all other folds.
        refit: a number, which has no meaning, if the run is a refit; None for other runs. A refit
            is not scored.
        class_weights: whether classes are weighted, as in `Recipe`.
        fit_version: the version of the code that fits regressions.
    """

    train_rows: int | None = Field(default=None, ge=1)
    fold: Fold | None = None
    refit: int | None = Field(default=None, ge=1)
    class_weights: ClassWeights | None = None
    fit_version: int = FIT_VERSION

    # Plans and tables read these attributes from the recipe of every run.
    learning_rate: ClassVar[None] = None
    batch_size: ClassVar[int] = 1
    epochs: ClassVar[int] = 1
    precision: ClassVar[Precision] = "fp32"


class RunSpec(HashableModel):
    """The settings that affect the result of a run, and no other settings."""

    model: ModelSpec
    tokens: TokensSpec
    selection: Selection
    recipe: Recipe | Fit
    seed: int
    recipe_version: int = RECIPE_VERSION

    @property
    def training_recipe(self) -> Recipe:
        """The recipe of a run that trains the model, and does not fit a regression."""
        assert isinstance(self.recipe, Recipe)
        return self.recipe

    @property
    def reads_texts(self) -> bool:
        """True if the run reads texts as they are, without token ids and without a model."""
        return isinstance(self.selection, TfIdf)

    def work(self, ranked: Mapping[str, WholeTensors]) -> TrainingCost:
        """Return the most expensive kind of parameter that the run trains.

        For a mask, the kind is that of the tensors in the mask's ranking.

        Args:
            ranked: maps the id of each ranking to the selection whose entries are ranked.
        """
        ranking = self.selection.ranking
        return (ranked[ranking] if ranking else self.selection).work()

    def step_key(self, ranked: Mapping[str, WholeTensors], on_gpu: bool) -> Hashable:
        """Return a key that is equal for runs that can share training steps.

        Runs with the same key have the same batches in the same order, and the same `work`. They
        can differ only in the learning rate and, if they train only vectors or only the classifier,
        in the selection. If a run cannot share training steps, its key is its id: a regression has
        no training steps. Each run of Diff
        pruning has its own initial values, so it shares no steps. On a CPU, runs that train
        matrices share no steps either, because sharing steps would save no time.

        Args:
            ranked: as in `work`.
            on_gpu: whether the run trains on a GPU.
        """
        work = self.work(ranked)
        is_alone = work is TrainingCost.DIFFERENCES or (work.trains_matrices and not on_gpu)
        if is_alone or isinstance(self.recipe, Fit):
            return self.id
        recipe = self.recipe.model_dump_json(exclude={"learning_rate"})
        selection = None if work in (TrainingCost.NOTHING, TrainingCost.VECTORS) else self.selection
        return self.model.id, self.tokens.id, recipe, self.seed, work, selection

    def with_learning_rate(self, learning_rate: float) -> "RunSpec":
        """Return a copy of the run with another learning rate."""
        return self.replace(recipe=self.recipe.replace(learning_rate=learning_rate))

    def make_refit(self, epochs: int) -> "RunSpec":
        """Return the run's refit. A refit trains on the examples of all folds.

        Args:
            epochs: the number of epochs after which the refit stops.
        """
        recipe = self.recipe.replace(fold=None, refit=epochs)
        if isinstance(recipe, Recipe):
            recipe = recipe.replace(patience=None)
        return self.replace(recipe=recipe)


class SearchSpec(HashableModel):
    """A search for the learning rate of a method. All seeds and folds use the chosen rate.

    Attributes:
        run: the run that the search trains with different learning rates. The learning rate in this
            spec is the first of ``rates``.
        rates: the initial list of learning rates, in ascending order.
        search_version: the version of the code that searches.
    """

    run: RunSpec
    rates: tuple[PositiveFloat, ...] = Field(min_length=2)
    search_version: int = SEARCH_VERSION


class PlannedRun(HashableModel):
    """A run in a plan, with its names in the tables and figures of an experiment.

    The names change the id of the planned run, but neither its `key` nor the id of ``spec``.

    Attributes:
        spec: the run. If a search chooses its learning rate, this spec has the first of the
            search's ``rates``.
        search: the id of the search that chooses the learning rate; None without a search.
        model_name: the model's name in the configuration; empty for a run that a search trains.
        method: the method's name; empty for a run that a search trains.
        train_rows: the number of training examples, even if the recipe does not limit it.
        seed: the experiment's seed. If a method does not depend on the seed, ``spec`` has seed 0,
            and the result of this run is used for all seeds.
        fraction: the fraction of the method's entries in the mask; None without a mask.
        scope: the tasks whose Fisher information is summed for the ranking of a mask; None without
            a mask.
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
        """The key of the run in plans.

        The key is the id of ``spec`` or, if a search chooses the learning rate, a hash of ``spec``
        and the search, because the final spec is not known yet.
        """
        if self.search is None:
            return self.spec.id
        return content_id({"run": self.spec.to_json_types(), "search": self.search})

    @property
    def task_name(self) -> str:
        return self.spec.tokens.data.task.name

    def columns(self) -> dict[str, Any]:
        """Return the values that describe the run in tables, by column.

        ``learning_rate`` is None if a search chooses it.
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

    def with_chosen_rate(self, rates: Mapping[str, float]) -> RunSpec:
        """Return the run's spec. If a search chose the learning rate, the spec has this rate.

        Args:
            rates: maps the id of each search to the chosen learning rate.
        """
        return self.spec.with_learning_rate(rates[self.search]) if self.search else self.spec
