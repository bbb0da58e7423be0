"""Gradients of single entries beside those of whole matrices; dropout masks."""

import pytest
import torch
from torch.nn import functional

from subtune.models.operations import DropoutMasks, SparseEntries, sparse_embedding, sparse_linear

TOKENS, OUTPUTS, INPUTS = 256, 96, 128
SHARES = [0.001, 0.05, 1.0]


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(params=SHARES)
def part(request, generator):
    """A matrix of which a share of the entries trains."""
    matrix = torch.randn(OUTPUTS, INPUTS, generator=generator)
    order = torch.randperm(matrix.numel(), generator=generator)
    index = order[: int(request.param * matrix.numel())].sort().values
    values = matrix.flatten()[index].requires_grad_(True)
    return SparseEntries(matrix, values, index // INPUTS, index % INPUTS)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_linear_layers_entries_have_the_gradients_of_the_whole_matrix(precision, part, generator):
    x = torch.randn(1, TOKENS, INPUTS, generator=generator, requires_grad=True)
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


def test_a_tables_entries_have_the_gradients_of_the_whole_table(part, generator):
    # Several tokens read the same row, and some rows are read by none.
    ids = torch.randint(OUTPUTS // 2, (TOKENS,), generator=generator)
    whole = part.matrix.clone().requires_grad_(True)
    (ours,) = torch.autograd.grad(sparse_embedding(ids, part).square().sum(), part.values)
    (theirs,) = torch.autograd.grad(functional.embedding(ids, whole).square().sum(), whole)
    torch.testing.assert_close(ours, theirs[part.rows, part.columns])


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_masks_drop_as_often_as_they_say_and_keep_the_mean(p):
    mask = DropoutMasks(0, torch.device("cpu")).draw((1000, 1001), p)
    # Five standard deviations of a share of 1,001,000 draws.
    within = 5 * (p * (1 - p) / mask.numel()) ** 0.5
    assert (mask == 0).double().mean().item() == pytest.approx(p, abs=within)
    assert mask.max().item() == pytest.approx(1 / (1 - p))


def test_a_seed_decides_the_masks_which_all_differ():
    (first, second), same, (other, _) = (
        [stream.draw((7, 9), 0.5) for _ in range(2)]
        for stream in (DropoutMasks(seed, torch.device("cpu")) for seed in (3, 3, 4))
    )
    assert torch.equal(torch.stack([first, second]), torch.stack(same))
    assert not torch.equal(first, second) and not torch.equal(first, other)
