"""Embeddings of the frozen model, for a regression of scikit-learn's: nothing of it trains."""

from subtune.core.content_ids import Value
from subtune.selections.kind import AbstractSelection, Entries, Ranks, Shapes, Work


class EmbeddingsSettings(Value):
    """The settings of a regression on embeddings: there are none yet."""


class Embeddings(AbstractSelection):
    """The frozen model's pooled embeddings, to which `subtune.training.embeddings` fits."""

    usual_work = Work.NOTHING
    embeddings: EmbeddingsSettings

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return {}

    def in_words(self) -> str:
        return "nothing: logistic or ridge regression on frozen embeddings"
