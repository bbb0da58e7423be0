"""Labels: classes or numbers, and refusals."""

from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from sklearn.metrics import f1_score

from subtune.core.errors import SubtuneError
from subtune.init.labels import (
    Labels,
    columns_of,
    f1_of_the_same_labels,
    labels_of,
    rows_of_words,
)
from subtune.init.tables import Table


def table_of(labels, name="train.csv"):
    rows = [(f"line {line}", {"label": label}) for line, label in enumerate(labels, start=2)]
    return Table(Path(name), ("label",), rows)


def read(train, dev=None, kind=None):
    return labels_of(table_of(train), table_of(dev or train, "dev.csv"), "label", kind)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["b", "a", " a "], ("a", "b")),
        (["10", "9", "2"] * 2, ("2", "9", "10")),
        (["1.0", "0.0"], ("0.0", "1.0")),
        (["yes", "no", "null", "1e-3", "²"] * 3, ("1e-3", "no", "null", "yes", "²")),
        ([*map(str, range(10))] * 3, tuple(map(str, range(10)))),
        (["0.5", "1"], None),
        ([*map(str, range(11))] * 3, None),
        ([*(f"{n}.5" for n in range(40)), "nan"], None),
    ],
)
def test_words_and_few_whole_numbers_are_classes_and_other_numbers_are_not(labels, words):
    assert read(labels).words == words


def test_a_guess_can_be_overridden():
    assert read(["0", "1"], kind="regression").words is None
    assert read(["0.5", "1"], kind="classification").words == ("0.5", "1")


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        (["a", ""], None, "train.csv: line 3: found no text or number in column 'label', "),
        (["a", "b"], ["a", None], "dev.csv: line 3: found no text or number in column 'label'"),
        (["a", "a"], None, "train.csv: found no label but a, expected at least two"),
        (["a", "b"], ["c", "d"], "dev.csv: column 'label': found c, d in most rows, expected lab"),
        ([f"w{n}" for n in range(12)], None, "--label: found 12 different labels in 12 rows of"),
    ],
)
def test_labels_that_nothing_can_be_learnt_from_are_refused(train, dev, message):
    with pytest.raises(SubtuneError) as error:
        read(train, dev)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("counts", "metrics"),
    [
        ({"a": 52, "b": 48}, ("accuracy",)),
        ({"a": 70, "b": 30}, ("matthews_correlation", "f1_macro", "accuracy")),
        ({"a": 40, "b": 30, "c": 30}, ("accuracy",)),
        ({"a": 50, "b": 30, "c": 20}, ("matthews_correlation", "f1_macro", "accuracy")),
    ],
)
def test_where_one_class_is_most_of_the_rows_accuracy_does_not_decide(counts, metrics):
    counts = Counter(counts)
    assert Labels("label", tuple(counts), counts, counts).metrics == metrics


def test_a_regression_is_judged_by_correlations():
    assert read(["0.5", "1.25"]).metrics == ("spearmanr", "pearsonr")


LISTS = ['["b", "a"]', "[]", '["a"]']


@pytest.mark.parametrize(
    ("cells", "sets"),
    [
        (LISTS, [("a", "b"), (), ("a",)]),
        ([["b", "a"], [], ["a"]], [("a", "b"), (), ("a",)]),
        (["['b', 'a']", "[]", "['a']"], [("a", "b"), (), ("a",)]),
        (["b|a", "", "a", "b"], [("a", "b"), (), ("a",), ("b",)]),
        (["b;a", "a", "b"], [("a", "b"), ("a",), ("b",)]),
    ],
)
def test_lists_are_any_number_of_labels(cells, sets):
    labels = read(cells)
    assert (labels.kind, labels.words) == ("multilabel", ("a", "b"))
    assert labels.train == Counter(sets)
    assert labels.metrics == ("f1_micro", "f1_macro", "accuracy")
    assert rows_of_words(labels.train) == Counter(word for words in sets for word in words)


@pytest.mark.parametrize("cells", [["a;b", "c|d"], ["[a]", "[b]"], ["a [1]", "b [2]"]])
def test_signs_in_classes_make_no_lists_of_them(cells):
    assert read(cells).words == tuple(cells)
    assert read(LISTS, kind="classification").kind == "classification"


def columns(*rows, names=("text", "a", "b")):
    cells = (dict(zip(names, row, strict=True)) for row in rows)
    table = [(f"line {line}", row) for line, row in enumerate(cells, start=2)]
    return Table(Path("train.csv"), names, table)


def test_columns_of_0_and_1_are_labels():
    table = columns(("t", "0", "1"), ("t", "1", True), ("t", "0", "0"))
    assert columns_of(table, None) == ("a", "b")
    assert columns_of(table, "b, a") == columns_of(table, ["b", "a"]) == ("b", "a")
    assert columns_of(table, "b") == "b"
    assert columns_of(columns(("t", "0", "1"), names=("t", "a,b", "c")), "a,b") == "a,b"
    assert labels_of(table, None, ("b", "a")).train == {("b",): 1, ("a", "b"): 1, (): 1}
    verdicts = columns(*[("t", "01"[k % 2], "10"[k % 2], "pn"[k % 2]) for k in range(8)],
                       names=("text", "male", "old", "verdict"))  # fmt: skip
    with pytest.raises(SubtuneError, match="several may be the label"):
        columns_of(verdicts, None)
    with pytest.raises(SubtuneError, match="--label: missing, and of the columns of "):
        columns_of(columns(("t", "0", "yes")), None)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["[]", "a", ["b"], None], "train.csv: line 5: column label: found None, expected a list"),
        (["[]", '["a"]'], "train.csv: found no label but a, expected at least two"),
        (["[]", ""], "train.csv: found no label but none, expected at least two"),
    ],
)
def test_lists_that_nothing_can_be_learnt_from_are_refused(cells, message):
    with pytest.raises(SubtuneError) as error:
        read(cells, kind="multilabel")
    assert str(error.value).startswith(message)


def test_columns_that_are_no_0_and_1_are_refused():
    table = columns(("t", "0", "1"), ("t", "2", "1"))
    with pytest.raises(SubtuneError, match="line 3: column a, b: found 2, 1, expected a list, la"):
        labels_of(table, None, ("a", "b"))


def test_the_same_labels_for_every_row_have_the_f1_that_scikit_learn_computes():
    labels = read(["a|b", "b", "b|c", "a", "b|c", "c", "b"], kind="multilabel")
    rows = [[word in cell for word in "abc"] for cell in labels.train.elements()]
    constants = product([0, 1], repeat=3)
    best = max(f1_score(rows, 7 * [c], average="micro", zero_division=0) for c in constants)
    assert f1_of_the_same_labels(labels) == pytest.approx(best)
