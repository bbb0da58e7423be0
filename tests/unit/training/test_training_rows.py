"""The rows of a training set that train a run."""

from itertools import pairwise

import datasets
import numpy as np

from subtune.tasks.examples import Examples
from subtune.training.recipe import examples_that_train
from tests.helpers.examples import recipe


def examples(rows):
    """A training set with the row of each example."""
    columns = {"input_ids": [[1, 2]] * len(rows), "label": [0] * len(rows), "row": rows}
    return Examples(datasets.Dataset.from_dict(columns))


def rows_of(train, train_rows, seed=0):
    generator = np.random.default_rng(seed)
    return train.row[examples_that_train(train, recipe(train_rows=train_rows), generator)].tolist()


def test_smaller_parts_of_a_training_set_are_within_larger_ones_and_depend_on_the_seed():
    train = examples(range(50))
    parts = [set(rows_of(train, size)) for size in (5, 10, 40, None)]
    assert [len(part) for part in parts] == [5, 10, 40, 50]
    assert all(smaller < larger for smaller, larger in pairwise(parts))
    assert parts[1] != set(rows_of(train, 10, seed=1))


def test_a_row_of_several_examples_counts_once_and_trains_whole():
    train = examples([number // 3 for number in range(30)])
    rows = rows_of(train, 4)
    assert len(rows) == 12 and len(set(rows)) == 4
