"""Whole tensors: which train, counted exactly."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.models.dimensions import dimensions_of
from subtune.selections.entries import count
from subtune.selections.methods import METHODS
from subtune.selections.whole import WholeTensors, require_whole
from tests.helpers.examples import CLASSIFIER

PARTS = ("weight", "bias")


@pytest.mark.parametrize(
    ("method", "printed"), [("full", 333_581_314), ("bitfit", 274_434), ("layernorm", 51_202)]
)
def test_bert_large_cased_trains_as_many_parameters_as_the_paper_prints(
    bert_large, method, printed
):
    assert count(METHODS[method].resolve(bert_large, seed=0), bert_large) == printed


def test_layernorm_is_the_output_layernorm_and_the_classifier_and_nothing_else(bert_large):
    names = set(METHODS["layernorm"].resolve(bert_large, seed=0))
    assert names == {"classifier.weight", "classifier.bias"} | {
        f"encoder.layer.{layer}.output.LayerNorm.{part}"
        for layer in range(24)
        for part in ("weight", "bias")
    }


def test_every_family_trains_its_whole_classifier_and_roberta_has_no_pooler():
    shapes = dimensions_of("roberta-base").shapes(outputs=2)
    names = set(METHODS["layernorm"].resolve(shapes, seed=0))
    assert names == {
        *(f"encoder.layer.{n}.output.LayerNorm.{part}" for n in range(12) for part in PARTS),
        *(f"classifier.{layer}.{part}" for layer in ("dense", "out_proj") for part in PARTS),
    }
    assert not any("pooler" in name for name in shapes)


def test_what_is_left_out_does_not_train(bert_large):
    selection = WholeTensors(parameters=("pooler.**",), without=("**.bias",))
    assert set(selection.resolve(bert_large, 0)) == {"pooler.dense.weight", *CLASSIFIER}


@pytest.mark.parametrize("method", ["random", "lora-I"])
def test_where_whole_tensors_are_needed_another_kind_is_an_error(method):
    assert require_whole(METHODS["bitfit"]) is METHODS["bitfit"]
    with pytest.raises(SubtuneError, match="expected whole parameters"):
        require_whole(METHODS[method])
