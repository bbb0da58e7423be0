"""Specs of Fisher information, and of rankings by it."""

from pydantic import Field

from subtune.core.ids import Value
from subtune.selections.kind import WholeTensors
from subtune.specs.inputs import Labels, ModelSpec, TokensSpec

FISHER_VERSION = 1
RANKING_VERSION = 1


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
