"""Rows in memory and in files, as files that a configuration names."""

import contextlib
import importlib
import json
import math
from decimal import Decimal

import datasets
import numpy as np
import pandas as pd
import pyarrow
import pytest

from subtune.comparison import splits
from subtune.comparison.splits import (
    find_splits,
    name_arguments,
    name_options_in_errors,
    task_name,
    write_splits,
)
from subtune.comparison.user_table import read_user_table
from subtune.core.errors import SubtuneError
from subtune.data.table_files import PLACE_KEY, read_rows

ROWS = pd.DataFrame({"text": [f"text {n}" for n in range(10)], "label": ["a", "b"] * 5})


def lines(split, tmp_path) -> list[dict]:
    path = write_splits({"rows": split}, tmp_path, tmp_path)["rows"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    places = [row.pop(PLACE_KEY) for row in rows]
    first = int(places[0].split()[1])
    assert [place.split()[1] for place in places] == [str(first + n) for n in range(len(rows))]
    return rows


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([True, False] * 5, ["True", "False"] * 5),
        (pd.Categorical([True, False] * 5), ["True", "False"] * 5),
        (pd.Categorical(["b", "a"] * 5), ["b", "a"] * 5),
        ([True, False, None] + [True] * 7, ["True", "False", None] + ["True"] * 7),
        (pd.array([True, None] * 5, "boolean"), ["True", None] * 5),
        ([1, 0, None] + [1] * 7, ["1", "0", None] + ["1"] * 7),
        ([0.5, None] * 5, ["0.5", None] * 5),
        ([["a"], []] * 5, [["a"], []] * 5),
        ([np.array(["a"]), []] * 5, [["a"], []] * 5),
    ],
)
def test_cells_of_any_type_are_what_a_file_with_them_says(tmp_path, labels, words):
    frame = ROWS.assign(label=labels).set_index(pd.Index([7] * 10))
    written = write_splits(find_splits(frame), tmp_path, tmp_path)["train"]
    frame.to_parquet(tmp_path / "rows.parquet")
    for path in (written, tmp_path / "rows.parquet"):
        assert read_user_table(path).cells("label") == words


MOODS = datasets.ClassLabel(names=["no", "yes"])


@pytest.mark.parametrize(
    ("feature", "labels", "words"),
    [
        (MOODS, [1, 0, -1], ["yes", "no", None]),
        (datasets.List(MOODS), [[1, 0], [], [0]], [["yes", "no"], [], ["no"]]),
    ],
)
def test_classes_of_a_dataset_are_written_by_name(tmp_path, feature, labels, words):
    features = datasets.Features({"label": feature})
    split = find_splits(datasets.Dataset.from_dict({"label": labels}, features))["train"]
    assert [row["label"] for row in lines(split, tmp_path)] == words


def test_a_file_in_another_encoding_is_written_anew(tmp_path):
    path = tmp_path / "cafes.csv"
    path.write_text("text,label\ncafé,1\nbar,0\n", encoding="latin-1")
    splits = find_splits(path, ROWS, encoding="latin-1")
    texts = {row["text"] for split in splits.values() for row in lines(split, tmp_path)}
    assert {"café", "bar"} <= texts


def test_a_mapping_gives_its_splits_by_name(tmp_path):
    mapping = datasets.DatasetDict(
        {
            "train": datasets.Dataset.from_pandas(ROWS),
            "test": datasets.Dataset.from_pandas(ROWS[:2]),
        }
    )
    assert len(lines(find_splits(mapping, "test")["validation"], tmp_path)) == 2
    assert [*find_splits({"train": ROWS, "dev": ROWS})] == ["train", "validation"]
    with pytest.raises(SubtuneError, match=r"dev: .* has no split 'valid', .* \(train, test\)"):
        find_splits(mapping, "valid")
    # The name of a split may be mistyped.
    with pytest.raises(SubtuneError, match=r"the mapping has no split 'validation', .*validate"):
        find_splits({"train": ROWS, "validate": ROWS})


def test_a_test_split_that_is_not_read_is_said(capsys):
    rows = {"train": ROWS, "test": ROWS}
    find_splits(rows)
    said = 'the split test is not read; to score on it, add test="test"\n'
    assert capsys.readouterr().err == said
    find_splits(rows, test="test")
    find_splits(rows, "test")
    assert not capsys.readouterr().err


def test_rows_need_no_dev_rows(tmp_path, monkeypatch):
    for train in (ROWS, {"train": ROWS, "test": ROWS}):
        assert [*find_splits(train)] == ["train"]
    # The splits on the hub are known later.
    hub = {"train": datasets.Dataset.from_pandas(ROWS)}
    monkeypatch.setattr(splits, "_download_dataset", lambda *asked: hub)
    of_hub = find_splits("someone/reviews")
    assert [*write_splits(of_hub, tmp_path, tmp_path)] == ["train"]
    assert len(lines(of_hub["train"], tmp_path)) == 10
    with pytest.raises(SubtuneError, match="dev: someone/reviews has no split 'valid'"):
        find_splits("someone/reviews", "valid")["validation"].read_frame(tmp_path)


def test_the_identity_follows_the_rows_and_not_the_path(tmp_path):
    for name in ("a.csv", "b.csv"):
        ROWS.to_csv(tmp_path / name, index=False)
    first, second = (find_splits(tmp_path / name)["train"] for name in ("a.csv", "b.csv"))
    assert first.identity == second.identity
    changed = find_splits(ROWS.assign(label="a"))["train"]
    assert changed.identity != find_splits(ROWS)["train"].identity


TINY = [1.25e-11 * n for n in range(1, 11)]


@pytest.mark.parametrize(
    "labels",
    [TINY, pd.array(TINY, "Float64"), [*map(Decimal, TINY)], pd.Series(TINY, dtype=object)],
)
def test_labels_keep_all_digits(tmp_path, labels):
    frame = ROWS.assign(label=labels)
    written = lines(find_splits(frame)["train"], tmp_path)
    assert [float(row["label"]) for row in written] == TINY
    # Tables whose labels differ in the last digit only are different tables.
    other = frame.assign(label=[*TINY[:-1], 1.2500001e-10])
    assert find_splits(frame)["train"].identity != find_splits(other)["train"].identity


def test_an_infinite_label_is_not_a_missing_label(tmp_path):
    assert lines(find_splits(ROWS.assign(label=math.inf))["train"], tmp_path)[0]["label"] == "inf"


def test_tables_of_pyarrow_and_polars_are_read_as_dataframes(tmp_path):
    frame = ROWS.assign(label=[1, None] * 5)
    tables = [pyarrow.Table.from_pandas(frame)]
    with contextlib.suppress(ImportError):
        tables.append(importlib.import_module("polars").from_arrow(tables[0]))
    for table in tables:
        written = lines(find_splits(table)["train"], tmp_path)
        assert written == [{"text": f"text {n}", "label": [1, None][n % 2]} for n in range(10)]


@pytest.mark.parametrize("name", ["features", "index", "columns", "items"])
def test_a_column_may_have_the_name_of_an_attribute(tmp_path, name):
    written = lines(find_splits(ROWS.rename(columns={"text": name}))["train"], tmp_path)
    assert [row[name] for row in written] == [*ROWS["text"]]


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda rows, columns: pyarrow.table(rows, names=columns)]
)
def test_a_repeated_column_is_refused_by_name(make):
    frame = make([["a", "b"]] * 2, columns=["text", "text"])
    with pytest.raises(SubtuneError, match="train: found column 'text' twice"):
        find_splits(frame)


@pytest.mark.parametrize(
    ("train", "dev", "said"),
    [
        (ROWS, "nowhere.csv", "dev: no such file: 'nowhere.csv'"),
        ("nowhere.csv", ROWS, "train: no such file: 'nowhere.csv'"),
        (["a text"], ROWS, "train: found list, expected a path, a DataFrame of pandas"),
    ],
)
def test_an_argument_that_is_no_table_is_refused(train, dev, said):
    with pytest.raises(SubtuneError, match=said):
        find_splits(train, dev)


@pytest.mark.parametrize(
    ("train", "name"),
    [
        ("stanfordnlp/imdb", "imdb"),
        ("nyu-mll/glue:cola", "glue-cola"),
        ("data/reviews-train.csv", "reviews"),
        (ROWS, "table"),
    ],
)
def test_a_task_is_named_after_its_rows(train, name):
    assert task_name(train) == name


@pytest.mark.fault("data", "a mistake in a DataFrame", "rejected with argument and row")
def test_errors_name_arguments_and_no_file_that_is_gone(tmp_path):
    with pytest.raises(SubtuneError) as error, name_options_in_errors(tmp_path):
        raise SubtuneError(
            f"{tmp_path}/validation.jsonl: row 3: found no text, expected --label or "
            f"labels of {tmp_path}/train.jsonl"
        )
    said = name_arguments(str(error.value))
    assert said == "dev: row 3: found no text, expected label or labels of train"


@pytest.mark.parametrize(
    ("in_terminal", "in_python"),
    [
        ("--minutes 5 has an answer", "minutes=5 has an answer"),
        ('as in --dev "test"', 'as in dev="test"'),
        ("--text2 names another", "text2 names another"),
        ("models--x--y/config.json is missing", "models--x--y/config.json is missing"),
    ],
)
def test_options_of_the_terminal_are_arguments_in_python(in_terminal, in_python):
    assert name_arguments(in_terminal) == in_python


def test_rows_keep_their_places_through_every_character(tmp_path):
    texts = ["a\u2028b", "c\x85d", "e\nf", '{"g"}', "h"]
    frame = pd.DataFrame({"\u2028": texts, "label": range(5)}, [3, 3, 9, 1, 1])
    path = write_splits({"rows": find_splits(frame)["train"]}, tmp_path, tmp_path)["rows"]
    rows = [*read_rows(path)]
    assert [place for place, _ in rows] == [f"row {number}" for number in range(1, 6)]
    assert [cells["\u2028"] for _, cells in rows] == texts
