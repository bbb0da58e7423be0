"""Facts about tables before training, and labels that are refused."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from subtune import cli
from subtune.comparison.look import (
    Facts,
    compute_length_statistics,
    describe_cut_texts,
    describe_tables,
    look_lines,
)
from subtune.comparison.own_task import require_labels
from subtune.comparison.user_table import UserTable
from subtune.core.errors import SubtuneError
from tests.helpers.tables import write

LENGTHS = compute_length_statistics(np.array([4, 6, 30]), max_length=8, are_counted=True)


def table(rows, columns=("text", "label"), name="train") -> UserTable:
    placed = [(f"line {n}", dict(zip(columns, row, strict=True))) for n, row in enumerate(rows, 2)]
    return UserTable(Path(f"{name}.csv"), columns, placed)


def tables(train, others=None) -> Mapping[str, UserTable]:
    return {s: table(rows, name=s) for s, rows in {"train": train, **(others or {})}.items()}


def look(train, others=None, **options) -> Facts:
    """The facts about rows with a text and a label, by split."""
    return describe_tables(tables(train, others), ("text",), "label", LENGTHS, **options)


def labelled(labels, about="text"):
    """Rows with different texts and these labels."""
    return [(f"{about} {n}", label) for n, label in enumerate(labels)]


def test_the_share_of_the_answer_that_is_always_the_same():
    dev = labelled(["usual"] * 190 + ["rare"] * 10, about="other")
    found = look(labelled(["rare"] * 20 + ["usual"] * 380), {"validation": dev})
    assert found.parts["train"].labels == {"rare": 20, "usual": 380}
    assert found.parts["validation"].labels == {"rare": 10, "usual": 190}
    assert (found.judges, found.most_frequent, found.constant) == ("validation", "usual", 0.95)
    assert [*look_lines(found)] == [
        "train.csv: 400 rows for training; columns text, label",
        "validation.csv: 200 rows for evaluation",
        "text: column 'text'",
        "label: column 'label'",
        "2 classes: rare (20), usual (380)",
        "2 classes in the dev set: rare (10), usual (190)",
        "always predicting 'usual' is correct for 95.0% of the dev set",
        "lengths: half of the texts have up to 6 tokens, the longest 30; max_length 8, which "
        "truncates 33.3% of the texts and keeps 45.0% of all tokens",
    ]


def test_the_last_split_judges():
    found = look(labelled("aab"), {"validation": labelled("ab"), "test": labelled("bbba")})
    assert (found.judges, found.constant) == ("test", 0.25)
    assert look(labelled("aab")).constant == pytest.approx(2 / 3)


@pytest.mark.fault(
    "data", "texts with two labels, or in training and dev files", "reported with lines"
)
def test_texts_of_two_files_and_those_with_different_labels():
    # The rows of "x" differ only in a space; those of "y" and "z" differ in labels.
    train = [("x", "a"), ("x ", "a"), ("y", "a"), ("y", "b"), ("z", "b"), ("y", "a"), ("w", "b")]
    dev = [("z", "a"), ("z", "b"), ("v", "a"), ("x", "a")]
    found = look(train, {"validation": dev})
    assert [part.also_in for part in found.parts.values()] == [{}, {"train": 3}]
    assert found.conflicts == {
        "y": {"a": ["line 4", "line 7"], "b": ["line 5"]},
        "z": {"b": ["line 6", "line 3 of validation.csv"], "a": ["line 2 of validation.csv"]},
    }
    assert [*look_lines(found)][7:11] == [
        "3 of the 4 dev rows are also in the training file: scores on these rows say little about "
        "new texts",
        "texts with conflicting labels: 2, in 6 rows; no method can predict all of these labels",
        "    'y': a (line 4), b (line 5)",
        "    'z': b (line 6), a (line 2 of validation.csv)",
    ]


def test_pairs_are_the_same_if_both_texts_are():
    cells = [("a", "b", "1"), ("a", "b", "0"), ("b", "a", "1"), ("a", "", "1"), ("", "", "0")]
    columns = ("first", "second", "label")
    found = describe_tables({"train": table(cells, columns)}, columns[:2], "label", LENGTHS)
    assert found.parts["train"].faulty == {
        "without 'first'": ["line 6"],
        "without 'second'": ["line 5", "line 6"],
    }
    assert [*found.conflicts] == ["a | b"]
    assert "pairs of texts: columns 'first' and 'second'" in [*look_lines(found)]


def test_cells_that_are_missing():
    found = look([("a", "x"), ("", "x"), ("b", None), ("c", " "), ("d", "NaN")])
    assert found.parts["train"].faulty == {
        "without 'text'": ["line 3"],
        "without 'label'": ["line 4", "line 5"],
    }
    assert found.parts["train"].labels == {"NaN": 1, "x": 2}
    assert [*look_lines(found)][6:8] == [
        "training rows without 'text': 1, the first in line 3",
        "training rows without 'label': 2, the first in line 4",
    ]


@pytest.mark.parametrize(
    ("labels", "joined", "alike"),
    [
        (["Positive", "positive", "negative"], [], [["Positive", "positive"]]),
        (["FALSE", "False", "TRUE", "true"], [], [["FALSE", "False"], ["TRUE", "true"]]),
        (["good", "go\xadod\u200b", "bad"], [["good", "go\xadod\u200b"]], []),
        (["good", "\ufeffgood", "bad"], [["good", "\ufeffgood"]], []),
        (["no\u2764", "no\u2764\ufe0f", "yes"], [["no\u2764", "no\u2764\ufe0f"]], []),
        (["caf\xe9", "cafe\u0301", "bar"], [["cafe\u0301", "caf\xe9"]], []),
        (["1", "1.0", "2", "not good"], [["1", "1.0"]], []),
        (
            ["so good", "so  good", "so\xa0good", "bad"],
            [["so  good", "so good", "so\xa0good"]],
            [],
        ),
        (
            ["not good", "not_good", "not-good.", "'Not good'"],
            [],
            [["'Not good'", "not good", "not-good.", "not_good"]],
        ),
        (["1", "１", "01", "one"], [], [["01", "1", "１"]]),
        (["1", "-1", "C", "C++", "?", "!"], [], []),
    ],
)
@pytest.mark.fault("data", "labels look alike (`x²`, `x2`; capitals)", "separate classes, reported")
@pytest.mark.fault(
    "data", "labels differ only in white space or invisible characters", "one class, with a message"
)
def test_labels_that_look_alike(labels, joined, alike):
    found = look(labelled([*labels, *labels]), kind="classification")
    assert (found.joined, found.alike) == (joined, alike)
    lines = [f"labels that are merged into one: {', '.join(map(ascii, group))}" for group in joined]
    assert [line for line in look_lines(found) if "merged" in line] == lines
    merged = sum(len(spellings) - 1 for spellings in joined)
    assert len(found.parts["train"].labels) == len(labels) - merged


def test_labels_of_one_file_alone_and_of_several_spellings():
    found = look(labelled(["a", "b", "A"]), {"validation": labelled(["a", "c", "a"])})
    assert [*look_lines(found)][4:11] == [
        "3 classes: A (1), a (1), b (1)",
        "2 classes in the dev set: a (2), c (1)",
        "always predicting 'a' is correct for 66.7% of the dev set",
        "labels that look alike, but are different classes: 'A', 'a'",
        "label 'A' does not occur in the dev set: no score includes this label",
        "label 'b' does not occur in the dev set: no score includes this label",
        "label 'c' does not occur in the training set: no run can learn it",
    ]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["b", "a", " a "], "classification"),
        ([*map(str, range(10))] * 3, "classification"),
        (["1.0", "0.0"], "classification"),
        (["0.5", "1"], "regression"),
        ([*map(str, range(11))] * 3, "regression"),
        ([*(f"{n}.5" for n in range(40)), "nan"], "regression"),
        (['["b", "a"]', "[]", '["a"]'], "multilabel"),
        ([["b", "a"], [], ["a"]], "multilabel"),
        (["['b', 'a']", "[]", "['a']"], "multilabel"),
        (["b|a", "a", "b"], "multilabel"),
        (["b;a", "a", "b"], "multilabel"),
        (["a;b", "c|d"], "classification"),
        (["b, a", "a", "b"], "multilabel"),
        (["b#a", "a", "b"], "multilabel"),
        (["C#", "C", "F#", "F"], "classification"),
        (["Paris, France", "Nice, France", "Rome, Italy"], "classification"),
        (["3,5", "3", "5", "4,3", "4"], "regression"),
        (["[a]", "[b]"], "classification"),
        (["a", "b", "a", '{"choices": ["a", "b"]}'], "multilabel"),
        (["a", "b", {"choices": ["a", "b"]}], "multilabel"),
        ([["a"], ["b"], []], "multilabel"),
        (['["a"]', '["b"]'], "classification"),
        ([["a"], ["b"]], "classification"),
        (["['a']", "['b']"], "classification"),
        ([f"{n}_{n}" for n in range(20)], "classification"),
        ([f"{n}E{n}" for n in range(20)], "classification"),
        ([f"{n:04}" for n in range(0, 2000, 100)], "classification"),
        ([f"{n}e-05" for n in range(20)], "regression"),
        ([*(f"{n}.5" for n in range(40)), "0101", "1E5"], "regression"),
        (["a [1]", "b [2]"], "classification"),
    ],
)
def test_labels_tell_the_kind_of_task(labels, kind):
    assert look(labelled(labels)).kind == kind
    assert look(labelled(labels), kind="classification").kind == "classification"


@pytest.mark.parametrize("form", [lambda word: [word], "['{}']".format, '["{}"]'.format])
def test_a_list_of_one_label_is_this_label(form):
    found = look(labelled([form(word) for word in ("a", "b", "a", "c\u0327", "\xe7")]))
    assert found.parts["train"].labels == {"a": 2, "b": 1, "\xe7": 2}
    assert found.joined == [["c\u0327", "\xe7"]]


def test_a_class_of_digits_is_a_word():
    labels = ["0101", "1_2", "1E5", "12"]
    found = look(labelled([*labels, " 12 ", "12.0"]), kind="classification")
    assert found.parts["train"].labels == dict.fromkeys(labels, 1) | {"12": 3}


def test_labels_between_commas():
    found = look(labelled(["garden, tools", "tools", "garden", "food, garden"]), kind="multilabel")
    assert found.parts["train"].labels == {"food": 1, "garden": 3, "tools": 2}
    assert [*look_lines(found)][3] == (
        "3 labels, any number per row, separated by ',': food (1), garden (3), tools (2) (if each "
        "cell is one class, add --classes)"
    )
    towns = look(labelled(["Paris, France", "Nice, France"]), kind="multilabel")
    assert [*towns.parts["train"].labels] == ["Nice, France", "Paris, France"]


def by_author(labels, authors, more=()):
    """Facts about rows of these authors, in the order of the labels."""
    rows = [(f"text {n}", *cells) for n, cells in enumerate(zip(labels, authors, strict=True))]
    splits = {"train": table(rows, ("text", "label", "the author"))}
    for name in more:
        splits[name] = table(rows, ("text", "label", "the author"), name)
    return describe_tables(splits, ("text",), "label", LENGTHS, guessed=("group",))


def test_a_column_that_decides_the_label_is_named():
    found = by_author("ab" * 30, [f"author {n % 6}" for n in range(60)])
    assert found.deciding == {"the author": (6, 1)}
    line = "column 'the author' determines the label: each of its 6 values has one label"
    advice = (
        "; if new texts have other values, add --group 'the author' to keep the rows of each value "
    )
    assert [*look_lines(found)][-2] == f"{line}{advice}in one fold"
    grouped = dataclasses.replace(found, guessed=())
    assert line in [*look_lines(grouped)]
    with_dev = by_author("ab" * 30, [f"author {n % 6}" for n in range(60)], ["validation"])
    assert line in [*look_lines(with_dev)]
    nearly = by_author("ab" * 29 + "bb", [f"author {n % 6}" for n in range(60)])
    assert f"{line} in 98.3% of the rows{advice}in one fold" in [*look_lines(nearly)]


@pytest.mark.parametrize(
    ("labels", "authors"),
    [
        # Another spelling of the label.
        ("ab" * 30, [f"class {word}" for word in "ab" * 30]),
        # An id for each row.
        ("ab" * 30, map(str, range(60))),
        # Each author has both labels.
        ("ab" * 30, [f"author {n // 10}" for n in range(60)]),
        # Nearly all rows have the same label anyway.
        ("a" * 57 + "bbb", [f"author {n % 6}" for n in range(60)]),
    ],
)
def test_a_column_that_says_no_more_than_the_rows_decides_nothing(labels, authors):
    assert by_author(labels, authors).deciding == {}


def test_labels_are_sorted_numbers_first():
    labels = look(labelled(["yes", "10", "9", "null", "1e-3", "²"])).parts["train"].labels
    assert [*labels] == ["1e-3", "9", "10", "null", "yes", "²"]


def test_a_row_may_have_several_labels():
    found = look([("x", ["a", "b"]), ("y", ["a"]), ("x", []), ("z", None), ("w", [1.5]), ("v", [])])
    assert found.parts["train"].labels == {"a": 2, "b": 1}
    assert found.parts["train"].faulty == {"without 'label'": ["line 6"]}
    assert (found.most_frequent, found.constant) == ("no label", 0.6)
    assert found.conflicts["x"] == {"a, b": ["line 2"], "no label": ["line 4"]}


def test_numbers_have_no_classes():
    found = look(labelled([*map(str, range(20)), "7.5", "?"]), kind="regression")
    assert found.numbers == (0, 19)
    assert (found.most_frequent, found.constant) == (None, None)
    assert found.parts["train"].labels == {}
    lines = [*look_lines(found)]
    assert lines[3] == "regression: numbers from 0 to 19 (if each number is a class, add --classes)"
    assert "training rows whose 'label' is not a number: 1, the first in line 23" in lines


@pytest.mark.parametrize("word", ["nan", "NaN", "#N/A", "<NA>"])
def test_a_label_that_stands_for_no_value_is_named(word):
    advice = "if it stands for a missing label, leave these cells empty"
    line = f"label {word!r} is treated as a class; {advice}"
    assert line in [*look_lines(look(labelled(["a", "b", word])))]


def test_one_of_something_is_no_plural():
    found = look([("x", "a")], {"validation": [("x", "a")]})
    lines = [*look_lines(found)]
    assert lines[0] == "train.csv: 1 row for training; columns text, label"
    assert "1 class: a (1)" in lines
    assert "1 of the 1 dev row is also in the training file: scores" in "\n".join(lines)
    assert "1 label, any number per row: a (1) (if" in "\n".join(
        look_lines(look([("x", "a")], kind="multilabel"))
    )


def test_the_window_of_a_look():
    counts = np.array([100, 100, 200, 1600])
    found = compute_length_statistics(counts, max_length=128, are_counted=False)
    assert (found.median, found.longest, found.cut, found.read) == (150, 1600, 0.5, 0.228)
    assert (
        describe_cut_texts(found)
        == "which truncates 50.0% of the texts and keeps 22.8% of all tokens"
    )
    assert (
        describe_cut_texts(compute_length_statistics(counts, 1600, True))
        == "which truncates no text"
    )
    nearly_all = "which truncates 25.0% of the texts and keeps almost all tokens"
    assert describe_cut_texts(compute_length_statistics(counts, 1599, True)) == nearly_all


@pytest.mark.parametrize(
    ("train", "dev", "kind", "message"),
    [
        (["a", ""], None, None, "train.csv: line 3: the row has no label in column 'label', "),
        (["a", "b"], ["a", None], None, "validation.csv: line 3: the row has no label in column"),
        (["a", "a"], None, None, "train.csv: found only the label a, expected at least"),
        (["a", "b"], ["c", "d"], None, "validation.csv: column 'label': most rows have labels"),
        ([f"w{n}" for n in range(12)], None, None, "--label: found 12 different labels in 12 row"),
        (["[]", '["a"]'], None, "multilabel", "train.csv: found only the label a, expected at"),
        (["[]", ""], None, "multilabel", "train.csv: no row has a label, expected at least"),
    ],
)
def test_labels_that_nothing_can_be_learnt_from_are_refused(train, dev, kind, message):
    others = {"validation": labelled(dev)} if dev else {}
    found = look(labelled(train), others, kind=kind)
    with pytest.raises(SubtuneError) as error:
        require_labels(found)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("train", "test", "found"),
    [
        (["bad", "good"], ["1", "0"], "most rows have labels"),
        (["bad", "good"] * 2, ["bad", "good", "bad", "1"], "some rows have labels"),
        (["0", "1"], ["no", "yes"], "most rows have labels"),
        (["a|b", "a"], ["b", "0"], "some rows have labels"),
    ],
)
def test_a_label_of_the_test_set_alone_is_refused(train, test, found):
    others = {"validation": labelled(train), "test": labelled(test)}
    with pytest.raises(SubtuneError, match=f"^test.csv: column 'label': {found} that are not in"):
        require_labels(look(labelled(train), others))
    require_labels(look(labelled(train), {"test": labelled([*train, *train])}))


def test_a_class_of_the_dev_set_alone_may_be_in_the_test_set():
    others = {"validation": labelled(["a", "b", "c"]), "test": labelled(["c", "a"])}
    require_labels(look(labelled(["a", "b", "a"]), others))


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize(
    ("train", "other", "words"),
    [
        (["a", "b", "a"], ["a, b", "a"], {"a": 2, "b": 1}),
        (["a", "b", "a"], ["a|b", "b"], {"a": 1, "b": 2}),
        (["a", "b", "a"], [["a", "b"], ["a"]], {"a": 2, "b": 1}),
    ],
)
def test_separators_of_labels_are_found_in_all_splits(split, train, other, words):
    found = look(labelled(train), {split: labelled(other)})
    assert found.kind == "multilabel"
    assert found.parts[split].labels == words


def test_the_command_prints_lines_or_json(tmp_path, capsys, monkeypatch, tiny_bert):
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"a b {n}", "label": "xy"[n % 2]} for n in range(9)]
    for name in ("train.csv", "dev.csv"):
        write(Path(name), ("text", "label"), rows)
    assert cli.main(["look", "train.csv", "dev.csv", "--model", str(tiny_bert)]) == 0
    printed = capsys.readouterr().out
    assert "text: column 'text' (guessed; choose another with --text)" in printed
    assert "9 of the 9 dev rows are also in the training file" in printed
    assert cli.main(["look", "train.csv", "--label", "label", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["guessed"] == ["text", "sheet", "kind", "group"]
    assert found["parts"]["train"]["labels"] == {"x": 5, "y": 4}
    assert found["constant"] == pytest.approx(5 / 9)
    assert (found["lengths"]["are_counted"], found["lengths"]["max_length"]) == (True, 8)
    assert cli.main(["look", "train.csv", "--classes", "--regression"]) == 1
    assert capsys.readouterr().err.startswith("--classes: not allowed with --regression; ")
    assert cli.main(["look", "train.csv", "--label", "lable"]) == 1
    assert capsys.readouterr().err.startswith("train.csv: no column 'lable', expected")
