"""Activations by name."""

import pytest
import torch
from transformers.activations import ACT2FN

from subtune.families.bert import ACTIVATIONS
from subtune.models.packed_pass import activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_what_transformers_calls_by_its_name(name):
    x = torch.linspace(-5, 5, 101)
    assert torch.equal(activation(name)(x), ACT2FN[name](x))
