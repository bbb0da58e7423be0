"""Families that compute by transformers' own code: names, shapes, runs side by side."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.core.errors import SubtuneError
from subtune.families import NAMINGS, base
from subtune.families.base import SEQUENCE_CLASSIFICATION, component_of, is_classifier
from subtune.models import encoder, forward
from subtune.models.dimensions import dimensions_in
from subtune.models.dropout import DropoutMasks
from subtune.models.load import load_model
from subtune.models.packed import pack
from subtune.models.weights import PerRun
from subtune.selections.methods import named
from subtune.tasks import TASKS
from tests.helpers import examples, reference
from tests.helpers.families import FIELDS

TASK = TASKS["sst2"]
# Roles of a layer's parts; fused matrices count for each of their parts.
ROLES = {
    "post": [f"{part}output.{of}" for part in ("attention.", "") for of in ("dense", "LayerNorm")],
    "query": ["attention.self.query", "attention.self.qkv"],
    "intermediate": ["intermediate.dense", "intermediate.gate_and_dense"],
}


@pytest.fixture(params=FIELDS)
def directory(request, directory_of):
    return directory_of(request.param)


@pytest.fixture
def model(directory):
    return load_model(directory, SEQUENCE_CLASSIFICATION, 2)


@pytest.fixture
def batch(model, directory):
    rows = examples.examples_of(TASK, examples.tokens(TASK, directory, rows=6))["train"]
    return pack(rows, np.arange(6), model)


def test_every_family_is_tried():
    tried = [NAMINGS[name] for name in FIELDS]
    assert all(naming in tried for naming in NAMINGS.values() if naming.layers)


def test_a_layer_has_the_roles_of_berts(model):
    places = [component_of(name) for name in model.parameters]
    # ModernBERT's first layer has no norm before attention, and ALBERT has one layer.
    last = max(place.layer for place in places if place.layer is not None)
    modules = {place.component for place in places if place.layer == last}
    assert modules >= set(ROLES["post"])
    assert modules & set(ROLES["query"])
    assert modules & set(ROLES["intermediate"])


def test_norms_and_tables_are_known_by_their_names(model):
    module = model.transformers.module
    for name in model.parameters:
        kind = type(module.get_submodule(model.exported_name(name).rpartition(".")[0])).__name__
        if not is_classifier(name):
            assert base.is_norm(name) == ("Norm" in kind), name
        assert base.is_embedding(name) == ("Embedding" in kind), name


def test_shapes_are_known_without_weights(model, directory):
    dimensions = dimensions_in(directory)
    assert dimensions.shapes(2) == encoder.shapes_of(model)
    pretrained = sum(v.numel() for n, v in model.parameters.items() if not is_classifier(n))
    assert dimensions.parameters == pretrained
    # Twice as many tokens cost twice as much, and what looks from token to token four times.
    assert 2 < dimensions.forward_flops(64) / dimensions.forward_flops(32) < 4


def test_logits_are_those_of_transformers_model(model, batch, directory):
    start = encoder.new_classifier(model, 0)
    model = replace(model, parameters=model.parameters | start)
    theirs = reference.CLASSES[SEQUENCE_CLASSIFICATION].from_pretrained(
        directory, attn_implementation="eager"
    )
    own = {
        model.exported_name(name): value.mT if model.is_transposed(name) else value
        for name, value in model.parameters.items()
    }
    theirs.eval().load_state_dict(own)
    ids = [row.tolist() for row in batch.ids.split(batch.example.bincount().tolist())]
    with torch.no_grad():
        expected = theirs(**reference.padded({"input_ids": ids})).logits
        torch.testing.assert_close(forward.logits(model, batch)[0], expected, rtol=0, atol=1e-6)


def test_runs_side_by_side_compute_what_each_computes_alone(model, batch):
    generator = torch.Generator().manual_seed(1)
    vectors = {n: v for n, v in model.parameters.items() if v.ndim == 1 or is_classifier(n)}

    def noisy(value):
        return value + 0.1 * torch.randn(3, *value.shape, generator=generator)

    def logits(of):
        weights = {name: PerRun(value) for name, value in of.items()}
        return forward.logits(model, batch, weights, DropoutMasks(0, model.device))

    values = {name: noisy(value).requires_grad_(True) for name, value in vectors.items()}
    together = logits(values)
    weights = torch.linspace(-1, 1, 12).view(6, 2)
    (together * weights).sum().backward()
    for run in range(3):
        own = {n: v[run : run + 1].detach().requires_grad_(True) for n, v in values.items()}
        alone = logits(own)
        torch.testing.assert_close(alone[0], together[run], rtol=0, atol=2e-6)
        (alone * weights).sum().backward()
        for name, value in own.items():
            if value.grad is None:
                assert name in model.transformers.without_effect
                continue
            torch.testing.assert_close(
                value.grad[0], values[name].grad[run], rtol=1e-4, atol=1e-5, msg=name
            )


@pytest.mark.parametrize(
    ("family", "method", "instead"),
    [
        ("llama", "bitfit", "encoder.layer.*.attention.output.LayerNorm.weight"),
        ("modernbert", "b_q", "embeddings.LayerNorm.weight"),
    ],
)
def test_a_method_that_a_model_lacks_says_what_the_model_has(family, method, instead, directory_of):
    shapes = dimensions_in(directory_of(family)).shapes(2)
    message = "matches no parameter of the model, whose vectors are"
    with pytest.raises(SubtuneError, match=message) as error:
        named(method, {}).resolve(shapes, 0)
    assert instead in str(error.value)
