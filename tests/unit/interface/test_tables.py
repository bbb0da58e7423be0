"""Rows in memory and in files, as files that a configuration names."""

import json

import datasets
import pandas as pd
import pytest

from subtune.core.errors import SubtuneError
from subtune.init.tables import read
from subtune.interface import tables as interface_tables
from subtune.interface.tables import name_of, splits_of

ROWS = pd.DataFrame({"text": [f"text {n}" for n in range(10)], "label": ["a", "b"] * 5})


def lines(split, tmp_path) -> list[dict]:
    path = split.written(tmp_path, tmp_path / "rows")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_data_frame_becomes_json_lines(tmp_path):
    splits = splits_of(ROWS, ROWS[:4], None, None)
    assert lines(splits["train"], tmp_path) == ROWS.to_dict("records")
    assert lines(splits["validation"], tmp_path) == ROWS[:4].to_dict("records")


def test_classes_of_a_dataset_are_written_by_name_and_a_missing_label_as_none(tmp_path):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    rows = datasets.Dataset.from_dict({"text": ["x", "y", "z"], "label": [1, 0, -1]}, features)
    split = splits_of(rows, ROWS, None, None)["train"]
    assert [row["label"] for row in lines(split, tmp_path)] == ["yes", "no", None]


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
    ],
)
def test_cells_of_any_type_are_what_a_file_with_them_says(tmp_path, labels, words):
    frame = ROWS.assign(label=labels).set_index(pd.Index([7] * 10))
    split = splits_of(frame, ROWS, None, None)["train"]
    frame.to_parquet(tmp_path / "rows.parquet")
    for path in (split.written(tmp_path, tmp_path / "rows"), tmp_path / "rows.parquet"):
        assert read(path).cells("label") == words


def test_a_share_of_the_training_rows_evaluates(tmp_path):
    splits = splits_of(ROWS, 0.3, None, None)
    train, dev = (lines(splits[split], tmp_path) for split in ("train", "validation"))
    assert (len(train), len(dev)) == (7, 3)
    assert sorted(row["text"] for row in train + dev) == sorted(ROWS["text"])


def test_a_share_of_a_file_in_another_encoding_evaluates(tmp_path):
    (tmp_path / "cafes.csv").write_text("text,label\ncafé,1\nbar,0\n", encoding="latin-1")
    splits = splits_of(tmp_path / "cafes.csv", 0.5, None, None, "latin-1")
    texts = {text for split in splits.values() for text in split.frame(tmp_path)["text"]}
    assert texts == {"café", "bar"}


def test_files_in_another_encoding_are_written_anew_beside_rows_from_memory(tmp_path):
    (tmp_path / "cafes.csv").write_text("text,label\ncafé,1\nbar,0\n", encoding="latin-1")
    given = {"train": tmp_path / "cafes.csv", "validation": ROWS}
    splits = splits_of(given, None, None, None, "latin-1")
    assert [row["text"] for row in lines(splits["train"], tmp_path)] == ["café", "bar"]
    assert lines(splits["validation"], tmp_path) == ROWS.to_dict("records")


def test_a_share_of_a_file_evaluates(tmp_path):
    path = tmp_path / "reviews.csv"
    ROWS.to_csv(path, index=False)
    splits = splits_of(path, 0.5, None, None)
    assert [len(lines(splits[split], tmp_path)) for split in splits] == [5, 5]


def test_a_mapping_gives_its_splits_by_name(tmp_path):
    mapping = datasets.DatasetDict(
        {
            "train": datasets.Dataset.from_pandas(ROWS),
            "test": datasets.Dataset.from_pandas(ROWS[:2]),
        }
    )
    assert len(lines(splits_of(mapping, "test", None, None)["validation"], tmp_path)) == 2
    with pytest.raises(SubtuneError, match=r"dev: found no 'validation' .* \(train, test\)"):
        splits_of(mapping, None, None, None)


def test_rows_without_dev_rows_can_be_divided_into_folds(tmp_path, monkeypatch):
    for train in (ROWS, {"train": ROWS, "test": ROWS}):
        assert [*splits_of(train, None, None, None, may_lack_dev=True)] == ["train"]
    named = splits_of({"train": ROWS, "dev": ROWS}, None, None, None, may_lack_dev=True)
    assert [*named] == ["train", "validation"]
    with pytest.raises(
        SubtuneError, match=r"dev: found no 'validation' in the mapping, .*validate"
    ):
        splits_of({"train": ROWS, "validate": ROWS}, None, None, None, may_lack_dev=True)
    # The splits on the hub are known later.
    hub = {"train": datasets.Dataset.from_pandas(ROWS)}
    monkeypatch.setattr(interface_tables, "_downloaded", lambda *asked: hub)
    of_hub = splits_of("someone/reviews", None, None, None, may_lack_dev=True)
    assert of_hub["validation"].written(tmp_path, tmp_path / "dev") is None
    assert len(lines(of_hub["train"], tmp_path)) == 10
    with pytest.raises(SubtuneError, match="dev: found no 'valid' in someone/reviews"):
        asked = splits_of("someone/reviews", "valid", None, None, may_lack_dev=True)
        asked["validation"].written(tmp_path, tmp_path / "dev")


def test_the_identity_follows_the_rows_and_not_the_path(tmp_path):
    for name in ("a.csv", "b.csv"):
        ROWS.to_csv(tmp_path / name, index=False)
    first, second = (
        splits_of(tmp_path / name, ROWS, None, None)["train"] for name in ("a.csv", "b.csv")
    )
    assert first.identity == second.identity
    changed = splits_of(ROWS.assign(label="a"), ROWS, None, None)["train"]
    assert changed.identity != splits_of(ROWS, ROWS, None, None)["train"].identity


@pytest.mark.parametrize(
    ("train", "dev", "said"),
    [
        (ROWS, None, "dev: missing, expected rows to evaluate on"),
        (ROWS, 1.5, "dev: found 1.5, expected a share between 0 and 1"),
        (ROWS, "nowhere.csv", "dev: found no file 'nowhere.csv'"),
        ("nowhere.csv", ROWS, "train: found no file 'nowhere.csv'"),
        (["a text"], ROWS, "train: found list, expected a path, a pandas DataFrame"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(train, dev, said):
    with pytest.raises(SubtuneError) as error:
        splits_of(train, dev, None, None)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


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
    assert name_of(train) == name
