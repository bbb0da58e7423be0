"""Guesses of a table's text and label columns."""

import json
from pathlib import Path

import numpy as np
import pytest

from subtune.comparison.user_table import (
    UserTable,
    guess_label_columns,
    guess_text_columns,
    make_task_name,
    read_user_table,
    require_labels_as_text,
    require_texts,
)
from subtune.core.errors import SubtuneError

SENTENCES = ("a film that one forgets", "it moves and it amuses", "no one laughs at this")


def table_of(**columns) -> UserTable:
    """A table with these columns."""
    cells = zip(*columns.values(), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    return UserTable(
        Path("t.csv"), (*columns,), [(f"line {n}", row) for n, row in enumerate(rows, 2)]
    )


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        (("text", "label"), "label"),
        (("text", "Class"), "Class"),
        (("y", "text"), "y"),
        (("score", "text", "label"), "label"),
    ],
)
def test_a_column_that_is_called_label_is_the_label(columns, label):
    assert guess_label_columns(table_of(**dict.fromkeys(columns, "ab"))) == label


def test_columns_of_0_and_1_are_the_label_together():
    flags = table_of(text=SENTENCES, a="010", b=["1", True, "0"])
    assert guess_label_columns(flags) == ("a", "b")
    verdicts = table_of(male="0101", old="1010", verdict="pnpn")
    with pytest.raises(
        SubtuneError, match=r"several columns may be the label \(male, old, verdict\)"
    ):
        guess_label_columns(verdicts)


def test_each_column_that_cannot_be_the_label_has_its_reason():
    table = table_of(
        id="1234",
        text=[*SENTENCES, "and one more sentence"],
        mood=["glad", "sad", "odd", "sad"],
        kind="xxxx",
        note=["", None, " ", ""],
        on=["2021-03-01", "2021-03-02", "2021-03-02", "2021-03-05"],
    )
    reasons = (
        "id: ids, text: sentences, mood: 3 different words in 4 cells, kind: always the same, "
        "note: empty, on: dates"
    )
    with pytest.raises(SubtuneError) as error:
        guess_label_columns(table)
    assert str(error.value) == (
        f"--label: cannot be guessed, because in t.csv no column can be the label ({reasons}); "
        "choose one of id, text, mood, kind, note, on"
    )


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ({"id": "123", "review": SENTENCES}, ("review",)),
        ({"first": SENTENCES, "second": SENTENCES[::-1]}, ("first", "second")),
        ({"name": ["Ada", "Grace", "Emmy"], "born": ["1815", "1906", "1882"]}, ("name",)),
        (
            {"genre": ["a comedy"] * 30, "review": [f"{SENTENCES[0]} {n}" for n in range(30)]},
            ("review",),
        ),
        ({"review": [*SENTENCES, None], "year": "1234"}, ("review",)),
        # A list among texts is refused with its line once the rows are read.
        ({"review": [*SENTENCES, ["a"]], "year": "1234"}, ("review",)),
    ],
)
def test_the_text_is_in_the_columns_that_hold_sentences(columns, texts):
    rows = len(next(iter(columns.values())))
    assert guess_text_columns(table_of(**columns, label="x" * rows), ["label"]) == texts


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            dict.fromkeys("abc", SENTENCES),
            r"cannot be guessed, because .* \(a, b, c\); choose one of a, ",
        ),
        (
            {"year": "123"},
            "cannot be guessed, because .* no column contains text; choose one of year",
        ),
        ({}, r".* has only the label column \(label\), "),
    ],
)
def test_a_text_that_cannot_be_guessed_is_asked_for(columns, message):
    with pytest.raises(SubtuneError, match=f"--text: {message}"):
        guess_text_columns(table_of(**columns, label="xyx"), ["label"])


def test_a_label_that_is_always_the_same_is_not_what_was_decided():
    decisions = table_of(text=SENTENCES, label="xxx", answer=["accept", "reject", "accept"])
    decisions.rows.extend(decisions.rows)
    assert guess_label_columns(decisions) == "answer"


@pytest.mark.parametrize(
    "cell",
    [
        {"user": "u", "value": "good"},
        [{"user": "u", "value": "good"}],
        [[0, 4, "name"]],
        [{"result": [{"value": {"choices": ["good"]}}]}],
        "{'good': 1, 'bad': 0}",
        '[{"start": 0, "end": 4, "text": "name"}]',
        "b'good'",
    ],
)
def test_labels_in_objects_are_refused_with_what_to_do(cell):
    table = table_of(text=SENTENCES, label=[cell] * 3)
    with pytest.raises(
        SubtuneError, match=r"label: nested lists, objects or bytes.*JSON-MIN or CSV\); tok"
    ):
        guess_label_columns(table)
    with pytest.raises(SubtuneError, match=r"column 'label' contains nested lists.*`kind: tokens`"):
        require_labels_as_text(table, ["label"])


WORDS = [sentence.split() for sentence in SENTENCES]
TAGS = [[n % 2 for n, _ in enumerate(words)] for words in WORDS]


@pytest.mark.parametrize(
    "form", [lambda words: words, str, json.dumps, lambda words: np.array(words)]
)
@pytest.mark.parametrize("named", [[], ["tokens"]])
def test_words_with_labels_are_no_texts(form, named):
    cells = {"tokens": [*map(form, WORDS)], "tags": [*map(form, TAGS)]}
    if isinstance(cells["tags"][0], np.ndarray):
        # So pandas writes a dataset's lists as CSV.
        cells = {column: [*map(str, lists)] for column, lists in cells.items()}
    with pytest.raises(
        SubtuneError,
        match=r"'tokens' and 'tags' \(words with one label each\?\).*`kind: tokens` \(docs/own-",
    ):
        require_texts(table_of(id="123", **cells), named)


@pytest.mark.parametrize(
    "columns",
    [
        {"text": SENTENCES, "tokens": WORDS, "tags": TAGS, "label": "aba"},
        {"text": SENTENCES, "topics": [["a", "b"], ["a"], []], "ids": [[0, 1], [0], []]},
        {"title": "abc", "topics": [["a", "b"], ["a"], ["c"]], "ids": [[0, 1], [0], [2]]},
        {"tokens": WORDS, "label": "aba"},
    ],
)
def test_a_table_may_have_lists_beside_its_texts(columns):
    require_texts(table_of(**columns), [])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.conll",
            b"",
            "; token classification (one label per word) needs a configuration with `kind: tokens`",
        ),
        ("a.xls", b"", "a.xls: extension: found '.xls', expected one of .csv, .tsv, .json, "),
        ("a.csv", b"", "a.csv: the file has no rows, expected"),
        ("a.csv", None, "a.csv: no such file or directory"),
        ("a.csv", b"text,text,\na,b,\n", "a.csv: line 1: found column 'text' twice; rename"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_a_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SubtuneError) as error:
        read_user_table(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("A.CSV", "text,label\na,b\n"),
        ("a.Tsv", "text\tlabel\na\tb\n"),
        ("A.JSONL", '{"text": "a", "label": "b"}'),
    ],
)
def test_an_ending_may_be_in_capitals(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert read_user_table(tmp_path / name).columns == ("text", "label")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("reviews-train.csv", "reviews"),
        ("reviews.train.jsonl", "reviews"),
        ("restrain.csv", "restrain"),
        ("my films/train.csv", "my-films"),
        ("größe & Güte TRAIN.csv", "groe-Gute"),
        ("критика.csv", "my-task"),
        ("rte-train.csv", "rte-task"),
        ("score.csv", "score-task"),
        (f"{'long' * 40}.csv", "long" * 14),
    ],
)
def test_a_task_is_called_as_its_file_if_that_name_is_free(tmp_path, path, name):
    assert make_task_name(tmp_path / path) == name
