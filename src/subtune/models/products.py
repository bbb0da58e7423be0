"""Products whose bits do not depend on how many runs train side by side.

Libraries of linear algebra take another way, with other rounding, for a few rows and for one matrix
by itself. What these functions add for that costs nothing beside a layer: of tokens there are
hundreds, and only heads and single texts are so small.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs.
"""

from torch import Tensor
from torch.nn import functional

# From so many rows and columns on they are computed alike, however many there are.
FEW = 4


def shared_product(x: Tensor, matrix: Tensor) -> Tensor:
    """``x Wᵀ``, ``[k, t, o]``, with one matrix ``[o, i]`` for all runs."""
    if len(matrix) < FEW:
        return product_of_each_run(x, matrix.expand(len(x), -1, -1))
    return functional.linear(_with_enough_tokens(x), matrix)[:, : x.shape[1]]


def product_of_each_run(x: Tensor, matrices: Tensor) -> Tensor:
    """``x Wᵀ``, ``[k, t, o]``, with a matrix of each run ``[k, o, i]``."""
    runs, tokens = len(matrices), x.shape[1]
    x = _with_enough_tokens(x)
    if runs == 1 and matrices.shape[1] < FEW:
        x, matrices = x.expand(2, -1, -1), matrices.expand(2, -1, -1)
    return (x @ matrices.mT)[:runs, :tokens]


def _with_enough_tokens(x: Tensor) -> Tensor:
    missing = FEW - x.shape[1]
    return functional.pad(x, (0, 0, 0, missing)) if missing > 0 else x
