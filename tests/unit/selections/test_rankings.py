"""Rankings by Fisher information, and which tasks each scope looks at."""

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.selections.entries import rank_files, ranks, read_ranks, summed
from subtune.selections.patterns import WholeTensors


def test_the_most_informative_entry_is_first_and_ties_go_to_the_earlier_entry():
    ranking = ranks({"a": np.array([1.0, 5.0, 1.0]), "b": np.array([5.0, 0.0])})
    assert ranking["a"].tolist() == [2, 0, 3]
    assert ranking["b"].tolist() == [1, 4]


def test_every_task_counts_the_same_however_large_its_information():
    small, large = {"a": np.array([1.0, 3.0])}, {"a": np.array([3e6, 1e6])}
    assert summed([small, large])["a"] == pytest.approx([1.0, 1.0])


def test_a_ranking_holds_every_entry_of_its_selection_matrices_too(tmp_path):
    of = WholeTensors(parameters=("encoder.layer.*.attention.self.query.*",))
    module = "encoder.layer.0.attention.self.query"
    weight, bias = np.array([[4.0, 1.0], [2.0, 9.0]]), np.full(2, 0.5)
    stored = {f"{module}.weight": weight, f"{module}.bias": bias}
    path = tmp_path / "fisher.safetensors"
    safetensors.numpy.save_file(stored | {"pooler.dense.bias": np.ones(2)}, path)
    ranking = rank_files(of, [path])
    assert ranking[f"{module}.weight"].tolist() == [1, 3, 2, 0]
    assert list(ranking) == [f"{module}.bias", f"{module}.weight"]


@given(st.permutations(range(4)))
def test_the_order_of_tasks_does_not_matter(order):
    rng = np.random.default_rng(0)
    tasks = [{"a": rng.random(50), "b": rng.random(7)} for _ in range(4)]
    straight, shuffled = ranks(summed(tasks)), ranks(summed([tasks[i] for i in order]))
    assert all((straight[name] == shuffled[name]).all() for name in straight)


def test_information_of_zero_is_an_error():
    with pytest.raises(SubtuneError, match="sums to 0"):
        summed([{"a": np.zeros(3)}])


def test_a_damaged_file_of_information_is_named_with_what_to_do(tmp_path):
    path = tmp_path / "sst2.safetensors"
    path.write_bytes(b"\x00" * 100)
    with pytest.raises(SubtuneError, match=r"sst2\.safetensors is damaged; delete it, and"):
        read_ranks(path)
