"""Answers of every kind of selection; whole tensors by patterns and ranges of layers."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS, SELECTION
from subtune.methods.added import Lora, LoraSettings
from subtune.methods.selection import (
    LowRank,
    TrainingCost,
    Whole,
    WholeTensors,
    count_trained_parameters,
    match_names,
    require_whole,
)
from subtune.methods.single_entries import Ranked, Top
from subtune.models.dimensions import known_dimensions
from tests.helpers.examples import CLASSIFIER


def test_a_star_does_not_cross_a_dot(bert_large):
    pattern = "encoder.layer.*.output.LayerNorm.bias"
    assert len(match_names([pattern], bert_large)) == 24
    assert len(match_names(["encoder.**.output.LayerNorm.bias"], bert_large)) == 48
    assert not any(name.startswith("classifier") for name in match_names(["**"], bert_large))


def test_a_range_of_layers_includes_both_ends_and_may_be_open(bert_large):
    def layers(part):
        return {int(n.split(".")[2]) for n in match_names([f"encoder.layer.{part}.**"], bert_large)}

    assert layers("4-8") == {4, 5, 6, 7, 8}
    assert layers("20-") == {20, 21, 22, 23}
    assert layers("7") == {7}


@pytest.mark.parametrize(
    ("model", "layers", "classifier"),
    [
        ("bert-large-cased", 24, ["classifier"]),
        ("roberta-base", 12, ["classifier.dense", "classifier.out_proj"]),
    ],
)
def test_layernorm_is_the_output_layernorm_and_the_classifier(model, layers, classifier):
    shapes = known_dimensions(model).shapes(outputs=2)
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
    with pytest.raises(SubtuneError, match="expected one that trains whole parameters"):
        require_whole(METHODS[method])


KINDS = {
    "whole": (
        '{"parameters":["pooler.**"],"without":["**.bias"]}',
        TrainingCost.MATRICES,
        "pooler.** without **.bias",
    ),
    "everything": ('{"parameters":["**"]}', TrainingCost.MATRICES, "every parameter"),
    "nothing": ('{"parameters":["**"],"without":["**"]}', TrainingCost.NOTHING, "nothing"),
    "embeddings": (
        '{"embeddings":{}}',
        TrainingCost.NOTHING,
        "nothing: logistic or ridge regression on frozen embeddings",
    ),
    "tf-idf": (
        '{"tf_idf":{}}',
        TrainingCost.NOTHING,
        "nothing: logistic or ridge regression on TF-IDF of words and letters",
    ),
    "draw": (
        '{"random":{"count":5,"within":["**.bias"]}}',
        TrainingCost.ENTRIES,
        "random entries of **.bias: 5",
    ),
    "lines": (
        '{"random":{"lines_of":["pooler.dense.weight"],"whole":["pooler.dense.bias"]}}',
        TrainingCost.ENTRIES,
        "random rows or columns of pooler.dense.weight; pooler.dense.bias",
    ),
    "lora": (
        '{"lora":{"alpha":8.0,"rank":4,"targets":["pooler.dense.weight"]},'
        '"parameters":["pooler.dense.bias"]}',
        TrainingCost.LOW_RANK,
        "LoRA (rank 4, alpha 8) on pooler.dense.weight; pooler.dense.bias",
    ),
}
TOP = Top(top=Ranked(ranking="r", fraction=0.25))


@pytest.mark.parametrize(("canonical", "work", "words"), KINDS.values(), ids=KINDS)
def test_a_kind_is_known_by_its_keys_and_says_what_it_trains(canonical, work, words, bert_large):
    selection = SELECTION.validate_json(canonical)
    assert selection.canonical() == canonical
    assert selection.work() is work
    assert selection.describe() == words
    entries = selection.resolve(bert_large, seed=0)
    assert all(entries[name] == Whole() for name in CLASSIFIER)
    assert (entries.keys() > set(CLASSIFIER)) == (not words.startswith("nothing"))
    assert selection.mask_name is None


def test_a_top_fraction_names_its_mask():
    assert SELECTION.validate_json(TOP.canonical()) == TOP
    assert TOP.canonical() == '{"top":{"fraction":0.25,"ranking":"r"}}'
    assert TOP.mask_name == "r 0.25"
    assert TOP.describe() == "the entries of mask r 0.25"


QUERIES = "encoder.layer.*.attention.self.query.weight"


def lora(*targets, parameters=None):
    return Lora(lora=LoraSettings(targets=targets, rank=4, alpha=6), parameters=parameters)


def test_an_update_has_its_rank_and_is_scaled_by_alpha_to_rank(bert_large):
    entries = lora(QUERIES, parameters=("pooler.dense.bias",)).resolve(bert_large, seed=0)
    queries = [QUERIES.replace("*", str(layer)) for layer in range(24)]
    assert {entries[name] for name in queries} == {LowRank(4, 1.5)}
    assert entries["pooler.dense.bias"] == Whole()
    assert entries.keys() == {*queries, "pooler.dense.bias", *CLASSIFIER}
    assert count_trained_parameters(entries, bert_large) == 24 * 4 * 2048 + 1024 + 2050


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pooler.dense.bias", "is not the matrix of a linear layer"),
        ("embeddings.word_embeddings.weight", "is not the matrix of a linear layer"),
        ("pooler.dense.weight", "is in targets and parameters"),
    ],
)
def test_a_target_is_a_linear_layers_matrix_that_does_not_train_whole(target, message, bert_large):
    with pytest.raises(SubtuneError, match=message):
        lora(target, parameters=("pooler.**",)).resolve(bert_large, seed=0)
