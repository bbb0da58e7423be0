"""Pretrained encoders as they are loaded, and the classifiers that runs start from."""

import json
import shutil

import pytest
import torch
from transformers import AutoModel

from subtune.core.errors import SubtuneError
from subtune.families.base import HEADS, SEQUENCE_CLASSIFICATION, is_classifier
from subtune.models import encoder
from subtune.models.load import load_model


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def directory(request):
    return request.getfixturevalue(request.param)


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
    model = load_model(directory, head, 2)
    for name, values in model.parameters.items():
        assert torch.equal(
            values, torch.zeros(values.shape) if is_classifier(name) else theirs[name]
        )


def test_a_configuration_that_transformers_does_not_read_is_refused(tiny_bert, tmp_path):
    shutil.copytree(tiny_bert, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"use_cache": "maybe"}))
    with pytest.raises(SubtuneError, match=r"config\.json cannot be read: .*use_cache"):
        load_model(tmp_path, SEQUENCE_CLASSIFICATION, 2)
