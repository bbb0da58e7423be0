"""Which rows of a training set train a run."""

from itertools import pairwise

import numpy as np
import pytest

from subtune.training.recipe import rows_that_train
from tests.helpers.examples import recipe


def rows(train_rows, seed=0, n=50):
    generator = np.random.default_rng(seed)
    return rows_that_train(n, recipe(train_rows=train_rows), generator).tolist()


@pytest.mark.parametrize("seed", [0, 1])
def test_smaller_parts_of_a_training_set_are_within_larger_ones(seed):
    parts = [set(rows(size, seed)) for size in (5, 10, 40, None)]
    assert [len(part) for part in parts] == [5, 10, 40, 50]
    assert all(smaller < larger for smaller, larger in pairwise(parts))


def test_another_seed_draws_other_rows():
    assert set(rows(10, seed=0)) != set(rows(10, seed=1))
