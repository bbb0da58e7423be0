"""Which entries a selection trains, counted exactly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import RobertaConfig

from subtune.errors import SubtuneError
from subtune.methods import METHODS
from subtune.models.encoder import skeleton
from subtune.models.shapes import PAPERS_MODELS, shapes_from
from subtune.selection import CLASSIFIER, count, matching, resolve, top_count
from subtune.specs import Draw, Lines, Parameters, Random, Ranked, Top


@pytest.fixture(scope="module")
def shapes():
    return shapes_from(PAPERS_MODELS["bert-large-cased"], num_labels=2)


@pytest.mark.parametrize(
    ("method", "printed"), [("full", 333_581_314), ("bitfit", 274_434), ("layernorm", 51_202)]
)
def test_bert_large_cased_trains_as_many_parameters_as_the_paper_prints(shapes, method, printed):
    assert count(resolve(METHODS[method], shapes, seed=0), shapes) == printed


def test_random_trains_as_many_parameters_as_layernorm(shapes):
    entries = resolve(METHODS["random"], shapes, seed=0)
    assert count(entries, shapes) == 51_202


def test_random_is_drawn_in_proportion_to_the_size_of_tensors(shapes):
    entries = resolve(METHODS["random"], shapes, seed=0)
    words = "embeddings.word_embeddings.weight"
    total = sum(math.prod(shape) for name, shape in shapes.items() if "classifier" not in name)
    expected = 49_152 * math.prod(shapes[words]) / total
    assert abs(len(entries[words]) - expected) < 5 * math.sqrt(expected)


def test_random_depends_on_the_seed_alone(shapes):
    def flat(seed):
        entries = resolve(METHODS["random"], shapes, seed)
        return {name: index.tolist() for name, index in entries.items() if index is not None}

    assert flat(1) == flat(1)
    assert flat(1) != flat(2)


def test_layernorm_is_the_output_layernorm_and_the_classifier_and_nothing_else(shapes):
    names = set(resolve(METHODS["layernorm"], shapes, seed=0))
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


def test_a_star_does_not_cross_a_dot(shapes):
    pattern = "encoder.layer.*.output.LayerNorm.bias"
    assert len(matching([pattern], shapes)) == 24
    assert len(matching(["encoder.**.output.LayerNorm.bias"], shapes)) == 48


def test_a_pattern_that_matches_nothing_is_an_error(shapes):
    with pytest.raises(SubtuneError, match=r"'encoder\.layers\.\*' matches no parameter"):
        resolve(Parameters(parameters=("encoder.layers.*",)), shapes, seed=0)


def test_a_range_of_layers_includes_both_ends_and_may_be_open(shapes):
    def layers(part):
        return {int(n.split(".")[2]) for n in matching([f"encoder.layer.{part}.**"], shapes)}

    assert layers("4-8") == {4, 5, 6, 7, 8}
    assert layers("20-") == {20, 21, 22, 23}
    assert layers("7") == {7}


def test_what_is_left_out_does_not_train(shapes):
    chosen = Parameters(parameters=("pooler.**",), without=("**.bias",))
    assert set(resolve(chosen, shapes, 0)) == {"pooler.dense.weight", *CLASSIFIER}


def test_a_draw_of_a_count_holds_that_many_entries(shapes):
    drawn = resolve(Random(random=Draw(count=1234, within=("**.bias",))), shapes, seed=3)
    assert sum(len(index) for index in drawn.values() if index is not None) == 1234
    assert all(name.endswith(".bias") for name in drawn.keys() - set(CLASSIFIER))


def test_random_lines_are_whole_columns_or_as_many_entries_of_whole_rows():
    shapes = {"tall": (6, 3), "wide": (2, 4), "classifier.weight": (2, 2)}
    lines = Random(random=Lines(lines_of=("tall", "wide")))
    kinds = set()
    for seed in range(20):
        drawn = resolve(lines, shapes, seed)
        rows, columns = np.divmod(drawn["tall"], 3)
        assert len(drawn["tall"]) == 6
        kinds.add((len(set(rows)), len(set(columns))))
        assert len(set(drawn["wide"] % 4)) == 1
    assert kinds == {(6, 1), (2, 3)}


@given(st.integers(1, 10_000), st.integers(1, 1000))
def test_a_mask_keeps_exactly_the_ceiling_of_f_times_n(n, thousandths):
    fraction = thousandths / 1000
    rank = {"v": np.random.default_rng(n).permutation(n).astype(np.int32)}
    top = Top(top=Ranked(ranking="r", fraction=fraction))
    kept = resolve(top, {"v": (n,), "classifier.weight": (1,)}, seed=0, ranks=rank)["v"]
    # In whole numbers: ⌈n · thousandths / 1000⌉.
    assert len(kept) == -(-n * thousandths // 1000)


@given(st.integers(1, 10**6))
def test_rounding_of_f_times_n_neither_adds_nor_loses_an_entry(n):
    assert top_count(1.0, n) == n
    assert top_count(0.07, 100 * n) == 7 * n
