"""Whole tensors: which train, counted exactly."""

import pytest
from transformers import RobertaConfig

from subtune.errors import SubtuneError
from subtune.methods import METHODS
from subtune.models.encoder import skeleton
from subtune.selections.entries import CLASSIFIER, count
from subtune.selections.whole import WholeTensors, require_whole


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


def test_roberta_has_the_same_names():
    config = RobertaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2)
    config.num_attention_heads, config.intermediate_size = 2, 64
    names = skeleton(config, num_labels=2).parameters
    assert "encoder.layer.1.output.LayerNorm.weight" in names
    assert "pooler.dense.bias" in names


def test_what_is_left_out_does_not_train(bert_large):
    selection = WholeTensors(parameters=("pooler.**",), without=("**.bias",))
    assert set(selection.resolve(bert_large, 0)) == {"pooler.dense.weight", *CLASSIFIER}


@pytest.mark.parametrize("method", ["random", "lora-I"])
def test_where_whole_tensors_are_needed_another_kind_is_an_error(method):
    assert require_whole(METHODS["bitfit"]) is METHODS["bitfit"]
    with pytest.raises(SubtuneError, match="expected whole parameters"):
        require_whole(METHODS[method])
