"""Gradients of single entries against those of whole matrices, and the memory that they take."""

import pytest
import torch
from torch.nn import functional

from subtune.models.operations import SparseEntries, sparse_embedding, sparse_linear

TOKENS, OUTPUTS, INPUTS = 256, 96, 128
SHARES = [0.001, 0.05, 0.4, 1.0]


def entries(share):
    """A matrix of which a share of the entries trains."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(OUTPUTS, INPUTS, generator=generator)
    order = torch.randperm(matrix.numel(), generator=generator)
    index = order[: int(share * matrix.numel())].sort().values
    values = matrix.flatten()[index].requires_grad_(True)
    return SparseEntries(matrix, values, index // INPUTS, index % INPUTS)


def inputs():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, TOKENS, INPUTS, generator=generator, requires_grad=True)
    # A row is read by several tokens, and some by none.
    ids = torch.randint(OUTPUTS // 2, (TOKENS,), generator=generator)
    return x, ids


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_linear_layers_entries_have_the_gradients_of_the_whole_matrix(share, precision):
    part, (x, _) = entries(share), inputs()
    whole = part.matrix.clone().requires_grad_(True)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        computed, expected = sparse_linear(x, part), functional.linear(x, whole)
    assert torch.equal(computed, expected)
    ours = torch.autograd.grad(computed.float().square().sum(), [x, part.values])
    theirs = torch.autograd.grad(expected.float().square().sum(), [x, whole])
    torch.testing.assert_close(ours[0], theirs[0])
    # bfloat16 has 8 significant bits.
    tolerance = {"fp32": (1e-5, 1e-3), "bf16": (2**-8, 0.1)}[precision]
    same = theirs[1][part.rows, part.columns]
    torch.testing.assert_close(ours[1], same, rtol=tolerance[0], atol=tolerance[1])


@pytest.mark.parametrize("share", SHARES)
def test_a_tables_entries_have_the_gradients_of_the_whole_table(share):
    part, (_, ids) = entries(share), inputs()
    whole = part.matrix.clone().requires_grad_(True)
    (ours,) = torch.autograd.grad(sparse_embedding(ids, part).square().sum(), part.values)
    (theirs,) = torch.autograd.grad(functional.embedding(ids, whole).square().sum(), whole)
    torch.testing.assert_close(ours, theirs[part.rows, part.columns])
