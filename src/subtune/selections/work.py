"""What a training step costs, by what trains."""

from enum import Enum


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
