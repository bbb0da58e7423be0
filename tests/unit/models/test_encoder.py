"""Pretrained encoders as they are loaded, and the classifiers that runs start from."""

import pytest
import torch
from transformers import AutoModel

from subtune.families.base import HEADS, is_classifier
from subtune.models import encoder
from subtune.models.load import load_model


@pytest.fixture(params=["bert", "roberta"])
def directory(request, tiny):
    return tiny(request.param)


@pytest.mark.parametrize("head", HEADS)
def test_a_seed_draws_the_whole_classifier(directory, head):
    model = load_model(directory, head, 3)
    first, same, other = (encoder.new_classifier(model, seed) for seed in (1, 1, 2))
    assert list(first) == [name for name in model.parameters if is_classifier(name)]
    for name, values in first.items():
        assert values.shape == model.parameters[name].shape
        assert torch.equal(values, same[name])
        assert torch.equal(values, other[name]) == name.endswith(".bias") == (not values.any())
    drawn = torch.cat([values.flatten() for name, values in first.items() if values.any()])
    # Five standard errors of a deviation.
    within = 5 * model.config.initializer_range / (2 * drawn.numel()) ** 0.5
    assert drawn.std().item() == pytest.approx(model.config.initializer_range, abs=within)


@pytest.mark.parametrize("head", HEADS)
def test_what_is_pretrained_is_what_transformers_reads(directory, head):
    theirs = AutoModel.from_pretrained(directory).state_dict()
    for name, values in load_model(directory, head, 2).parameters.items():
        expected = torch.zeros(values.shape) if is_classifier(name) else theirs[name]
        assert torch.equal(values, expected)
