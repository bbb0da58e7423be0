"""Several runs in one packed pass, against transformers' own model, one run at a time."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from subtune.models import encoder, forward, packed
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder
from subtune.models.packed import from_grid, pack, to_grid
from subtune.models.weights import LowRankUpdate, PerRun, SparseEntries
from tests.helpers import reference

ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]
TOKEN_TYPES = [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1], [0, 0], [0, 1, 1, 1, 1, 1]]
LABELS = np.array([1, 0, 2, 0])
ALL = np.arange(4)


@pytest.fixture(params=["tiny_bert", "tiny_roberta", "minilm"])
def model(request):
    """With a classifier that is not zero."""
    pretrained = encoder.load(request.getfixturevalue(request.param), 3)
    return Encoder(pretrained.config, pretrained.parameters | encoder.new_classifier(pretrained, 0))


def inputs(model):
    token_types = {} if model.config.model_type == "roberta" else {"token_type_ids": TOKEN_TYPES}
    return {
        n: [np.array(row) for row in rows] for n, rows in {"input_ids": ROWS, **token_types}.items()
    }


def batch(model, index=ALL):
    return pack(inputs(model), LABELS, np.array(index), model)


def differs(name, value):
    return value.ndim == 1 or name.startswith("classifier")


def leaves_of(model, runs):
    """Every vector and the classifier of each run a little different; matrices shared."""
    torch.manual_seed(1)
    leaves = {}
    for name, value in model.parameters.items():
        if differs(name, value):
            value = value + 0.1 * torch.randn(runs, *value.shape)
        leaves[name] = value.clone().requires_grad_(True)
    return leaves


def weights_of(model, leaves):
    """The leaves as the forward pass reads them."""
    return {
        name: PerRun(leaf) if differs(name, model.parameters[name]) else leaf
        for name, leaf in leaves.items()
    }


def one_run(model, leaves, run):
    return {
        name: leaf[run] if differs(name, model.parameters[name]) else leaf
        for name, leaf in leaves.items()
    }


def gradients_of(logits, leaves):
    """Of the sum of squares; zeros for what no logit depends on."""
    return torch.autograd.grad(logits.square().sum(), list(leaves.values()), materialize_grads=True)


def with_dropout(model, p):
    config = copy.deepcopy(model.config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = p
    return Encoder(config, model.parameters)


def test_logits_and_gradients_are_those_of_each_run_alone(model):
    leaves = leaves_of(model, 3)
    computed = forward.logits(model, batch(model), weights_of(model, leaves))
    expected = torch.stack(
        [
            reference.logits(model.config, one_run(model, leaves, run), inputs(model))
            for run in range(3)
        ]
    )
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-5)
    ours = gradients_of(computed, leaves)
    theirs = torch.autograd.grad(expected.square().sum(), list(leaves.values()))
    for name, gradient, expected_gradient in zip(leaves, ours, theirs, strict=True):
        scale = expected_gradient.abs().max().item()
        torch.testing.assert_close(
            gradient, expected_gradient, rtol=1e-3, atol=1e-5 * scale + 1e-7, msg=name
        )


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_the_head_is_transformers_own_and_drops_what_it_drops(model, p):
    config = copy.deepcopy(with_dropout(model, 0.0).config)
    config.classifier_dropout = p
    leaves = {n: v.double().requires_grad_(True) for n, v in model.parameters.items()}
    ours, theirs = (DropoutMasks(3, model.device) for _ in range(2))
    computed = forward.logits(Encoder(config, leaves), batch(model), masks=ours)[0]
    expected = reference.logits(config, leaves, inputs(model), theirs.draw)
    torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-9)
    assert torch.equal(ours.draw((5,), 0.5), theirs.draw((5,), 0.5))
    gradients = (gradients_of(logits, leaves) for logits in (computed, expected))
    for name, *both in zip(leaves, *gradients, strict=True):
        torch.testing.assert_close(*both, rtol=1e-9, atol=1e-9, msg=name)


def test_a_keys_bias_has_gradient_zero_to_the_last_bit(model):
    leaves = leaves_of(model, 2)
    for precision in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            computed = forward.logits(model, batch(model), weights_of(model, leaves))
        gradients = dict(zip(leaves, gradients_of(computed, leaves), strict=True))
        zero = [name for name, gradient in gradients.items() if not gradient.any()]
        assert zero == [name for name in leaves if name.endswith("key.bias")]


def test_parameters_in_the_models_own_shapes_are_those_of_one_run(model):
    computed = forward.logits(model, batch(model))
    expected = reference.logits(model.config, model.parameters, inputs(model))
    torch.testing.assert_close(computed[0], expected, rtol=1e-4, atol=1e-5)


def test_the_order_of_examples_does_not_matter(model):
    computed = forward.logits(model, batch(model))
    turned = forward.logits(model, batch(model, ALL[::-1]))
    torch.testing.assert_close(turned.flip(1), computed)


def test_a_low_rank_update_adds_to_its_matrix(model):
    leaves = leaves_of(model, 2)
    name = "encoder.layer.0.attention.self.query.weight"
    rows, columns = model.parameters[name].shape
    lora_a, lora_b = torch.randn(2, 4, columns) * 0.1, torch.randn(2, rows, 4) * 0.1
    update = {name: LowRankUpdate(lora_a, lora_b)}
    computed = forward.logits(model, batch(model), weights_of(model, leaves) | update)
    for run in range(2):
        merged = one_run(model, leaves, run)
        merged[name] = merged[name] + lora_b[run] @ lora_a[run]
        expected = reference.logits(model.config, merged, inputs(model))
        torch.testing.assert_close(computed[run], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["attention.self.query", "word_embeddings"])
def test_sparse_entries_get_the_gradients_that_the_whole_matrix_has(kind, model):
    name = next(n for n in model.parameters if kind in n and n.endswith("weight"))
    matrix = model.parameters[name].clone().requires_grad_(True)
    whole = forward.logits(model, batch(model), {name: matrix})
    (expected,) = torch.autograd.grad(whole.square().sum(), matrix)
    columns = matrix.shape[1]
    index = torch.tensor([0, 5, 33, 70, 100, 5 * columns, 6 * columns + 3, 9 * columns - 1])
    index = index[index < matrix.numel()]
    values = matrix.detach().flatten()[index].requires_grad_(True)
    part = SparseEntries(matrix.detach(), values, index // columns, index % columns)
    computed = forward.logits(model, batch(model), {name: part})
    (gradient,) = torch.autograd.grad(computed.square().sum(), values)
    torch.testing.assert_close(gradient, expected.flatten()[index], rtol=1e-4, atol=1e-6)


def test_a_runs_dropout_does_not_depend_on_who_trains_beside_it(model):
    model = with_dropout(model, 0.2)
    leaves = leaves_of(model, 3)

    def logits(weights, seed):
        return forward.logits(model, batch(model), weights, DropoutMasks(seed, model.device))

    computed = logits(weights_of(model, leaves), 5)
    for run in range(3):
        alone = logits(one_run(model, leaves, run), 5)
        torch.testing.assert_close(alone[0], computed[run], rtol=1e-4, atol=1e-5)
    other = logits(weights_of(model, leaves), 6)
    assert not torch.allclose(other, computed, atol=1e-3)


def test_without_dropout_in_its_configuration_a_model_draws_no_masks(model):
    model = with_dropout(model, 0.0)
    computed = forward.logits(model, batch(model), masks=DropoutMasks(5, model.device))
    assert torch.equal(computed, forward.logits(model, batch(model)))


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_masks_drop_as_often_as_they_say_and_keep_the_mean(p):
    mask = DropoutMasks(0, torch.device("cpu")).draw((1000, 1001), p)
    # Five standard deviations of a share of 1,001,000 draws.
    within = 5 * (p * (1 - p) / mask.numel()) ** 0.5
    assert (mask == 0).double().mean().item() == pytest.approx(p, abs=within)
    assert mask.max().item() == pytest.approx(1 / (1 - p))


def test_every_mask_is_another_and_a_seed_decides_them():
    def masks(seed):
        stream = DropoutMasks(seed, torch.device("cpu"))
        return [stream.draw((7, 9), 0.5) for _ in range(2)]

    first, second = masks(3)
    assert not torch.equal(first, second)
    assert all(torch.equal(*pair) for pair in zip(masks(3), (first, second), strict=True))
    assert not torch.equal(masks(4)[0], first)


def test_tokens_go_onto_the_grid_and_back(model):
    heads = model.config.num_attention_heads
    of_three = batch(model, (3, 1, 2))
    (one,) = of_three.grids
    x = torch.randn(2, 12, 3 * heads)
    grid = to_grid(x, one, heads).view(2, 3, heads, 6, 3)
    assert torch.equal(grid[1, 1, 1, :4], x[1, 6:10, 3:6])
    assert torch.equal(from_grid(to_grid(x, one, heads), one, heads), x)
    assert of_three.inside.sum(1).tolist() == [6, 4, 2]
    assert (one.outside == 0).sum(1).tolist() == [6, 4, 2]
    assert of_three.labels.tolist() == [0, 0, 2]
    assert of_three.example.tolist() == [0] * 6 + [1] * 4 + [2] * 2


@pytest.mark.parametrize(("cost", "grids"), [(0, 4), (10, 3), (30, 2)])
def test_on_several_grids_logits_and_gradients_are_those_on_one(cost, grids, model, monkeypatch):
    leaves = leaves_of(model, 2)
    weights = weights_of(model, leaves)
    sorted_by_length = [2, 1, 0, 3]
    one = forward.logits(model, batch(model, sorted_by_length), weights)
    expected = gradients_of(one, leaves)
    monkeypatch.setattr(packed, "PAIRS_OF_A_GRID", {"cpu": cost})
    several = batch(model, sorted_by_length)
    assert len(several.grids) == grids
    computed = forward.logits(model, several, weights)
    torch.testing.assert_close(computed, one)
    gradients = gradients_of(computed, leaves)
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


@given(st.lists(st.integers(1, 128), min_size=1, max_size=40), st.integers(0, 20_000))
def test_cut_into_grids_examples_keep_their_order_and_take_fewer_places(lengths, cost):
    def pairs(part):
        return len(part) * max(part) ** 2

    parts = packed.parts(np.array(lengths), cost)
    assert [length for part in parts for length in part] == lengths
    assert sum(map(pairs, parts)) + cost * (len(parts) - 1) <= pairs(lengths)
