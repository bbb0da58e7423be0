"""Pretrained weights as they are loaded, with a new classifier; others are refused by name."""

import re

import pytest
import torch
from transformers import AutoModel

from subtune.core.errors import SubtuneError
from subtune.families.base import HEADS, SEQUENCE_CLASSIFICATION, is_classifier
from subtune.models import encoder
from subtune.models.dimensions import dimensions_in
from subtune.models.encoder import load_model
from subtune.models.files import WEIGHTS, version_of

QUERY = "encoder.layer.1.attention.self.query.weight"
WORDS = "embeddings.word_embeddings.weight"
LLAMAS_WORDS = "model.embed_tokens.weight"
UP = "model.layers.{}.mlp.up_proj.weight"


def load(directory):
    return load_model(directory, SEQUENCE_CLASSIFICATION, 2)


def plan(directory):
    version_of(directory)
    dimensions_in(directory).shapes(2)


def without(part):
    return lambda weights: {name: value for name, value in weights.items() if part not in name}


def prefixed(prefix):
    return lambda weights: {prefix + name: value for name, value in weights.items()}


def changed(name, change):
    return lambda weights: weights | {name: change(weights[name])}


def beside(name, like):
    return lambda weights: weights | {name: weights[like].clone()}


@pytest.mark.parametrize(
    ("family", "weights", "problem"),
    [
        ("bert", without("layer.1."), f" has no weights '{QUERY}', which its model has"),
        (
            "bert",
            prefixed("module.bert."),
            f" has no weights '{WORDS}', which its model has; found 'module.bert.{WORDS}', which "
            "has another prefix",
        ),
        ("bert", without("pooler"), " has no weights 'pooler.dense.weight', which its model has"),
        (
            "bert",
            beside(QUERY.replace("1", "2"), QUERY),
            f" has weights '{QUERY.replace('1', '2')}', which a model of its configuration has not",
        ),
        (
            "bert",
            changed(QUERY, lambda value: value[:, :16].contiguous()),
            f": {QUERY} has the shape [32, 16], expected [32, 32] as the model's configuration",
        ),
        ("llama", without(UP.format(1)), f" has no weights '{UP.format(1)}', which its model has"),
        (
            "llama",
            changed(LLAMAS_WORDS, lambda value: value[:20].clone()),
            f": {LLAMAS_WORDS} has the shape [20, 32], expected [45, 32] as the model's",
        ),
        (
            "llama",
            beside(UP.format(2), UP.format(1)),
            f" has weights '{UP.format(2)}', which a model of its configuration has not",
        ),
        (
            "llama",
            beside("model.layers.0.self_attn.q_proj.bias", "model.norm.weight"),
            " has weights 'model.layers.0.self_attn.q_proj.bias', which a model of its",
        ),
        (
            "llama",
            prefixed("module."),
            f" has no weights '{LLAMAS_WORDS}', which its model has; found "
            f"'module.{LLAMAS_WORDS}', which has another prefix",
        ),
    ],
)
@pytest.mark.parametrize("read", [plan, load])
def test_weights_that_do_not_fit_are_refused_by_name(read, family, weights, problem, copied):
    directory = copied(family, weights)
    with pytest.raises(SubtuneError, match=re.escape(f"{directory}{problem}")):
        read(directory)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_weights_that_are_whole_numbers_are_refused(copied, family):
    directory = copied(
        family, lambda stored: {name: value.char() for name, value in stored.items()}
    )
    with pytest.raises(SubtuneError, match=r"weight is stored as I8, expected floats"):
        version_of(directory)


@pytest.mark.parametrize(
    "cut",
    [*(slice(rest) for rest in (0, 4, 100, -1)), None],
)
def test_weights_that_were_cut_short_or_are_of_another_kind_are_refused(copied, cut):
    path = copied() / WEIGHTS
    other = b"version https://git-lfs.github.com/spec/v1"
    path.write_bytes(path.read_bytes()[cut] if cut else other)
    with pytest.raises(SubtuneError, match="cannot be read, expected safetensors, from their begi"):
        version_of(path.parent)


def renamed(weights):
    """Weights like those of the first published checkpoints: another head, other names of norms."""
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for now, then in old.items():
        weights = {name.replace(now, then): value for name, value in weights.items()}
    head = {"cls.predictions.bias": torch.zeros(3), "bert.embeddings.position_ids": torch.arange(4)}
    return prefixed("bert.")(weights) | head


@pytest.mark.parametrize(
    ("family", "weights"),
    [
        ("bert", renamed),
        ("bert", prefixed("bert.")),
        ("llama", beside("lm_head.weight", LLAMAS_WORDS)),
    ],
)
def test_names_of_published_checkpoints_are_read(family, weights, copied, tiny):
    expected, parameters = (load(of).parameters for of in (tiny(family), copied(family, weights)))
    assert all(torch.equal(parameters[name], value) for name, value in expected.items())


def test_half_precision_is_read_as_float32(copied, tiny_bert):
    halved = copied(weights=lambda of: {n: v.half() for n, v in of.items()}, dtype="float16")
    value = load(halved).parameters[QUERY]
    assert value.dtype == torch.float32
    assert torch.equal(value, load(tiny_bert).parameters[QUERY].half().float())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_seed_draws_the_whole_classifier_beside_what_transformers_reads(family, head, tiny):
    model = load_model(tiny(family), head, 3)
    theirs = AutoModel.from_pretrained(tiny(family)).state_dict()
    first, same, other = (encoder.new_classifier(model, seed) for seed in (1, 1, 2))
    assert list(first) == [name for name in model.parameters if is_classifier(name)]
    for name, values in model.parameters.items():
        assert torch.equal(values, torch.zeros(values.shape) if name in first else theirs[name])
    for name, values in first.items():
        assert values.shape == model.parameters[name].shape
        assert torch.equal(values, same[name])
        assert torch.equal(values, other[name]) == name.endswith(".bias") == (not values.any())
    drawn = torch.cat([values.flatten() for name, values in first.items() if values.any()])
    # Five standard errors of a deviation.
    within = 5 * model.config.initializer_range / (2 * drawn.numel()) ** 0.5
    assert drawn.std().item() == pytest.approx(model.config.initializer_range, abs=within)
