"""What every kind of selection says of itself."""

from abc import abstractmethod
from enum import Enum

from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.families.base import is_classifier
from subtune.selections.entries import Entries, Indices, Ranks, Shapes, Whole


class Work(Enum):
    """What a selection trains, and what its training step costs in units of the forward pass.

    The way back computes gradients of what layers read, and where matrices train, theirs too. Of a
    frozen encoder there is no way back.
    """

    NOTHING = 1.0
    VECTORS = 2.0
    ENTRIES = 2.1
    LOW_RANK = 2.3
    MATRICES = 3.0


class Kind(Value):
    """Which parameters of an encoder train, said in data.

    A mapping is known to be of a kind by the kind's first field.
    """

    def resolve(self, shapes: Shapes, seed: int, ranks: Ranks | None = None) -> Entries:
        """The entries that train, the classifier's included.

        Args:
            shapes: canonical name to shape of every parameter, classifier included.
            seed: decides random draws.
            ranks: those of the selection's ``ranking``, where it has one.

        Raises:
            SubtuneError: the model has not what is selected.
        """
        classifier = dict.fromkeys(filter(is_classifier, shapes), Whole())
        entries = self.encoder_entries(shapes, seed, ranks or {})
        for name, entry in entries.items():
            if isinstance(entry, Indices) and len(shapes[name]) > 2:
                raise SubtuneError(
                    f"selection: {name!r} has {len(shapes[name])} dimensions, and trains only whole"
                )
        return entries | classifier

    @abstractmethod
    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        """The encoder's entries that train, as `resolve` has them."""

    @abstractmethod
    def work(self, of: "Kind | None" = None) -> Work:
        """What trains, judged by the names that every encoder has.

        Args:
            of: what the selection's ``ranking`` ranks, where it has one.
        """

    @abstractmethod
    def in_words(self) -> str:
        """What trains beside the classifier, as a line of text."""

    @property
    def ranking(self) -> str | None:
        """Content id of the ranking that the selection takes from."""
        return None
