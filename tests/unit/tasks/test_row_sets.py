"""Rows that stay together, and folds that are the same for every method, model and length."""

from collections import defaultdict
from itertools import repeat

import datasets
import numpy as np
import pytest

from subtune.data.load import build_dataset, tokenize
from subtune.models.families import HEADS
from subtune.runs.spec import Fold
from subtune.tasks import Task
from subtune.tasks.examples import Examples, split_off_fold
from subtune.tasks.row_sets import divide_rows, find_sets
from subtune.tasks.task_kind import pair_with_places
from tests.helpers import examples
from tests.helpers.examples import TASKS, sentences

MOOD = Task(name="mood", title="M", text=("text",), labels=("sad", "happy"), metrics=("accuracy",))
PAIRS = MOOD.replace(text=("text", "reply"), group="author")


def alone(count):
    return repeat(None, count)


def test_texts_that_differ_in_capitals_and_spaces_are_one_set():
    texts = [["A  good film"], ["bad"], [" a good\tFILM "], ["BAD"], ["a good films"]]
    assert find_sets(texts, alone(5)) == [0, 1, 0, 1, 4]


def test_texts_with_letters_in_another_form_are_one_set():
    assert find_sets([["caf\u00e9"], ["cafe\u0301"], ["cafe"]], alone(3)) == [0, 0, 2]


def test_pairs_are_one_set_if_both_texts_are_equal():
    assert find_sets([["a", "b c"], ["a b", "c"], ["A", "b  c"]], alone(3)) == [0, 1, 0]


def test_a_group_is_one_set_and_rows_without_a_group_are_apart():
    assert find_sets([["a"], ["b"], ["c"], ["d"]], ["x", None, "x", None]) == [0, 1, 0, 3]


def test_groups_that_differ_in_capitals_and_spaces_are_one_set():
    groups = ["Ann", " ann\u00a0", "Anna", " ", " ", None]
    assert find_sets([["a"], ["b"], ["c"], ["d"], ["e"], ["f"]], groups) == [0, 0, 2, 3, 4, 5]


def test_a_group_is_no_text():
    assert find_sets([["x"], ["b"]], [None, "x"]) == [0, 1]


def test_rows_are_connected_through_texts_and_groups_of_other_rows():
    texts = [["a"], ["b"], ["b"], ["c"], ["c"], ["d"]]
    assert find_sets(texts, ["x", "x", "y", "y", "z", "w"]) == [0, 0, 0, 0, 0, 5]
    # In a chain of 5,000 rows, each row shares its group with the row before, or its text.
    chain = [[str(number // 2)] for number in range(5000)]
    groups = [str((number + 1) // 2) for number in range(5000)]
    assert {*find_sets(chain[::-1], groups[::-1])} == {0}


def make_rows(task, count=90):
    """Rows in which some texts and some authors occur twice, and some texts have unknown words."""
    columns = [sentences(count, seed) for seed, _ in enumerate(task.text)]
    rows = [
        dict(zip(task.text, texts, strict=True)) | {"label": task.labels[n % 3 == 0]}
        for n, texts in enumerate(zip(*columns, strict=True))
    ]
    for n in range(0, count, 10):
        # Unknown words give one token id, and long texts the same ids after truncation.
        rows[n] |= {task.text[0]: f"\u0e14{chr(0xE01 + n // 10)}"}
        rows[n + 1] |= {task.text[0]: "good film " * 20 + str(n)}
        rows[n + 2] = rows[n + 3] | {task.text[0]: rows[n + 3][task.text[0]].upper()}
    return [row | {"author": f"author {n % 40}"} for n, row in enumerate(rows)]


@pytest.mark.parametrize(
    "task", [MOOD, MOOD.replace(group="author"), PAIRS.replace(group=None), PAIRS]
)
def test_all_methods_models_and_lengths_are_scored_on_the_same_rows(task, tiny_bert, minilm):
    placed = pair_with_places(make_rows(task))
    columns = task.of_kind.from_rows(task, placed, labelled=True, source="rows")
    rows = datasets.DatasetDict({"train": build_dataset(task, columns)})
    apart = len(task.text) > 1
    tokens = [
        tokenize(task, rows, tiny_bert, 24),
        tokenize(task, rows, tiny_bert, 8),
        tokenize(task, rows, minilm, 24),
        tokenize(task, rows, tiny_bert, 24, apart=apart),
        tokenize(task, rows, minilm, 8, apart=apart),
    ]
    every = [Examples(split["train"]) for split in tokens]
    assert len(every[3]) == len(task.text) * len(every[0])
    for number in range(3):
        fold = Fold(of=3, number=number, partition=1, rows=20 if number else None)
        scored = [split_off_fold(of, task, fold)[1].row_indices.tolist() for of in every]
        assert scored[0] and all(other == scored[0] for other in scored[1:])
    sides = divide_rows(task, np.array(columns["set"]), np.array(columns["label"]), 3, 1)
    fold_of = {row: number for number, part in enumerate(sides) for row in part}
    authors = [row["author"] for row in make_rows(task)] if task.group else []
    for keys in (task.of_kind.texts(columns), authors):
        folds_of = defaultdict(set)
        for row, key in enumerate(keys):
            folds_of[str(key).casefold()].add(fold_of[row])
        assert {len(of_key) for of_key in folds_of.values()} <= {1}


@pytest.mark.parametrize("name", ["ud_ewt", "squad"])
def test_words_and_questions_are_scored_on_the_same_rows(name, tiny_bert, minilm):
    task = TASKS[name]
    rows = examples.rows_of(task, rows=30)
    stride = examples.doc_stride_of(task)
    every = [
        Examples(tokenize(task, rows, directory, length, stride)["train"], HEADS[task.of_kind.head])
        for directory in (tiny_bert, minilm)
        for length in (16, 40)
    ]
    assert len({len(of) for of in every}) > 1
    for number in range(3):
        fold = Fold(of=3, number=number)
        scored = [split_off_fold(of, task, fold)[1].row_indices.tolist() for of in every]
        assert scored[0] and all(other == scored[0] for other in scored[1:])


@pytest.mark.parametrize("seed", range(30))
def test_no_fold_is_empty_and_labels_are_spread(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, rng.integers(2, 9), rng.integers(5, 60))
    sets = np.arange(len(sizes)).repeat(sizes)
    labels = rng.integers(0, 2, len(sets))
    parts = divide_rows(MOOD, sets, labels, 5, 0)
    assert sorted(np.concatenate(parts)) == [*range(len(sets))]
    assert min(map(len, parts)) > 0
