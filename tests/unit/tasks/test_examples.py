"""Examples that a model reads, and their rows."""

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.tasks.examples import Examples
from tests.helpers.examples import packable

IDS = [[2, 5, 3], [2, 5, 6, 3], [2, 3], [2, 6, 7, 8, 3]]


def with_windows(counts):
    """Examples of rows, with the number of examples of each row."""
    row = np.arange(len(counts)).repeat(counts).tolist()
    columns = {"input_ids": [[2, 3]] * len(row), "label": [0] * len(row), "row": row}
    return Examples(datasets.Dataset.from_dict(columns))


def test_examples_of_a_row_stay_together_in_the_order_of_rows():
    examples = with_windows([1, 3, 1, 2])
    assert (len(examples), len(examples.row_indices)) == (7, 4)
    assert examples.indices_of_rows(np.array([3, 1])).tolist() == [5, 6, 1, 2, 3]
    assert examples.indices_of_rows(np.array([], dtype=int)).tolist() == []
    # Each example is a row if there is no column of row numbers.
    assert packable(IDS, [0, 1, 0, 1]).row.tolist() == [0, 1, 2, 3]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12).flatmap(
        lambda counts: st.tuples(st.just(counts), st.permutations(range(len(counts))))
    )
)
def test_a_permutation_of_all_rows_is_one_of_all_examples(drawn):
    counts, order = drawn
    examples = with_windows(counts)
    index = examples.indices_of_rows(np.array(order))
    assert sorted(index) == list(range(len(examples)))
    assert examples.row[index].tolist() == [row for row in order for _ in range(counts[row])]


@pytest.mark.parametrize(
    ("reads", "labels", "positions", "units"),
    [
        (None, [0, 1, 0, 1], None, 2),
        ([[1], [1, 2], [], [1, 3]], [[4], [5, 6], [], [7, 8]], [[1], [1, 2], [], [1, 3]], 3),
        ("all", [[1, 1]] * 4, [[0, 1, 2], [0, 1, 2, 3], [0, 1], [0, 1, 2, 3, 4]], 2),
    ],
    ids=["first", "marked", "all"],
)
def test_a_head_reads_first_tokens_or_marked_ones_or_all(reads, labels, positions, units):
    examples = packable(IDS, labels, reads=reads)
    if positions is None:
        assert examples.reads is None
        assert examples.read_counts.tolist() == [1, 1, 1, 1]
    else:
        assert [of.tolist() for of in examples.reads] == positions
        assert examples.read_counts.tolist() == list(map(len, positions))
    assert [np.asarray(label).tolist() for label in examples.labels] == labels
    assert len(examples.select_labels(np.array([1, 0]))) == units


def test_lists_in_one_array_are_those_of_the_rows_that_were_selected():
    parts = [{"input_ids": ids, "label": [0] * len(ids)} for ids in (IDS, [[2, 9, 3], []], IDS)]
    split = datasets.concatenate_datasets([datasets.Dataset.from_dict(part) for part in parts])
    for rows in (split, split.select([9, 5, 4, 4, 0]), split.select(range(3, 7))):
        examples = Examples(rows)
        assert [ids.tolist() for ids in examples.inputs["input_ids"]] == rows["input_ids"][:]
        assert examples.lengths.tolist() == list(map(len, rows["input_ids"]))
