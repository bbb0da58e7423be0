"""Specs of runs, and of searches for their learning rates."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from subtune.core.ids import Value
from subtune.selections import Selection
from subtune.specs.inputs import Labels, ModelSpec, TokensSpec

RECIPE_VERSION = 5
SEARCH_VERSION = 1

# All learning rates of configurations and searches are below this one.
LEARNING_RATES_BELOW = 10

# ``tf32`` is fp32 whose products GPUs may shorten to 10 bits of mantissa.
Precision = Literal["fp32", "tf32", "bf16"]
# The loss may give rarer label words larger weights.
ClassWeights = Literal["balanced"]
LearningRate = Annotated[float, Field(gt=0)]


class Fold(Value):
    """A fold of cross-validation: a run trains on the other folds and is scored on this one.

    The fold's rows replace the task's first evaluation split.

    Attributes:
        of: the number of folds into which a partition divides the training rows.
        number: the fold's index, from 0.
        partition: the index of the partition, which `subtune.data.batches` draws.
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
    def training(self) -> Recipe:
        """The recipe of a run that trains."""
        assert isinstance(self.recipe, Recipe)
        return self.recipe

    def with_learning_rate(self, learning_rate: float) -> "RunSpec":
        """Return the run that differs only in its learning rate."""
        return self.replaced(recipe=self.recipe.replaced(learning_rate=learning_rate))

    def refitted(self, epochs: int) -> "RunSpec":
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
    rates: tuple[LearningRate, ...] = Field(min_length=2)
    search_version: int = SEARCH_VERSION


class PlannedRun(Value):
    """A run whose learning rate may still be unknown.

    Attributes:
        run: the run; if a search finds its learning rate, it has the first of the search's rates.
        search: the id of that search, if there is one.
    """

    run: RunSpec
    search: str | None = None

    @property
    def key(self) -> str:
        """The run's name in plans: the run's id, or another one if a search finds its rate."""
        return self.id if self.search else self.run.id

    def with_found_rate(self, rates: Mapping[str, float]) -> RunSpec:
        """Return the run itself, with the learning rate that its search found, if it has one.

        ``rates``: the found learning rates, by the search's id.
        """
        return self.run.with_learning_rate(rates[self.search]) if self.search else self.run
