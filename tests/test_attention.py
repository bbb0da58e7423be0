"""The encoder's own attention and last layer, against transformers' own model."""

import copy

import pytest
import torch
from transformers import AutoModel
from transformers.models.bert.modeling_bert import eager_attention_forward

from subtune.models import encoder
from subtune.models.attention import attention

IDS = torch.tensor([[2, 5, 6, 7, 8, 3], [2, 6, 6, 3, 0, 0]])
BATCH = {"input_ids": IDS, "attention_mask": (IDS != 0).long()}


@pytest.fixture(params=["tiny_bert", "tiny_roberta", "minilm"])
def directory(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("training", [False, True])
def test_pooled_outputs_and_gradients_are_those_of_transformers_own_model(directory, training):
    ours = encoder.load(directory, 2)
    theirs = AutoModel.from_pretrained(directory)
    for module in (*ours.modules(), *theirs.modules()):
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    ours.train(training)
    pooled = ours.backbone(**BATCH).pooler_output
    expected = theirs.train(training)(**BATCH).pooler_output
    torch.testing.assert_close(pooled, expected, rtol=1e-4, atol=1e-5)
    pooled.square().sum().backward()
    expected.square().sum().backward()
    gradients = dict(theirs.named_parameters())
    for name, parameter in ours.backbone.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name].grad, rtol=1e-3, atol=1e-5)


def test_the_last_layer_computes_the_first_token_only(tiny_bert):
    assert encoder.load(tiny_bert, 2).backbone(**BATCH).last_hidden_state.shape == (2, 1, 32)


def test_a_copied_model_computes_with_its_own_weights(tiny_bert):
    model = encoder.load(tiny_bert, 2)
    before = model(BATCH)
    other = copy.deepcopy(model)
    with torch.no_grad():
        model.backbone.encoder.layer[-1].output.dense.weight.zero_()
    torch.testing.assert_close(other(BATCH), before)


def test_attention_with_dropout_is_softmax_attention_where_nothing_is_dropped():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 5, 8)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[1, :, :, 3:] = False
    module = torch.nn.Module().train()
    # Below 1/65536 the drop probability rounds to none.
    found, _ = attention(module, query, key, value, mask, dropout=1e-9)
    additive = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    expected, _ = eager_attention_forward(module, query, key, value, additive)
    torch.testing.assert_close(found, expected)
    dropped, _ = attention(module, query, key, value, mask, dropout=0.5)
    assert not torch.allclose(dropped, expected)
