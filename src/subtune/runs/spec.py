"""Specs: all settings that affect the result of a step, such as tokenizing texts or training a run.

Increase a step's version in this module if the same spec no longer gives the same result, or if a
default changes: ids and records leave out fields whose value is the default.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, field_validator

from subtune.core.ids import HashableModel, content_id
from subtune.methods import Selection
from subtune.methods.baselines import Baseline
from subtune.methods.selection import TrainingCost, WholeTensors
from subtune.methods.single_entries import ChosenEntries, Ranked, Scope, Top, TopSettings
from subtune.tasks import Task, TaskSpec

DATA_VERSION = 1
TOKENS_VERSION = 1
FISHER_VERSION = 1
MASK_VERSION = 1
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
    """A pretrained model and its pooling, without its path and its name in a configuration.

    Attributes:
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
        version: the commit on the hub, or a hash of the splits' files.
        splits: the names of the splits, by default those for training and evaluation.
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
        tokenizer: the content id of the model whose tokenizer is used.
        max_length: the largest number of tokens of an example.
        doc_stride: a text with more than ``max_length`` tokens is split into overlapping examples,
            which start this many tokens apart. None means that long texts are truncated.
        apart: whether each text of a pair is tokenized separately.
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


class Fold(HashableModel):
    """A fold on which a run is scored in cross-validation. The run trains on all other folds.

    The fold's examples replace the task's first evaluation split.

    Attributes:
        of: the number of folds into which the training examples are split.
        number: the index of this fold, from 0.
        partition: the seed with which `subtune.data.subsets` divides the examples into folds.
        rows: the maximum number of scored examples of the fold; None means all. For scorers, each
            label keeps at least one row.
        version: the version of the code that divides the examples. Records without this field have
            version 1, in which folds depended on token ids. Plans use `FOLD_VERSION`.
    """

    of: int = Field(ge=2)
    number: int = Field(ge=0)
    partition: int = Field(default=0, ge=0)
    rows: int | None = Field(default=None, ge=1)
    version: int = 1


class FisherSpec(HashableModel):
    """The Fisher information or derivatives of a model's parameters, before fine-tuning.

    Attributes:
        rows: the number of training rows that are sampled; None means all.
        seed: the seed of the sample and of the untrained classifier.
        in_full: the matrices for which the information of every entry is stored, as for all
            vectors. For other matrices, only the sum over the entries is stored.
        labels: whether the labels of a regression task are standardised, as in `Recipe`.
        fold: the fold whose examples are left out; None means no cross-validation.
        derivative: the derivative that the step `gradient` computes.
    """

    model: ModelSpec
    tokens: TokensSpec
    rows: int | None = Field(default=None, ge=1)
    seed: int = 0
    in_full: WholeTensors | None = None
    labels: Labels = "raw"
    fold: Fold | None = None
    derivative: Literal["gradient", "hessian_gradient", "synflow_gradient"] = "gradient"
    fisher_version: int = FISHER_VERSION

    @property
    def key(self) -> str:
        return f"{self.tokens.data.task.name}-{self.id}"


class MaskSpec(HashableModel):
    """The entries that a rule scores highest, on one or several tasks.

    Attributes:
        top: the selection, without its scope.
        code: the hash of the rule's code; None for a built-in rule.
        needs: the arguments of the rule: names of `subtune.methods.rules.OF_TENSOR`, and `RNG`.
        head: the head of the model for the task of the runs, which have no other tensors.
        samples: the examples of each task on which the rule is called. Rules that do not depend on
            the task are called for the first task only.
        seed: the seed of random numbers; 0 for rules that need none.
    """

    top: TopSettings
    code: str | None = None
    needs: tuple[str, ...]
    head: str
    samples: tuple[FisherSpec, ...]
    seed: int = 0
    mask_version: int = MASK_VERSION

    def list_samples(self, need: str) -> list[FisherSpec]:
        """The specs of an argument of the rule, one for each task; empty if it needs none."""
        if need not in self.needs:
            return []
        about: dict[str, Any] = {}
        if need == "hessian_gradient":
            # The product depends on all tensors of which the gradient is taken.
            about = {"derivative": need, "in_full": self.top.tensors}
        elif need == "synflow_gradient":
            # No examples are read, so all folds and numbers of rows have the same derivative.
            about = {"derivative": need, "rows": None, "fold": None, "seed": 0}
        return [sample.replace(**about) for sample in self.samples]

    @property
    def as_top(self) -> Top:
        """The selection of a mask of a fraction by Fisher information, whose ids are older."""
        assert self.top.share
        fishers = [sample.json_types for sample in self.samples]
        content = {"of": self.top.tensors.json_types, "fishers": fishers, "ranking_version": 1}
        return Top(top=Ranked(ranking=content_id(content), fraction=self.top.share))


class Recipe(HashableModel):
    """The hyperparameters of a run that trains with AdamW and is evaluated after every epoch.

    Attributes:
        warmup: the fraction of all training steps in which the learning rate increases from 0.
        train_rows: train on this many examples, the first after shuffling; None means all.
        patience: stop after this many epochs without a better score; None means no early stopping.
        fold: the fold on which the run is scored; None means no cross-validation.
        refit: the number of epochs after which a refit stops, or None for other runs. The
            learning-rate schedule still covers ``epochs``. A refit is not scored, and keeps the
            values of its last epoch.
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


class FitRecipe(HashableModel):
    """The hyperparameters of a run that fits a baseline to texts or embeddings.

    Fields have the same meaning as in `Recipe`, and the same examples are drawn for the same seed.
    The number ``refit`` only states that the run is a refit. ``code`` is the hash of the user's own
    code that builds the estimator, or None.
    """

    train_rows: int | None = Field(default=None, ge=1)
    fold: Fold | None = None
    refit: int | None = Field(default=None, ge=1)
    class_weights: ClassWeights | None = None
    code: str | None = None
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
    recipe: Recipe | FitRecipe
    seed: int
    recipe_version: int = RECIPE_VERSION

    @property
    def training_recipe(self) -> Recipe:
        """The recipe of a run that trains the model instead of fitting a regression."""
        assert isinstance(self.recipe, Recipe)
        return self.recipe

    @property
    def is_baseline(self) -> bool:
        """True if the run fits a baseline, and trains nothing in the model."""
        return isinstance(self.recipe, FitRecipe)

    @property
    def fit_recipe(self) -> FitRecipe:
        """The recipe of a run that fits a baseline."""
        assert isinstance(self.recipe, FitRecipe)
        return self.recipe

    @property
    def reads_texts(self) -> bool:
        """True if the run reads the texts themselves, without token ids and without a model."""
        return isinstance(self.selection, Baseline) and self.selection.reads_texts

    def work(self, masked: Mapping[str, WholeTensors]) -> TrainingCost:
        """Return the most expensive kind of parameter that is trained.

        ``masked`` maps the names of masks to the tensors of their entries.
        """
        return masked.get(self.selection.mask_name or "", self.selection).work()

    def sharing_key(self, masked: Mapping[str, WholeTensors], on_gpu: bool) -> Hashable:
        """Return a key that is equal for runs that can share training steps.

        Such runs have the same batches in the same order, and the same `work`. They can differ only
        in the learning rate and, if they train only vectors or only the classifier, in the
        selection. The key of any other run is its id: a regression has no training steps, each run
        of diff pruning has its own initial values, and on a CPU, sharing the steps of runs that
        train matrices would save no time.
        """
        work = self.work(masked)
        is_alone = work is TrainingCost.DIFFERENCES or (work.trains_matrices and not on_gpu)
        if is_alone or self.is_baseline:
            return self.id
        recipe = self.recipe.model_dump_json(exclude={"learning_rate"})
        selection = None if work in (TrainingCost.NOTHING, TrainingCost.VECTORS) else self.selection
        return self.model.id, self.tokens.id, recipe, self.seed, work, selection

    @cached_property
    def _by_learning_rate(self) -> dict[float, "RunSpec"]:
        """The specs that `with_learning_rate` returned. `compare` asks for them after each run."""
        return {}

    def with_learning_rate(self, learning_rate: float) -> "RunSpec":
        if learning_rate not in self._by_learning_rate:
            recipe = self.recipe.replace(learning_rate=learning_rate)
            self._by_learning_rate[learning_rate] = self.replace(recipe=recipe)
        return self._by_learning_rate[learning_rate]

    def with_entries(self, find: Callable[[str], str]) -> Self:
        """Replace the id of a mask by a hash of its entries, which ``find`` returns."""
        if not isinstance(self.selection, ChosenEntries):
            return self
        return self.replace(selection=ChosenEntries(entries=find(self.selection.entries)))

    def make_refit(self, epochs: int) -> "RunSpec":
        """Return the run's refit, which trains on all folds and stops after ``epochs``."""
        recipe = self.recipe.replace(fold=None, refit=epochs)
        if isinstance(recipe, Recipe):
            recipe = recipe.replace(patience=None)
        return self.replace(recipe=recipe)


class SearchSpec(HashableModel):
    """A search for the learning rate of a method. All seeds and folds use the chosen rate.

    Attributes:
        run: the run that the search trains, with the first of ``rates`` as its learning rate.
        rates: the initial list of learning rates, in ascending order.
    """

    run: RunSpec
    rates: tuple[PositiveFloat, ...] = Field(min_length=2)
    search_version: int = SEARCH_VERSION

    def with_entries(self, find: Callable[[str], str]) -> Self:
        return self.replace(run=self.run.with_entries(find))


class PlannedRun(HashableModel):
    """A run in a plan, with its names in the tables and figures of an experiment.

    The names change the id of the planned run, but neither its `key` nor the id of ``spec``.

    Attributes:
        spec: the run's spec. If a search chooses the learning rate, the spec has the first of the
            search's ``rates``.
        search: the search that chooses the learning rate.
        masks: the masks that complete the selections of ``spec`` and of the search's run, which may
            have other training examples; empty for other selections. A plan has the ids of masks as
            the selected entries, which `with_entries` replaces.
        model_name: the model's name in the configuration.
        method: the method's name.
        train_rows: the number of training examples, even if the recipe does not limit it.
        seed: the experiment's seed. If a method does not depend on the seed, ``spec`` has seed 0,
            and the result of this run is used for all seeds.
        fraction: the fraction of the method's entries in the mask; None without a mask.
        scope: the tasks whose examples determine a mask's entries; None without a mask.
    """

    spec: RunSpec
    search: SearchSpec | None = None
    masks: tuple[MaskSpec, ...] = ()
    model_name: str
    method: str
    train_rows: int
    seed: int
    fraction: float | None = None
    scope: Scope | None = None

    @cached_property
    def key(self) -> str:
        """The id of ``spec``, or a hash of ``spec``, the search and the masks that complete it."""
        if self.masks and isinstance(self.spec.selection, ChosenEntries):
            # The key does not depend on which entries a mask has, because plans do not know it.
            planned = self.with_entries(lambda mask: "").replace(masks=())
            return content_id({"run": planned.key, "masks": [mask.id for mask in self.masks]})
        if self.search is None:
            return self.spec.id
        return content_id({"run": self.spec.json_types, "search": self.search.id})

    @property
    def task_name(self) -> str:
        return self.spec.tokens.data.task.name

    @property
    def setting(self) -> tuple[Hashable, ...]:
        """The values that are equal for runs that differ only in learning rate, seed and fold."""
        names = self.model_name, self.task_name, self.method
        return *names, self.fraction, self.scope, self.train_rows

    def with_entries(self, find: Callable[[str], str]) -> Self:
        if not self.masks:
            return self
        search = self.search and self.search.with_entries(find)
        return self.replace(spec=self.spec.with_entries(find), search=search)

    def with_chosen_rate(self, found: Mapping[str, Mapping[str, Any]]) -> RunSpec:
        """Return ``spec`` with its search's learning rate. ``found`` maps search ids to results."""
        if self.search is None:
            return self.spec
        return self.spec.with_learning_rate(found[self.search.id]["learning_rate"])
