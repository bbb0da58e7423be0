"""Weights that are not those of their configuration are refused by name."""

import json
import shutil

import pytest
import safetensors.torch
import torch

from subtune.core.errors import SubtuneError
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.files import WEIGHTS, version_of
from subtune.models.load import load_model

QUERY = "encoder.layer.1.attention.self.query.weight"
WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture
def copied(tiny_bert, tmp_path):
    """A copy of a model of two layers, and what changes the weights in it."""
    directory = tmp_path / "model"
    shutil.copytree(tiny_bert, directory)

    def change(of):
        weights = safetensors.torch.load_file(directory / WEIGHTS)
        safetensors.torch.save_file(of(weights), directory / WEIGHTS)
        return directory

    return change


def without_layer_1(weights):
    return {name: value for name, value in weights.items() if "layer.1." not in name}


def prefixed(prefix):
    return lambda weights: {prefix + name: value for name, value in weights.items()}


def with_layer_2(weights):
    more = {n.replace("layer.1.", "layer.2."): v.clone() for n, v in weights.items() if "r.1." in n}
    return weights | more


def changed(name, change):
    return lambda weights: weights | {name: change(weights[name])}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            without_layer_1,
            f" has no {QUERY} (and 15 more), which a bert of 2 layers has",
        ),
        (
            prefixed("module.bert."),
            f" has no {WORDS} (and 38 more), which a bert of 2 layers has; found "
            f"'module.bert.{WORDS}', which has another prefix",
        ),
        (
            lambda weights: {n: v for n, v in weights.items() if "pooler" not in n},
            " has no pooler.dense.weight (and 1 more), which a bert of 2 layers has",
        ),
        (
            with_layer_2,
            " has encoder.layer.2.attention.output.LayerNorm.bias (and 15 more), which a bert of 2 "
            "layers has not",
        ),
        (
            changed(QUERY, lambda value: value[:, :16].contiguous()),
            f": {QUERY} has the shape [32, 16], expected [32, 32] as the model's configuration "
            "says",
        ),
        (
            changed(QUERY, lambda value: value.to(torch.int8)),
            f": {QUERY} is stored as I8, expected one of F64, F32, F16, BF16",
        ),
    ],
    ids=["layer", "prefix", "pooler", "more layers", "shape", "int8"],
)
@pytest.mark.parametrize(
    "read", [version_of, lambda directory: load_model(directory, SEQUENCE_CLASSIFICATION, 2)]
)
def test_weights_that_do_not_fit_are_refused_by_name(read, change, problem, copied):
    directory = copied(change)
    with pytest.raises(SubtuneError) as error:
        read(directory)
    assert str(error.value) == f"{directory / WEIGHTS}{problem}"


def test_a_file_of_another_kind_is_refused(copied):
    directory = copied(dict)
    (directory / WEIGHTS).write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(SubtuneError, match="cannot be read"):
        version_of(directory)


@pytest.mark.parametrize("rest", [0, 4, 100, -1])
def test_weights_that_were_cut_short_are_refused(copied, rest):
    directory = copied(dict)
    (directory / WEIGHTS).write_bytes((directory / WEIGHTS).read_bytes()[:rest])
    with pytest.raises(SubtuneError, match="cannot be read, expected safetensors, from their begi"):
        version_of(directory)


def renamed(weights):
    """Weights like those of the first published checkpoints: another head, other names of norms."""
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for now, then in old.items():
        weights = {name.replace(now, then): value for name, value in weights.items()}
    head = {"cls.predictions.bias": torch.zeros(3), "bert.embeddings.position_ids": torch.arange(4)}
    return prefixed("bert.")(weights) | head


@pytest.mark.parametrize("change", [renamed, prefixed("bert.")])
def test_names_of_published_checkpoints_are_read(change, copied, tiny_bert):
    expected = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2).parameters
    parameters = load_model(copied(change), SEQUENCE_CLASSIFICATION, 2).parameters
    assert all(torch.equal(parameters[name], value) for name, value in expected.items())


def test_half_precision_is_read_as_float32(copied, tiny_bert):
    directory = copied(lambda weights: {name: value.half() for name, value in weights.items()})
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    value = load_model(directory, SEQUENCE_CLASSIFICATION, 2).parameters[QUERY]
    assert value.dtype == torch.float32
    assert torch.equal(
        value, load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2).parameters[QUERY].half().float()
    )
