"""The values of every stage, from a dataset's rows to a run. Equal values have equal ids."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator

from subtune.tasks import Task
from subtune.values import Value

Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]

# Part of every run id: raised when the same spec would no longer give the same result.
RECIPE_VERSION = 4


class ModelSpec(Value):
    """A pretrained encoder.

    On the hub it is a ``repository`` at a ``version``; of local files ``version`` is a hash, and
    neither their place nor the name that a configuration gives them is part of the value.
    """

    source: Literal["hub", "files"]
    repository: str | None = None
    version: str


class DataSpec(Value):
    """The rows of one task.

    ``version`` pins their content: the hub's revision, or a hash of the files. Where the files lie
    is not part of the value.
    """

    task: Task
    source: Literal["hub", "tsv", "builtin", "files"]
    version: str

    @property
    def key(self) -> str:
        return f"{self.task.name}-{self.id}"


class TokensSpec(Value):
    """A task's token ids. ``tokenizer`` is the content id of the model whose tokenizer is used."""

    data: DataSpec
    tokenizer: str
    max_length: int = Field(ge=4, le=512)

    @property
    def key(self) -> str:
        return f"{self.data.task.name}-{self.id}"


class Parameters(Value):
    """Whole tensors by name: those that ``parameters`` match and ``without`` does not.

    In a pattern ``*`` stands for one dotted part of a name, ``**`` for any number of parts, and
    ``4-8`` or ``4-`` for a range of layers, counted from 0, both ends included.
    """

    parameters: Patterns
    without: Patterns | None = None


class FisherSpec(Value):
    """Fisher information of one task before fine-tuning.

    It is kept of every entry of the vectors, and of those matrices that ``in_full`` selects; of
    other matrices its sum is kept. ``rows`` limits the estimate to a sample of the training set,
    drawn by ``seed``, which also draws the classifier that no one has trained yet.
    """

    model: ModelSpec
    tokens: TokensSpec
    rows: int | None = Field(default=None, ge=1)
    seed: int = 0
    in_full: Parameters | None = None

    @property
    def key(self) -> str:
        return f"{self.tokens.data.task.name}-{self.id}"


class Draw(Value):
    """Entries drawn uniformly from what ``within`` selects.

    They are ``count``, or as many as ``as_many_as`` selects.
    """

    as_many_as: Patterns | None = None
    count: int | None = Field(default=None, ge=1)
    within: Patterns = ("**",)

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.as_many_as is None) == (self.count is None):
            raise ValueError("expected exactly one of as_many_as, count")
        return self


class Lines(Value):
    """One random line of every matrix that ``lines_of`` match, and ``whole`` tensors beside them.

    A line is a column; of a matrix with at least as many rows as columns, by coin flip, it is as
    many random rows as hold the same count.
    """

    lines_of: Patterns
    whole: Patterns | None = None


class Random(Value):
    """Entries drawn at random, by the run's seed."""

    random: Annotated[
        Annotated[Draw, Tag("Draw")] | Annotated[Lines, Tag("Lines")],
        Discriminator(lambda value: _kind_of_draw(value)),
    ]


def _kind_of_draw(value: Any) -> str:
    given = value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())
    return "Lines" if "lines_of" in given else "Draw"


class RankingSpec(Value):
    """A ranking of the entries of ``of``, by the information summed over tasks."""

    of: Parameters
    fishers: tuple[FisherSpec, ...]


class LowRank(Value):
    """Updates of rank ``rank`` to the matrices that ``targets`` match, times ``alpha / rank``."""

    targets: Patterns
    rank: int = Field(ge=1)
    alpha: float = Field(gt=0)


class Lora(Value):
    """Low-rank updates of matrices (LoRA), and the whole tensors that train beside them."""

    lora: LowRank
    parameters: Patterns | None = None


class Ranked(Value):
    """The first ⌈fraction·n⌉ entries of a ranking, by its content id."""

    ranking: str
    fraction: Fraction


class Top(Value):
    """The top fraction of a ranking of entries by Fisher information."""

    top: Ranked


Selection = Parameters | Random | Lora | Top
SELECTION: TypeAdapter[Selection] = TypeAdapter(Selection)


class Recipe(Value):
    """How a run trains: AdamW on the selected entries, evaluated after every epoch.

    ``warmup`` is the share of all steps in which the learning rate rises from 0. ``train_rows``
    limits training to the first rows of the training set's first shuffle.
    """

    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    epochs: int = Field(ge=1)
    schedule: Literal["constant", "linear"]
    warmup: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    max_grad_norm: float = Field(gt=0)
    precision: Literal["fp32", "bf16"]
    train_rows: int | None = Field(default=None, ge=1)


class RunSpec(Value):
    """Everything that decides a run's result, and nothing else."""

    model: ModelSpec
    tokens: TokensSpec
    selection: Selection
    recipe: Recipe
    seed: int
    recipe_version: int = RECIPE_VERSION
