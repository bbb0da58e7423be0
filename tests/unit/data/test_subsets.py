"""Rows that stay together, folds that are the same for all methods, dev sets and samples."""

from collections import Counter, defaultdict
from itertools import chain, repeat

import datasets
import numpy as np
import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import build_dataset, tokenize
from subtune.data.sources import make_columns
from subtune.data.subsets import (
    divide_rows,
    draw_dev_set,
    draw_rows,
    find_sets,
    fold_rows,
    split_off_fold,
)
from subtune.models.families import HEADS
from subtune.runs.spec import Fold
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from subtune.tasks.task_kind import pair_with_places
from tests.helpers import examples
from tests.helpers.examples import examples_of, packable, sentences

CLASSES = Task(name="t", title="t", text=("text",), labels=("a", "b"), metrics=("accuracy",))
NUMBERS = Task(name="t", title="t", text=("text",), kind="regression", metrics=("pearsonr",))
PAIRS = CLASSES.replace(text=("text", "reply"), group="author")


@pytest.mark.parametrize(
    ("texts", "groups", "sets"),
    [
        (
            [["A  good film"], ["bad"], [" a good\tFILM "], ["BAD"], ["a good films"]],
            None,
            [0, 1, 0, 1, 4],
        ),
        # Letters in another Unicode form.
        ([["caf\u00e9"], ["cafe\u0301"], ["cafe"]], None, [0, 0, 2]),
        ([["a", "b c"], ["a b", "c"], ["A", "b  c"]], None, [0, 1, 0]),
        ([["a"], ["b"], ["c"], ["d"]], ["x", None, "x", None], [0, 1, 0, 3]),
        (
            [[text] for text in "abcdef"],
            ["Ann", " ann\u00a0", "Anna", " ", " ", None],
            [0, 0, 2, 3, 4, 5],
        ),
        # A group is no text.
        ([["x"], ["b"]], [None, "x"], [0, 1]),
        # Rows are connected through texts and groups of other rows.
        (
            [["a"], ["b"], ["b"], ["c"], ["c"], ["d"]],
            ["x", "x", "y", "y", "z", "w"],
            [0, 0, 0, 0, 0, 5],
        ),
    ],
)
def test_rows_with_equal_texts_or_groups_are_one_set(texts, groups, sets):
    assert find_sets(texts, groups or repeat(None, len(texts))) == sets


def test_rows_in_a_chain_are_one_set():
    # Each row shares its group with the row before, or its text.
    texts = [[str(number // 2)] for number in range(5000)]
    groups = [str((number + 1) // 2) for number in range(5000)]
    assert {*find_sets(texts[::-1], groups[::-1])} == {0}


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
    "task", [CLASSES, CLASSES.replace(group="author"), PAIRS.replace(group=None), PAIRS]
)
def test_all_methods_models_and_lengths_are_scored_on_the_same_rows(task, tiny_bert, minilm):
    placed = pair_with_places(make_rows(task))
    columns = make_columns(task, placed, labelled=True, source="rows")
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
    parts = divide_rows(CLASSES, sets, labels, 5, 0)
    assert sorted(np.concatenate(parts)) == [*range(len(sets))]
    assert min(map(len, parts)) > 0


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


def test_few_rows_of_a_fold_have_each_label_if_a_scorer_needs_them(tiny_bert):
    task = TASKS["sst2"].replace(metrics=("accuracy", "roc_auc"))
    labels = [1, 1] + [0] * 38
    tokens = examples.tokens(task, tiny_bert, rows=40)["train"]
    train = Examples(tokens.remove_columns("label").add_column("label", labels))
    _, judging = split_off_fold(train, task.spec(), Fold(of=2, number=0, rows=5))
    assert sorted(judging.row_labels) == [0, 0, 0, 0, 0, 1]


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


def test_numbers_are_spread():
    labels = np.random.default_rng(0).normal(size=200)
    train = packable([[2, number, 3] for number in range(200)], labels.tolist())
    means = [labels[part].mean() for part in folds(train, TASKS["stsb"], 5)]
    assert np.ptp(means) < 0.2


def columns(labels, texts=None, groups=None) -> dict:
    texts = texts or [f"text {number}" for number in range(len(labels))]
    sets = find_sets(([text] for text in texts), groups or repeat(None, len(texts)))
    return {"text_a": texts, "label": [*labels], "set": sets}


@pytest.mark.fault(
    "data",
    "too many rows or too long texts for the time limit",
    "rows are sampled by class, texts are truncated; both are reported",
)
@pytest.mark.parametrize(
    ("task", "labels", "drawn"),
    [
        (CLASSES, [0] * 900 + [1] * 100, [90, 10]),
        # A rare class keeps a row.
        (CLASSES, [0] * 999 + [1], [100, 1]),
        (NUMBERS, [*range(1000)], [10] * 10),
    ],
)
def test_each_class_and_each_range_of_numbers_keeps_its_share(task, labels, drawn):
    rows = draw_rows(task, columns(labels), 100, np.arange(1000))
    bins, _ = np.histogram(np.array(labels)[rows], len(drawn), (0, labels[-1]))
    assert sorted(rows) == [*rows] and bins.tolist() == drawn


@pytest.mark.parametrize(
    ("texts", "groups"),
    [
        ([f"Text  {number % 50}" for number in range(300)], None),
        (None, [f"author {number % 50}" for number in range(300)]),
    ],
    ids=["equal texts", "one author"],
)
def test_rows_of_one_text_or_author_are_on_one_side_of_a_drawn_dev_set(texts, groups):
    shared = [*range(50)] * 6
    found = draw_dev_set(CLASSES, columns([0, 1] * 150, texts, groups), 0.2)
    sides = [{shared[row] for row in found[split]} for split in ("train", "validation")]
    assert sides[0].isdisjoint(sides[1]) and sides[0] | sides[1] == {*range(50)}
    assert len(found["validation"]) == pytest.approx(60, abs=6)


def test_rows_connected_by_text_and_author_are_on_one_side():
    texts = [f"text {number // 2}" for number in range(300)]
    authors = [f"author {(number + 1) // 2 if number % 6 else number}" for number in range(300)]
    found = draw_dev_set(CLASSES, columns([0, 1] * 150, texts, authors), 0.2)
    for keys in (texts, authors):
        sides = [{keys[row] for row in found[split]} for split in ("train", "validation")]
        assert sides[0].isdisjoint(sides[1])
    assert len(found["validation"]) == 60


def test_a_large_author_does_not_make_the_dev_set_larger():
    authors = ["prolific"] * 730 + [f"author {number}" for number in range(270)]
    found = draw_dev_set(CLASSES, columns([0, 1] * 500, None, authors), 0.2)
    assert np.bincount(np.array([0, 1] * 500)[found["validation"]]).tolist() == [100, 100]


@pytest.mark.parametrize(
    ("sizes", "drawn"), [([730, 270], 270), ([400, 390, 210], 210), ([500, 300, 150, 50], 200)]
)
def test_few_authors_give_the_nearest_size(sizes, drawn):
    authors = [f"author {n}" for n, size in enumerate(sizes) for _ in range(size)]
    found = draw_dev_set(CLASSES, columns([0, 1] * 500, None, authors), 0.2)
    assert len(found["validation"]) == drawn


def test_a_label_of_one_row_trains():
    found = draw_dev_set(CLASSES, columns([0] * 99 + [1]), 0.2)
    assert 99 in found["train"] and len(found["validation"]) == 20


def test_many_rare_labels_give_a_dev_set_of_the_wanted_size():
    labels = [*range(200)] * 2
    task = CLASSES.replace(labels=tuple(map(str, range(200))))
    found = draw_dev_set(task, columns(labels), 0.2)
    assert len(found["validation"]) == 80
    assert {labels[row] for row in found["train"]} == {*range(200)}


def test_one_author_cannot_be_divided():
    with pytest.raises(SubtuneError, match="all rows have the same text or group"):
        draw_dev_set(CLASSES, columns([0, 1] * 5, None, ["author"] * 10), 0.2)


def test_more_rows_contain_fewer():
    few, many = (
        {*draw_rows(CLASSES, columns([0, 1] * 500), number, np.arange(1000))}
        for number in (100, 200)
    )
    assert few < many
