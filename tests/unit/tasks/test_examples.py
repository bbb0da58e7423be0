"""Examples that a model reads, and their rows."""

from collections import Counter
from itertools import chain

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.runs.spec import Fold
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples, fold_rows, split_off_fold
from tests.helpers import examples
from tests.helpers.examples import examples_of, packable

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


def folds(train, task, of, partition=0):
    return [part.tolist() for part in fold_rows(train, task, of, partition)]


@pytest.mark.parametrize("task", ["sst2", "stsb", "ud_ewt", "squad"])
def test_each_row_is_in_one_fold_and_its_examples_with_it(task, tiny_bert):
    train = examples_of(TASKS[task], examples.tokens(TASKS[task], tiny_bert, rows=23))["train"]
    parts = folds(train, TASKS[task], 5)
    assert sorted(chain(*parts)) == list(range(23))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts != folds(train, TASKS[task], 5, partition=1)
    for number, part in enumerate(parts):
        others, judging = split_off_fold(train, TASKS[task], Fold(of=5, number=number))
        assert judging.row_indices.tolist() == part
        assert sorted([*others.row_indices, *judging.row_indices]) == list(range(23))
        expected = [
            ids
            for row, ids in zip(train.row, train.inputs["input_ids"], strict=True)
            if row in part
        ]
        assert [*map(list, judging.inputs["input_ids"])] == [*map(list, expected)]


def test_few_rows_of_a_fold_judge_and_its_others_do_not_train(tiny_bert):
    train = examples_of(TASKS["squad"], examples.tokens(TASKS["squad"], tiny_bert, rows=23))[
        "train"
    ]
    whole, few = Fold(of=2, number=0), Fold(of=2, number=0, rows=4)
    others, judging = split_off_fold(train, TASKS["squad"], whole)
    same_others, some = split_off_fold(train, TASKS["squad"], few)
    assert same_others.row_indices.tolist() == others.row_indices.tolist()
    assert len(some.row_indices) == 4
    assert {*some.row_indices} < {*judging.row_indices}
    assert some.row_indices.tolist() != judging.row_indices.tolist()[:4]


def test_labels_are_spread_and_rows_with_equal_texts_are_together():
    rng = np.random.default_rng(0)
    texts = [[2, *rng.integers(5, 99, 4), 3] for _ in range(60)]
    texts += texts[:12]
    labels = [int(number % 5 == 0) for number in range(60)] + [0] * 12
    parts = folds(packable(texts, labels), TASKS["sst2"], 3)
    for text in range(12):
        assert (
            len({number for number, part in enumerate(parts) if {text, 60 + text} & {*part}}) == 1
        )
    counts = [Counter(labels[row] for row in part)[1] for part in parts]
    assert sum(counts) == 12 and max(counts) - min(counts) <= 1


def test_a_label_with_fewer_rows_than_folds_is_in_some_of_them():
    texts = [[2, 5 + number, 3] for number in range(30)]
    parts = folds(packable(texts, [0] * 28 + [1] * 2), TASKS["sst2"], 5)
    assert sorted(row for part in parts for row in part) == [*range(30)]
    assert sum(bool({28, 29} & {*part}) for part in parts) == 2


def test_fewer_texts_than_folds_are_one_line():
    """Data that is read after planning can have fewer texts than folds."""
    problem = "task 'sst2': found too few different texts for 5 folds: .* groups: 3"
    with pytest.raises(SubtuneError, match=problem):
        folds(packable([[2, number % 3, 3] for number in range(20)], [0, 1] * 10), TASKS["sst2"], 5)


def test_token_ids_of_an_earlier_version_have_no_folds():
    old = datasets.Dataset.from_dict({"input_ids": IDS, "label": [0, 1, 0, 1]})
    with pytest.raises(SubtuneError, match="delete `datasets` and `tokens`"):
        folds(Examples(old), TASKS["sst2"], 2)


def test_numbers_are_spread():
    labels = np.random.default_rng(0).normal(size=200)
    train = packable([[2, number, 3] for number in range(200)], labels.tolist())
    means = [labels[part].mean() for part in folds(train, TASKS["stsb"], 5)]
    assert np.ptp(means) < 0.2
