"""Selections of single entries: random ones, and the first of a ranking."""

import math

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.methods.selection import Indices, WholeTensors, count_trained_parameters
from subtune.methods.single_entries import (
    Lines,
    Random,
    RandomEntries,
    Ranked,
    Top,
    rank_entries,
    rank_entries_in_files,
    read_entry_arrays,
    sum_information,
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
def test_a_mask_keeps_exactly_the_ceiling_of_f_times_n(n, thousandths):
    fraction = thousandths / 1000
    rank = {"v": np.random.default_rng(n).permutation(n).astype(np.int32)}
    top = Top(top=Ranked(ranking="r", fraction=fraction))
    kept = top.resolve({"v": (n,), "classifier.weight": (1,)}, seed=0, ranks=rank)["v"].flat
    # This is ⌈n · thousandths / 1000⌉ in whole numbers.
    assert len(kept) == -(-n * thousandths // 1000)


def test_a_mask_is_of_those_ranked_tensors_that_the_model_has():
    rank = {"pooler.dense.bias": np.array([0, 2, 3]), "v": np.array([1, 4, 5, 6])}
    top = Top(top=Ranked(ranking="r", fraction=0.5))
    entries = top.select_encoder_entries({"v": (4,)}, seed=0, ranks=rank)
    assert {name: list(indices.flat) for name, indices in entries.items()} == {"v": [0, 1]}


def test_the_most_informative_entry_ranks_first():
    ranking = rank_entries({"a": np.array([1.0, 5.0, 1.0]), "b": np.array([5.0, 0.0])})
    assert ranking["a"].tolist() == [2, 0, 3]
    assert ranking["b"].tolist() == [1, 4]


def test_every_task_counts_the_same_however_large_its_information():
    small, large = {"a": np.array([1.0, 3.0])}, {"a": np.array([3e6, 1e6])}
    assert sum_information([small, large])["a"] == pytest.approx([1.0, 1.0])


def test_a_ranking_holds_every_entry_of_its_selection_matrices_too(tmp_path):
    of = WholeTensors(parameters=("encoder.layer.*.attention.self.query.*",))
    module = "encoder.layer.0.attention.self.query"
    weight, bias = np.array([[4.0, 1.0], [2.0, 9.0]]), np.full(2, 0.5)
    stored = {f"{module}.weight": weight, f"{module}.bias": bias}
    path = tmp_path / "fisher.safetensors"
    safetensors.numpy.save_file(stored | {"pooler.dense.bias": np.ones(2)}, path)
    ranking = rank_entries_in_files(of, [path])
    assert ranking[f"{module}.weight"].tolist() == [1, 3, 2, 0]
    assert list(ranking) == [f"{module}.bias", f"{module}.weight"]


@given(st.permutations(range(4)))
def test_the_order_of_tasks_does_not_matter(order):
    rng = np.random.default_rng(0)
    tasks = [{"a": rng.random(50), "b": rng.random(7)} for _ in range(4)]
    straight, shuffled = (
        rank_entries(sum_information(tasks)),
        rank_entries(sum_information([tasks[i] for i in order])),
    )
    assert all((straight[name] == shuffled[name]).all() for name in straight)


def test_information_of_zero_is_an_error():
    with pytest.raises(SubtuneError, match="sums to 0"):
        sum_information([{"a": np.zeros(3)}])


def test_a_damaged_file_of_information_is_named_with_what_to_do(tmp_path):
    path = tmp_path / "sst2.safetensors"
    path.write_bytes(b"\x00" * 100)
    with pytest.raises(SubtuneError, match=r"sst2\.safetensors is damaged; delete it, and"):
        read_entry_arrays(path)
