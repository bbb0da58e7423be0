"""Dropout masks."""

import pytest
import torch

from subtune.models.operations import DropoutMasks


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
