"""Files that are no tables, and names from files."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.init.tables import read, task_named_after


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xls", b"", "a.xls: found '.xls', expected one of .csv, .tsv, .json, .jsonl, .xls"),
        ("a.csv", b"", "a.csv: found no rows, expected at least one"),
        ("a.csv", None, "a.csv: no such file or directory"),
        ("a.csv", b"text,text,\na,b,\n", "a.csv: line 1: found column 'text' twice, expected"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_a_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SubtuneError) as error:
        read(path)
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
    assert read(tmp_path / name).columns == ("text", "label")


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
    assert task_named_after(tmp_path / path) == name
