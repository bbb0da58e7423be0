"""Products whose bits do not depend on how many runs train side by side.

Libraries of linear algebra round differently for a few rows, and for one small matrix. The padding
here avoids that, and costs little: a batch has hundreds of tokens, and only heads and single texts
are so small.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs.
"""

from torch import Tensor
from torch.nn import functional

# From this many rows and columns on, rounding does not depend on their number.
FEW = 4


def shared_product(x: Tensor, matrix: Tensor) -> Tensor:
    """Return ``x Wᵀ``, ``[k, t, o]``, with one matrix ``[o, i]`` for all runs."""
    if len(matrix) < FEW:
        return product_of_each_run(x, matrix.expand(len(x), -1, -1))
    if x.shape[1] < FEW:
        return shared_product(_padded(x), matrix)[:, : x.shape[1]]
    return functional.linear(x, matrix)


def product_of_each_run(x: Tensor, matrices: Tensor) -> Tensor:
    """Return ``x Wᵀ``, ``[k, t, o]``, with a matrix for each run ``[k, o, i]``."""
    if x.shape[1] < FEW:
        return product_of_each_run(_padded(x), matrices)[:, : x.shape[1]]
    if len(matrices) == 1 and matrices.shape[1] < FEW:
        return product_of_each_run(x.expand(2, -1, -1), matrices.expand(2, -1, -1))[:1]
    return x @ matrices.mT


def _padded(x: Tensor) -> Tensor:
    """Return ``x`` with zeros for missing tokens."""
    return functional.pad(x, (0, 0, 0, FEW - x.shape[1]))
