"""Whole tensors: which train, counted exactly."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.models.dimensions import dimensions_of
from subtune.selections.methods import METHODS
from subtune.selections.patterns import WholeTensors, require_whole
from tests.helpers.examples import CLASSIFIER


@pytest.mark.parametrize(
    ("model", "layers", "classifier"),
    [
        ("bert-large-cased", 24, ["classifier"]),
        ("roberta-base", 12, ["classifier.dense", "classifier.out_proj"]),
    ],
)
def test_layernorm_is_the_output_layernorm_and_the_whole_classifier_and_nothing_else(
    model, layers, classifier
):
    shapes = dimensions_of(model).shapes(outputs=2)
    modules = [f"encoder.layer.{layer}.output.LayerNorm" for layer in range(layers)] + classifier
    names = {f"{module}.{part}" for module in modules for part in ("weight", "bias")}
    assert set(METHODS["layernorm"].resolve(shapes, seed=0)) == names
    assert any("pooler" in name for name in shapes) == (model == "bert-large-cased")


def test_what_is_left_out_does_not_train(bert_large):
    selection = WholeTensors(parameters=("pooler.**",), without=("**.bias",))
    assert set(selection.resolve(bert_large, 0)) == {"pooler.dense.weight", *CLASSIFIER}


@pytest.mark.parametrize("method", ["random", "lora-I"])
def test_where_whole_tensors_are_needed_another_kind_is_an_error(method):
    assert require_whole(METHODS["bitfit"]) is METHODS["bitfit"]
    with pytest.raises(SubtuneError, match="expected whole parameters"):
        require_whole(METHODS[method])
