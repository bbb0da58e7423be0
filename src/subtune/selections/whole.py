"""Whole tensors, selected by their names."""

from collections.abc import Iterable
from functools import cache

from subtune.core.errors import SubtuneError
from subtune.families import CANONICAL, naming
from subtune.selections.entries import Entries, Ranks, Shapes, Whole
from subtune.selections.kind import Kind, Work
from subtune.selections.patterns import MAX_LAYERS, Patterns, listed, matching

# The names that every encoder has, in as many layers as a pattern may name.
EVERY_NAME: Shapes = dict.fromkeys(CANONICAL.checkpoint_names(MAX_LAYERS), ())


class WholeTensors(Kind):
    """Whole tensors by name: those that ``parameters`` match and ``without`` does not.

    In a pattern ``*`` stands for one dotted part of a name, ``**`` for any number of parts, and
    ``4-8`` or ``4-`` for a range of layers, counted from 0, both ends included.
    """

    parameters: Patterns
    without: Patterns | None = None

    def names(self, shapes: Shapes) -> list[str]:
        """Names of the encoder's tensors that train, in the model's order.

        Raises:
            SubtuneError: a pattern matches no tensor of this model.
        """
        left_out = set(matching(self.without or (), shapes))
        return [name for name in matching(self.parameters, shapes) if name not in left_out]

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return dict.fromkeys(self.names(shapes), Whole())

    def work(self, of: Kind | None = None) -> Work:
        if set(self.parameters) <= set(self.without or ()):
            return Work.NOTHING
        return Work.MATRICES if _holds_a_matrix(self) else Work.VECTORS

    def in_words(self) -> str:
        if "**" in (self.without or ()):
            return "nothing"
        without = f" without {listed(self.without)}" if self.without else ""
        return listed(self.parameters) + without


def require_whole(selection: Kind) -> WholeTensors:
    """The selection, if it is of this kind.

    Raises:
        SubtuneError: it is of another.
    """
    if not isinstance(selection, WholeTensors):
        raise SubtuneError("a random draw or LoRA, expected whole parameters")
    return selection


@cache
def _holds_a_matrix(selection: WholeTensors) -> bool:
    """Whether a matrix trains, judged by the names that every encoder has.

    Patterns of names that only other models have are judged as they are written.
    """
    try:
        names: Iterable[str] = selection.names(EVERY_NAME)
    except SubtuneError:
        names = selection.parameters
    return any(not name.endswith(".bias") and not naming.is_norm(name) for name in names)
