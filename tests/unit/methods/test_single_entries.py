"""Selections of single entries: random ones, and those of masks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.methods.selection import Indices, count_trained_parameters
from subtune.methods.single_entries import (
    ChosenEntries,
    Lines,
    Random,
    RandomEntries,
    RankedEntries,
    TopSettings,
    multiply_exactly,
    read_entry_arrays,
)
from tests.helpers.examples import CLASSIFIER


def indices(entries):
    """Tensor name to the flat indices that train, of those that train in part."""
    return {name: entry.flat for name, entry in entries.items() if isinstance(entry, Indices)}


def test_random_draws_as_many_as_layernorm_by_tensor_size(bert_large):
    entries = METHODS["random"].resolve(bert_large, seed=0)
    assert count_trained_parameters(entries, bert_large) == 51_202
    drawn = indices(entries)
    words = "embeddings.word_embeddings.weight"
    total = sum(math.prod(shape) for n, shape in bert_large.items() if "classifier" not in n)
    expected = 49_152 * math.prod(bert_large[words]) / total
    assert abs(len(drawn[words]) - expected) < 5 * math.sqrt(expected)


def test_a_draw_has_its_count_and_depends_on_the_seed_alone(bert_large):
    def flat(seed):
        drawn = Random(random=RandomEntries(count=1234, within=("**.bias",))).resolve(
            bert_large, seed
        )
        assert all(name.endswith(".bias") for name in drawn.keys() - set(CLASSIFIER))
        return {name: index.tolist() for name, index in indices(drawn).items()}

    assert sum(map(len, flat(1).values())) == 1234
    assert flat(1) == flat(1) != flat(2)


def test_random_lines_are_whole_columns_or_as_many_entries_of_whole_rows():
    shapes = {"tall": (6, 3), "wide": (2, 4), "classifier.weight": (2, 2)}
    lines = Random(random=Lines(lines_of=("tall", "wide")))
    kinds = set()
    for seed in range(20):
        drawn = indices(lines.resolve(shapes, seed))
        rows, columns = np.divmod(drawn["tall"], 3)
        assert len(drawn["tall"]) == 6
        kinds.add((len(set(rows)), len(set(columns))))
        assert len(set(drawn["wide"] % 4)) == 1
    assert kinds == {(6, 1), (2, 3)}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (RandomEntries(count=16), "cannot select 16 of 15 entries"),
        (Lines(lines_of=("bias",)), "'bias' is not a matrix"),
    ],
)
def test_what_a_model_lacks_cannot_be_drawn(draw, message):
    shapes = {"weight": (3, 4), "bias": (3,), "classifier.weight": (2, 3)}
    with pytest.raises(SubtuneError, match=message):
        Random(random=draw).resolve(shapes, seed=0)


@given(st.integers(1, 10_000), st.integers(1, 1000))
def test_a_fraction_of_n_entries_is_the_ceiling_of_f_times_n(n, thousandths):
    # This is ⌈n · thousandths / 1000⌉ in whole numbers.
    assert multiply_exactly(thousandths / 1000, n) == -(-n * thousandths // 1000)


def test_a_mask_is_of_those_tensors_that_the_model_has():
    mask = {"pooler.dense.bias": np.array([0, 2, 3]), "v": np.array([1, 3])}
    entries = ChosenEntries(entries="m").select_encoder_entries({"v": (4,)}, seed=0, mask=mask)
    assert {name: list(indices.flat) for name, indices in entries.items()} == {"v": [1, 3]}


def test_a_ranked_selection_counts_as_many_entries_as_its_mask_will_have():
    shapes = {"a": (3, 4), "b": (5,), "classifier.weight": (2, 2)}
    for number, expected in (({"count": 13}, 13), ({"share": 0.5}, 9), ({"as_many_as": ["b"]}, 5)):
        selection = RankedEntries(top=TopSettings(of=("a", "b"), **number))
        entries = selection.resolve(shapes, seed=0)
        assert count_trained_parameters(entries, shapes) == expected + 4


def test_a_damaged_file_of_information_is_named_with_what_to_do(tmp_path):
    path = tmp_path / "sst2.safetensors"
    path.write_bytes(b"\x00" * 100)
    with pytest.raises(SubtuneError, match=r"sst2\.safetensors is damaged; delete it, and"):
        read_entry_arrays(path)
