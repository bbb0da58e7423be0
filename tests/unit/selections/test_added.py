"""The plain adapters and the plain diff pruning, which other tests compare with."""

import math
from functools import partial

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from tests.helpers import plain_diff_pruning as diff_pruning
from tests.helpers.plain_adapters import insert_houlsby, insert_pfeiffer

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
CLASSES = {
    "bert": (BertForSequenceClassification, BertConfig),
    "roberta": (RobertaForSequenceClassification, RobertaConfig),
}
HOULSBY = partial(insert_houlsby, size=8)
LAYER_NORMS = 49 * 2 * 1024
HEAD = 2050


def tiny(family="bert"):
    """Return a model in evaluation. Its weights are large, so that its logits are not near 0."""
    torch.manual_seed(0)
    model_class, config = CLASSES[family]
    return model_class(config(**SHAPE, initializer_range=0.2)).eval()


def large():
    """Return BERT-large-uncased without memory."""
    with torch.device("meta"):
        return BertForSequenceClassification(BertConfig(**LARGE))


def batches(count):
    """Return batches of four examples with labels."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 40, (count, 4, 9), generator=generator)
    return [{"input_ids": rows, "labels": (rows[:, 1] > 20).long()} for rows in ids]


def noise(step, name, shape):
    """Return draws that depend on the step and the name alone."""
    seed = sum(map(ord, name)) + 1000 * step + len(shape)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def state():
    return diff_pruning.train(tiny(), batches(4), noise, learning_rate=1e-3)


@pytest.mark.parametrize(("size", "adapters"), [(8, 835_968), (64, 6_343_680), (256, 25_227_264)])
def test_counts_at_bert_large(size, adapters):
    trained = insert_houlsby(large(), size)
    assert sum(p.numel() for name, p in trained.items() if ".adapter." in name) == adapters
    assert adapters == 48 * (2 * 1024 * size + 1024 + size)
    assert sum(p.numel() for p in trained.values()) == adapters + LAYER_NORMS + HEAD


def test_shares_of_table_1_are_of_the_layers_alone():
    model = large()
    layers = sum(p.numel() for p in model.bert.encoder.parameters())
    whole = sum(p.numel() for p in model.bert.parameters())
    trained = sum(p.numel() for p in insert_houlsby(model, 64).values()) - HEAD
    assert f"{trained / layers:.1%}" == "2.1%"
    assert f"{trained / whole:.1%}" == "1.9%"


def test_pfeiffer_trains_half_as_many_adapters_and_no_layer_norm():
    trained = insert_pfeiffer(large())
    assert sum(p.numel() for p in trained.values()) == 24 * (2 * 1024 * 64 + 1024 + 64) + HEAD
    assert not any("LayerNorm" in name for name in trained)


@pytest.mark.parametrize("family", CLASSES)
def test_houlsby_adapters_start_near_the_identity(family):
    model, batch = tiny(family), batches(1)[0]
    before = model(**batch).logits
    insert_houlsby(model, 8)
    after = model(**batch).logits
    assert 0 < (after - before).abs().max() < 1e-2


@pytest.mark.parametrize("family", CLASSES)
def test_pfeiffer_adapters_of_zeros_change_nothing(family):
    model, batch = tiny(family), batches(1)[0]
    before = model(**batch).logits
    insert_pfeiffer(model, reduction=4, deviation=0.0)
    torch.testing.assert_close(model(**batch).logits, before)


@pytest.mark.parametrize(("insert", "normalised"), [(HOULSBY, False), (insert_pfeiffer, True)])
def test_what_an_adapter_reads_and_where_its_change_goes(insert, normalised):
    model, batch = tiny(), batches(1)[0]
    insert(model, deviation=0.0)
    output = model.bert.encoder.layer[1].output
    read = []
    output.adapter.register_forward_hook(lambda _, inputs, __: read.append(inputs[0]))
    model(**batch)
    deviation = read[0].std(-1, correction=0)
    assert torch.allclose(deviation, torch.ones(()), atol=1e-3) == normalised
    # A constant change is added where the bias of the dense layer is, before LayerNorm.
    change = torch.linspace(-1, 1, 32)
    output.adapter.up.bias.data += change
    with_change = model(**batch).logits
    output.adapter.up.bias.data -= change
    output.dense.bias.data += change
    torch.testing.assert_close(with_change, model(**batch).logits)


@pytest.mark.parametrize("insert", [HOULSBY, insert_pfeiffer])
def test_a_seed_decides_the_start_and_given_values_replace_it(insert):
    name = "bert.encoder.layer.1.output.adapter.down.weight"
    first, again, other = (insert(tiny(), seed=seed)[name] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(insert(tiny(), values={name: other})[name], other)


def test_houlsby_draws_stay_within_two_deviations():
    trained = insert_houlsby(tiny(), 8, deviation=0.01)
    weights = [p for name, p in trained.items() if ".adapter." in name and name.endswith("weight")]
    values = torch.cat([w.detach().flatten() for w in weights])
    assert values.abs().max() <= 0.02
    # A normal distribution that is cut at two deviations has 0.880 of its deviation.
    assert values.std() == pytest.approx(0.0088, rel=0.05)


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 2.0, 5.0])
def test_gates_have_the_published_distribution(alpha):
    draws = torch.rand(200_000, generator=torch.Generator().manual_seed(0))
    z = diff_pruning.gate(torch.tensor(alpha), draws)
    # The stretched value lies under x with probability σ(logit((x - l) / (r - l)) - α).
    levels = (torch.arange(1000) + 0.5) / 1000
    mean = 1 - torch.sigmoid(torch.logit((levels + 1.5) / 3) - alpha).mean()
    assert z.mean() == pytest.approx(mean.item(), abs=5e-3)
    open_share = diff_pruning.probability_open(torch.tensor(alpha)).item()
    assert (z > 0).float().mean() == pytest.approx(open_share, abs=5e-3)
    assert open_share == pytest.approx(1 / (1 + math.exp(-alpha)))


def test_groups_multiply_in_the_paper_and_add_in_the_published_code():
    gates, groups = {"w": torch.zeros(2, 3)}, {"w": torch.tensor(0.0)}
    assert diff_pruning.expected_size(gates, groups) == 6 * 0.5 * 0.5
    assert diff_pruning.expected_size(gates, {}) == 6 * 0.5
    assert diff_pruning.published_size(gates, groups) == 6 * 0.5 + 0.5


def test_bert_large_has_the_published_number_of_groups():
    names = [name for name, _ in large().named_parameters()]
    assert len(names) == 393  # section 4.3; two of them are the classifier's, which has no gate


def test_gates_close_and_differences_grow(state):
    model = tiny()
    assert state.gates.keys() == state.group_gates.keys()
    assert not any("classifier" in name for name in state.gates)
    for name, parameter in model.named_parameters():
        assert state.differences[name].shape == parameter.shape
        assert torch.equal(parameter, tiny().get_parameter(name))
    assert state.differences["classifier.weight"].abs().min() > 0
    assert torch.cat([a.flatten() for a in state.gates.values()]).mean() < 5


def test_a_penalty_closes_gates():
    state = diff_pruning.train(tiny(), batches(60), noise, penalty_weight=1.0)
    assert max(alpha.max() for alpha in state.gates.values()) < 1
    assert sum((state.differences[name] == 0).sum() for name in state.gates) > 0


def test_a_projection_keeps_the_largest_share(state):
    masks = diff_pruning.project(state, 0.005)
    total = sum(mask.numel() for mask in masks.values())
    assert sum(mask.sum() for mask in masks.values()) == int(0.005 * total)
    kept = min(state.differences[n][mask].abs().min() for n, mask in masks.items() if mask.any())
    assert all(state.differences[n][~mask].abs().max() <= kept for n, mask in masks.items())


def test_the_second_phase_changes_masked_entries_and_the_classifier_alone(state):
    masks = diff_pruning.project(state, 0.005)
    found = diff_pruning.train_masked(tiny(), batches(3), state.weights, masks)
    for name, mask in masks.items():
        assert not found[name][~mask].any()
        assert (found[name] != state.weights[name])[mask].all()
    assert (found["classifier.weight"] != state.weights["classifier.weight"]).all()


def test_the_old_adamw_moves_gates_less_in_its_first_steps():
    alphas = [
        torch.cat([alpha.flatten() for alpha in state.gates.values()])
        for state in (
            diff_pruning.train(tiny(), batches(1), noise, old_adamw=old) for old in (False, True)
        )
    ]
    # All w start at 0, so the first gradient is the penalty's alone: 1.25e-7 σ'(5) σ(5).
    gradient = 1.25e-7 * math.exp(-5) / (1 + math.exp(-5)) ** 3
    steps = [0.1 * gradient / (gradient + 1e-8 / root) for root in (1, math.sqrt(1e-3))]
    for alpha, step in zip(alphas, steps, strict=True):
        assert (5 - alpha).mean() == pytest.approx(step, rel=1e-2)
