"""Whole tensors, selected by their names."""

from collections.abc import Iterable
from functools import cache

from subtune.core.errors import SubtuneError
from subtune.families import CANONICAL, naming
from subtune.selections.entries import Entries, Ranks, Shapes, Whole
from subtune.selections.kind import AbstractSelection, Work
from subtune.selections.patterns import MAX_LAYERS, Patterns, listed, matching

# The names that every encoder has, in the most layers that a pattern may name.
EVERY_NAME: Shapes = CANONICAL.shapes(CANONICAL.dimensions({"num_hidden_layers": MAX_LAYERS}))


class WholeTensors(AbstractSelection):
    """Whole tensors whose names match ``parameters`` and do not match ``without``.

    In a pattern ``*`` stands for one dotted part of a name and ``**`` for any number of parts.
    ``4-8`` or ``4-`` is a range of layers, counted from 0, both ends included.
    """

    parameters: Patterns
    without: Patterns | None = None

    def names(self, shapes: Shapes) -> list[str]:
        """Return the names of the encoder's tensors that train, in the model's order.

        Raises:
            SubtuneError: a pattern matches no tensor of this model.
        """
        left_out = set(matching(self.without or (), shapes))
        return [name for name in matching(self.parameters, shapes) if name not in left_out]

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return dict.fromkeys(self.names(shapes), Whole())

    def work(self, of: AbstractSelection | None = None) -> Work:
        if set(self.parameters) <= set(self.without or ()):
            return Work.NOTHING
        return Work.MATRICES if _holds_a_matrix(self) else Work.VECTORS

    def in_words(self) -> str:
        if "**" in (self.without or ()):
            return "nothing"
        without = f" without {listed(self.without)}" if self.without else ""
        return listed(self.parameters) + without


def require_whole(selection: AbstractSelection) -> WholeTensors:
    """Return the selection if it selects whole tensors.

    Raises:
        SubtuneError: it is of another kind.
    """
    if not isinstance(selection, WholeTensors):
        raise SubtuneError(f"found {selection.in_words()}; expected whole parameters")
    return selection


@cache
def _holds_a_matrix(selection: WholeTensors) -> bool:
    """Return whether a matrix trains, judged by the names that every encoder has.

    Patterns that match no such name are judged as if they were names.
    """
    try:
        names: Iterable[str] = selection.names(EVERY_NAME)
    except SubtuneError:
        names = selection.parameters
    return any(not name.endswith(".bias") and not naming.is_norm(name) for name in names)
