"""Weights that differ by run.

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
    """A matrix ``[o, i]`` with some trainable entries.

    The matrix holds their ``values`` ``[e]`` at ``rows`` and ``columns`` ``[e]``. The values get a
    gradient, the matrix gets none.
    """

    matrix: Tensor
    values: Tensor
    rows: Tensor
    columns: Tensor


@dataclass(frozen=True)
class LowRankUpdate:
    """A product ``lora_b @ lora_a`` that is added to the model's own matrix.

    ``lora_a`` is ``[k, r, i]``; ``lora_b`` is ``[k, o, r]`` and includes the update's scale.
    """

    lora_a: Tensor
    lora_b: Tensor


# A plain tensor has the model's own shape, and all runs share it.
Weight = Tensor | PerRun | SparseEntries | LowRankUpdate
