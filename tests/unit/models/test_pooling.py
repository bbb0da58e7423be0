"""The tokens that a sequence classifier reads: the first, or the mean of all."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModel

from subtune.core.errors import SubtuneError
from subtune.families.base import MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION, is_classifier
from subtune.models.configuration import head_by, own_pooling, pooling_in
from subtune.models.encoder import with_new_classifier
from subtune.models.forward import logits
from subtune.models.load import load_model
from subtune.models.packed import pack
from subtune.tasks import TASKS
from subtune.training.fisher import fisher_information
from tests.helpers import examples

MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]
ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]


def saying(modules, pooling):
    files = {"modules.json": json.dumps(modules), "1_Pooling/config.json": json.dumps(pooling)}
    return files.get


@pytest.mark.parametrize(
    ("modules", "pooling", "found"),
    [
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        (MODULES, {"pooling_mode": "mean"}, "mean"),
        (MODULES, {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, None),
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
        (MODULES, {"pooling_mode": "lasttoken"}, None),
        (MODULES[:1], {}, None),
    ],
)
def test_files_of_sentence_transformers_say_the_pooling(modules, pooling, found):
    assert own_pooling(saying(modules, pooling)) == found


def test_a_model_without_these_files_has_no_pooling_of_its_own(tiny_bert, minilm):
    assert pooling_in(tiny_bert) is None
    assert pooling_in(minilm) == "mean"


@pytest.mark.parametrize("modules", ["{", "[1]", '[{"path": "1_Pooling"}]'])
def test_a_list_of_modules_that_is_none_is_one_line(modules):
    with pytest.raises(SubtuneError, match=r"^modules\.json or the config\.json .* cannot be read"):
        own_pooling({"modules.json": modules}.get)


def test_other_heads_read_what_they_read(tiny_bert):
    head = TASKS["ud_ewt"].of_kind.head
    assert load_model(tiny_bert, head, 3, "mean").head == head


@pytest.fixture
def packed():
    return examples.packable(ROWS, [0, 1, 0, 1], reads="all")


@pytest.mark.parametrize(
    "family", ["tiny_bert", "tiny_roberta", "mpnet", "distilbert", "electra", "deberta"]
)
def test_the_mean_is_a_linear_layer_on_the_mean_of_the_last_hidden_states(
    family, packed, request, directory_of
):
    packed_family = family.startswith("tiny_")
    directory = request.getfixturevalue(family) if packed_family else directory_of(family)
    model = with_new_classifier(load_model(directory, SEQUENCE_CLASSIFICATION, 3, "mean"), 0)
    assert model.head == MEAN_CLASSIFICATION
    weight, bias = (value for name, value in model.parameters.items() if is_classifier(name))
    theirs = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.inference_mode():
        computed = logits(model, pack(packed, np.arange(4), model))[0]
        # A text alone has no padding.
        means = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in ROWS]
    expected = torch.stack(means) @ weight.T + bias
    assert computed.numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_where_transformers_class_can_pool_it_does(packed, directory_of):
    computed = {}
    for pooling in ("first", "mean", None):
        model = load_model(directory_of("modernbert"), SEQUENCE_CLASSIFICATION, 2, pooling)
        assert model.head == SEQUENCE_CLASSIFICATION
        model = with_new_classifier(model, 0)
        row = examples.packable(ROWS, [0, 1, 0, 1])
        computed[pooling] = logits(model, pack(row, np.arange(4), model))[0]
        assert model.config.classifier_pooling == {"mean": "mean"}.get(pooling, "cls")
    assert torch.equal(computed["first"], computed[None])
    assert not torch.allclose(computed["first"], computed["mean"])


@pytest.mark.parametrize("family", ["tiny_bert", "mpnet"])
def test_fisher_information_of_the_mean_is_the_mean_of_squared_gradients(
    family, request, directory_of
):
    task = TASKS["sst2"]
    directory = request.getfixturevalue(family) if family == "tiny_bert" else directory_of(family)
    tokens = examples.tokens(task, directory, rows=6)["train"]
    model = load_model(directory, SEQUENCE_CLASSIFICATION, 2, "mean")
    found = fisher_information(model, tokens, task)
    model = with_new_classifier(model, 0)
    rows = examples.examples_of(task, {"train": tokens, "validation": tokens}, model.head)["train"]
    leaves = {n: v.clone().requires_grad_(True) for n, v in model.parameters.items()}
    changed = replace(model, parameters=leaves)
    expected = dict.fromkeys(leaves, 0.0)
    for number in range(len(rows)):
        batch = pack(rows, np.array([number]), changed)
        nats = -logits(changed, batch)[0].log_softmax(1)[0, batch.labels[0]]
        gradients = torch.autograd.grad(nats, list(leaves.values()), allow_unused=True)
        for name, gradient in zip(leaves, gradients, strict=True):
            expected[name] += 0 if gradient is None else gradient.square().sum().item() / len(rows)
    for _, row in found.sums.iterrows():
        if not row["parameter"].endswith("key.bias"):
            assert row["information"] == pytest.approx(expected[row["parameter"]], rel=1e-4)


def test_the_head_is_told_by_the_configuration():
    fields = {"model_type": "bert"}
    assert head_by("mean", SEQUENCE_CLASSIFICATION, fields) == MEAN_CLASSIFICATION
    assert head_by("first", SEQUENCE_CLASSIFICATION, fields) == SEQUENCE_CLASSIFICATION
    assert head_by(None, SEQUENCE_CLASSIFICATION, fields) == SEQUENCE_CLASSIFICATION
    assert head_by("mean", TASKS["squad"].of_kind.head, fields) == TASKS["squad"].of_kind.head
