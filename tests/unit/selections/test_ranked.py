"""Top fractions of a ranking, to the entry."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from subtune.selections.entries import Ranked, Top, top_count


@given(st.integers(1, 10_000), st.integers(1, 1000))
def test_a_mask_keeps_exactly_the_ceiling_of_f_times_n(n, thousandths):
    fraction = thousandths / 1000
    rank = {"v": np.random.default_rng(n).permutation(n).astype(np.int32)}
    top = Top(top=Ranked(ranking="r", fraction=fraction))
    kept = top.resolve({"v": (n,), "classifier.weight": (1,)}, seed=0, ranks=rank)["v"].flat
    # In whole numbers: ⌈n · thousandths / 1000⌉.
    assert len(kept) == -(-n * thousandths // 1000)


def test_a_mask_is_of_those_ranked_tensors_that_the_model_has():
    rank = {"pooler.dense.bias": np.array([0, 2, 3]), "v": np.array([1, 4, 5, 6])}
    top = Top(top=Ranked(ranking="r", fraction=0.5))
    entries = top.encoder_entries({"v": (4,)}, seed=0, ranks=rank)
    assert {name: list(indices.flat) for name, indices in entries.items()} == {"v": [0, 1]}


@given(st.integers(1, 10**6))
def test_rounding_of_f_times_n_neither_adds_nor_loses_an_entry(n):
    assert top_count(1.0, n) == n
    assert top_count(0.07, 100 * n) == 7 * n
