"""Selections by patterns: ranges of layers, whole tensors, LoRA."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.models.dimensions import dimensions_of
from subtune.selections.added import Lora, LoraSettings
from subtune.selections.kind import LowRank, Whole, WholeTensors, count, matching, require_whole
from subtune.selections.methods import METHODS
from tests.helpers.examples import CLASSIFIER


def test_a_star_does_not_cross_a_dot(bert_large):
    pattern = "encoder.layer.*.output.LayerNorm.bias"
    assert len(matching([pattern], bert_large)) == 24
    assert len(matching(["encoder.**.output.LayerNorm.bias"], bert_large)) == 48
    assert not any(name.startswith("classifier") for name in matching(["**"], bert_large))


def test_a_range_of_layers_includes_both_ends_and_may_be_open(bert_large):
    def layers(part):
        return {int(n.split(".")[2]) for n in matching([f"encoder.layer.{part}.**"], bert_large)}

    assert layers("4-8") == {4, 5, 6, 7, 8}
    assert layers("20-") == {20, 21, 22, 23}
    assert layers("7") == {7}


def test_a_pattern_that_matches_nothing_is_an_error(bert_large):
    with pytest.raises(SubtuneError, match=r"'encoder\.layers\.\*' matches no parameter"):
        WholeTensors(parameters=("encoder.layers.*",)).resolve(bert_large, seed=0)


@pytest.mark.parametrize(
    ("model", "layers", "classifier"),
    [
        ("bert-large-cased", 24, ["classifier"]),
        ("roberta-base", 12, ["classifier.dense", "classifier.out_proj"]),
    ],
)
def test_layernorm_is_the_output_layernorm_and_the_classifier(model, layers, classifier):
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


QUERIES = "encoder.layer.*.attention.self.query.weight"


def lora(*targets, parameters=None):
    return Lora(lora=LoraSettings(targets=targets, rank=4, alpha=6), parameters=parameters)


def test_an_update_has_its_rank_and_is_scaled_by_alpha_to_rank(bert_large):
    entries = lora(QUERIES, parameters=("pooler.dense.bias",)).resolve(bert_large, seed=0)
    queries = [QUERIES.replace("*", str(layer)) for layer in range(24)]
    assert {entries[name] for name in queries} == {LowRank(4, 1.5)}
    assert entries["pooler.dense.bias"] == Whole()
    assert entries.keys() == {*queries, "pooler.dense.bias", *CLASSIFIER}
    assert count(entries, bert_large) == 24 * 4 * 2048 + 1024 + 2050


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pooler.dense.bias", "is not a linear layer's matrix"),
        ("embeddings.word_embeddings.weight", "is not a linear layer's matrix"),
        ("pooler.dense.weight", "both a target of LoRA and trained whole"),
    ],
)
def test_a_target_is_a_linear_layers_matrix_that_does_not_train_whole(target, message, bert_large):
    with pytest.raises(SubtuneError, match=message):
        lora(target, parameters=("pooler.**",)).resolve(bert_large, seed=0)
