"""Guesses of a table's text and label columns."""

import json

import pytest

from subtune.core.errors import SubtuneError
from subtune.init import tables

SENTENCES = ("a film that one forgets", "it moves and it amuses", "no one laughs at this")


def table_of(tmp_path, **columns):
    """A table of JSON lines with these columns."""
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    path = tmp_path / "table.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return tables.read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xls", b"", "a.xls: found '.xls', expected one of .csv, .tsv, .json, .jsonl, .xls"),
        ("a.csv", b"", "a.csv: found no rows, expected at least one"),
        ("a.csv", None, "a.csv: no such file or directory"),
    ],
)
def test_what_is_no_table_is_refused_in_a_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SubtuneError) as error:
        tables.read(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        (("text", "label"), "label"),
        (("text", "Class"), "Class"),
        (("y", "text"), "y"),
        (("score", "text", "label"), "label"),
    ],
)
def test_the_label_is_in_the_column_that_is_called_so(tmp_path, columns, label):
    table = table_of(tmp_path, **{column: ["a", "b"] for column in columns})
    assert tables.label_column(table) == label


def test_without_a_column_that_is_called_so_the_label_is_asked_for(tmp_path):
    table = table_of(tmp_path, text=["a"], mood=["x"])
    with pytest.raises(SubtuneError, match=r"--label: missing, .* expected one of text, mood"):
        tables.label_column(table)


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ({"id": ["1", "2", "3"], "review": SENTENCES}, ("review",)),
        ({"first": SENTENCES, "second": SENTENCES[::-1]}, ("first", "second")),
        ({"name": ["Ada", "Grace", "Emmy"], "born": ["1815", "1906", "1882"]}, ("name",)),
        ({"genre": ["a comedy of manners"] * 30, "review": [*SENTENCES] * 10}, ("review",)),
        ({"review": [*SENTENCES, None], "year": [1, 2, 3, 4]}, ("review",)),
    ],
)
def test_the_text_is_in_the_columns_that_hold_sentences(tmp_path, columns, texts):
    rows = len(next(iter(columns.values())))
    if rows == 30:  # texts are repeated here no more than in real tables
        columns = columns | {"review": [f"{text} {n}" for n, text in enumerate(columns["review"])]}
    table = table_of(tmp_path, **columns, label=["x"] * rows)
    assert tables.text_columns(table, "label") == texts


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (dict.fromkeys("abc", SENTENCES), r"missing, .* \(a, b, c\); expected one of a, "),
        ({"year": ["1", "2", "3"]}, "missing, .* none holds text; expected one of year"),
        ({}, ".* has no column but the label"),
    ],
)
def test_where_the_text_cannot_be_guessed_it_is_asked_for(tmp_path, columns, message):
    table = table_of(tmp_path, **columns, label=["x", "y", "x"])
    with pytest.raises(SubtuneError, match=f"--text: {message}"):
        tables.text_columns(table, "label")
