"""Labels: classes or numbers, and refusals."""

from collections import Counter
from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.init.labels import Labels, labels_of
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
        (["a", "a"], None, "train.csv: found the label 'a' in every row, expected at least two"),
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
