"""What runs that train have in the place of a model's own tensors.

Shapes: ``k`` runs, ``o`` outputs, ``i`` inputs, ``r`` rank, ``e`` entries.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class PerRun:
    """A tensor of each run's own: ``values`` are ``[k, …]``."""

    values: Tensor


@dataclass(frozen=True)
class SparseEntries:
    """A matrix ``[o, i]`` of which some entries train.

    It holds their ``values`` ``[e]``, which stand in its ``rows`` and ``columns`` ``[e]``, and gets
    no gradient; the values do.
    """

    matrix: Tensor
    values: Tensor
    rows: Tensor
    columns: Tensor


@dataclass(frozen=True)
class LowRankUpdate:
    """``lora_b @ lora_a``, which adds to the model's own matrix.

    ``lora_a`` is ``[k, r, i]``; ``lora_b`` is ``[k, o, r]`` and has the update's scale in it.
    """

    lora_a: Tensor
    lora_b: Tensor


# A tensor without a type around it has the model's own shape, and is the same to every run.
Weight = Tensor | PerRun | SparseEntries | LowRankUpdate
