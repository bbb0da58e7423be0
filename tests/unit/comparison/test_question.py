"""A call of `compare` until its training: arguments, messages, and what a later call may change."""

import errno
import fcntl
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from subtune.comparison import loop, pace, question
from subtune.comparison.pace import MeasuredPace
from subtune.comparison.question import compare
from subtune.config.checks import read_config
from subtune.config.schema import Pace
from subtune.core.errors import SubtuneError
from subtune.data.table_files import read_rows


def labelled(rows: int = 40, about: str = "text", **columns) -> pd.DataFrame:
    """A table of different texts, half of which have the label a."""
    given = {"text": [f"{about} {n}" for n in range(rows)], "label": ["a", "b"] * (rows // 2)}
    return pd.DataFrame(given | columns)


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def call(out, monkeypatch):
    """A function that calls `compare`, which neither measures nor trains, and returns its lines."""
    monkeypatch.setattr(question, "Workers", lambda *_: SimpleNamespace(close=lambda: None))
    vectors = {"vectors": Pace(per_layer=0, per_teraflop=1)}
    monkeypatch.setattr(pace, "measure_pace", lambda *of: MeasuredPace("a machine", vectors))
    monkeypatch.setattr(
        loop,
        "train_within_time_limit",
        lambda context, *_: Path(context.config.results, "report.html").touch(),
    )

    def call(*tables, **options) -> list[str]:
        lines: list[str] = []
        compare(*tables, **{"results": out, "say": lines.append} | options)
        return lines

    return call


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_named(out, monkeypatch, number):
    def fail(*of):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(SubtuneError, match=f"results: cannot lock files in {out} .*; choose"):
        compare(labelled(), results=out)
    assert not out.exists()
    (out / "runs").mkdir(parents=True)
    with pytest.raises(SubtuneError, match="cannot lock"):
        compare(labelled(), results=out)
    assert (out / "runs").exists()


@pytest.mark.parametrize(
    ("label", "kind", "line"),
    [
        (["stars"], None, "4 classes"),
        (["stars"], "classification", "4 classes"),
        (("stars",), "regression", "regression: numbers from 1 to 4"),
        (["flag"], "classification", "2 classes"),
        (["flag"], None, "2 classes"),
        (["tags"], "multilabel", "2 labels, any number per row"),
    ],
)
def test_a_list_of_one_column_is_this_column_in_every_kind_of_task(call, label, kind, line):
    rows = labelled(stars=[1, 2, 3, 4] * 10, flag=[0, 1] * 20, tags=[["a"], ["a", "b"]] * 20)
    said = call(rows.drop(columns="label"), label=label, kind=kind)
    assert any(each.startswith(line) for each in said), said


# Arguments, and the beginning of the message.
REFUSED = [
    ({"minute": 2}, r"arguments: found 'minute', .*mean 'minutes'"),
    ({"dev": 0.0}, "dev: found 0.0, expected a share between 0 and"),
    ({"dev": 1.5}, "dev: found 1.5, expected a share between 0 and"),
    (
        {"label": ["a", "b"], "kind": "classification"},
        r"label: found several columns \(a, b\), expected one",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_arguments_that_are_refused_are_named(out, arguments, message):
    with pytest.raises(SubtuneError, match=f"^{message}"):
        compare(labelled(a=[0, 1] * 20, b=1), results=out, **arguments)


@pytest.mark.parametrize("columns", [{}, {"text": 0, "label": 1}, {"text": "0", "label": "1"}])
def test_columns_of_a_data_frame_may_be_numbers(call, columns):
    rows = labelled(about="a text about").set_axis([0, 1], axis=1)
    assert "2 classes: a (20), b (20)" in call(rows, **columns)


def test_the_sheet_of_a_workbook_that_is_divided_is_said(tmp_path, call):
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        for name in ("one", "two"):
            labelled().to_excel(book, sheet_name=name, index=False)
    said = call(tmp_path / "book.xlsx", dev=0.2)
    line = "only the first of the sheets one, two is read; choose another with sheet"
    assert any(line in each for each in said[:2])


def test_another_margin_changes_one_number_of_the_configuration(out, call):
    texts = []
    for margin in (0.02, 0.5):
        call(labelled(), margin=margin)
        texts.append((out / "comparison.yaml").read_text())
    assert texts[0].replace("margin: 0.02  # the", "margin: 0.5  # the") == texts[1] != texts[0]


def test_an_edited_configuration_keeps_its_comments(out, call):
    call(labelled())
    path = out / "comparison.yaml"
    text = path.read_text().replace("margin: 0.02  #", "# margin: 0.5\n    margin:   2e-2  #")
    path.write_text(text)
    call(labelled(), margin=0.1, predictions={"gpt": labelled()["label"]})
    new = text.replace("margin:   2e-2", "margin:   0.1")
    files = f"{{gpt: {out / 'predictions' / 'gpt.jsonl'}}}"
    assert path.read_text() == new.replace("predictions: {}", f"predictions: {files}")
    block = path.read_text().replace(f" {files}", "\n     " + files.strip("{}"))
    path.write_text(block)
    with pytest.raises(SubtuneError, match=r"found 0 lines with `predictions:`, expected one"):
        call(labelled(), predictions="label")
    assert path.read_text() == block


def test_a_margin_in_the_unit_of_a_scorer_is_kept(out, call):
    rows = labelled(y=[1.5, 2.5, 3.5, 4.5] * 10).drop(columns="label")
    call(rows, label="y", kind="regression")
    path = out / "comparison.yaml"
    edited = path.read_text().replace("margin: 0.02 ", "margin: 5 ")
    path.write_text(re.sub(r"metrics: \[.*\]", "metrics: [neg_mean_absolute_error]", edited))
    call(rows, label="y", kind="regression")
    assert "margin: 5 " in path.read_text()


def test_options_that_are_not_given_again_stay(tmp_path, out, call):
    rows = labelled(z="a").rename(columns={"text": "x", "label": "y"})
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows[["z"]].rename(columns={"z": "prediction"}).to_csv(tmp_path / "gpt.csv", index=False)

    def again(**options) -> tuple[str, list[str]]:
        said = call(tmp_path / "t.csv", **options)
        return (out / "comparison.yaml").read_text(), said

    named = {"text": "x", "label": "y", "margin": 0.1, "predictions": str(tmp_path / "gpt.csv")}
    short, _ = again(**named, minutes=0.1)
    assert "margin: 0.1 " in short and "gpt.jsonl" in short
    long, said = again()
    assert "bitfit" in long and "margin: 0.1 " in long and "gpt.jsonl" in long
    assert "margin 0.1, as before; choose another with margin" in said
    assert again(text="x", margin=0.2)[0] == long.replace("margin: 0.1 ", "margin: 0.2 ")
    text, _ = again(predictions="z")
    assert "margin: 0.2 " in text and "z.jsonl" in text
    again(predictions={"my system": "z"}, minutes=20)
    assert "my-system.jsonl" in again(minutes=30)[0]
    with pytest.raises(SubtuneError, match="a different value of label; choose another directory"):
        again(label="z")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["series", "frame", "mapping"])
def test_predictions_stay_if_more_rows_may_be_drawn(out, call, form):
    rows = pd.DataFrame({"x": [f"text {n}" for n in range(1500)], "y": ["a", "b", "a"] * 500})
    right = rows["y"].copy()
    rows.loc[::150, "y"] = None
    chances = pd.DataFrame({"p_a": 0.4 + 0.2 * (right == "a"), "p_b": 0.5})
    given = {"series": right.rename("oracle"), "frame": chances, "mapping": {"oracle": [*right]}}
    numbers = []
    for options in ({"minutes": 0.01, "predictions": given[form]}, {"margin": 0.3}, {}):
        call(rows, **{"minutes": 0.01} | options if options else {"minutes": 100_000})
        [task] = read_config(out / "comparison.yaml").tasks.values()
        [(system, path)] = task.predictions.items()
        assert system == ("predictions" if form == "frame" else "oracle")
        scored = [row for _, row in read_rows(Path(task.files["train"])) if row["y"]]
        predicted = [row for _, row in read_rows(Path(path))]
        label = [
            row.get("prediction") or "ab"[float(row["b"]) > float(row["a"])] for row in predicted
        ]
        assert label == [row["y"] for row in scored]
        numbers.append(len(scored))
    assert numbers[0] == numbers[1] < numbers[2] == 1490


@pytest.mark.parametrize("form", ["series", "list", "mapping"])
@pytest.mark.parametrize("scored", ["train", "dev", "test"])
def test_predictions_with_the_index_in_another_order_are_refused(call, form, scored):
    rows = labelled()
    splits = {"train": labelled(about="one"), "dev": labelled(about="another")}
    splits = {} if scored == "train" else splits if scored == "test" else {"train": rows[::-1]}
    splits[scored] = rows.sample(frac=1, random_state=0)
    forms = {"series": lambda y: y, "list": lambda y: [y, y], "mapping": lambda y: {"mine": y}}
    with pytest.raises(SubtuneError, match=r"predictions: the index .* in a different order"):
        call(**splits, predictions=forms[form](rows["label"]))
    call(**splits, predictions=forms[form](splits[scored]["label"]))


@pytest.mark.parametrize(
    ("minutes", "part"),
    [(10_000, ""), (0.1, " for 2 of 5 folds with the recommended learning rates")],
)
def test_the_time_is_that_of_the_runs_that_it_names(call, minutes, part):
    said = call(labelled(), minutes=minutes)
    assert any(re.fullmatch(rf"time: about [^,]*\w{part}, estimated .*", line) for line in said)
    assert any("× 5 folds" in line for line in said)


def test_a_configuration_of_another_origin_stays(tmp_path, call):
    (tmp_path / "comparison.yaml").write_text("mine: 1")
    with pytest.raises(SubtuneError, match=r"has a comparison\.yaml but no comparison\.json, exp"):
        call(labelled(), results=tmp_path)
    assert (tmp_path / "comparison.yaml").read_text() == "mine: 1"


def test_models_in_another_order_are_the_same_call(call, directory_of):
    rows = labelled(about="the film")
    models = [directory_of("bert"), str(directory_of("roberta"))]
    for order in (models, models[::-1], [*models, models[0]]):
        call(rows, model=order)
    with pytest.raises(SubtuneError, match="a different value of model; choose another directory"):
        call(rows, model=models[0])


def test_a_drawn_dev_set_has_no_text_of_the_training_set(out, call):
    call(labelled(60, text=[f"text {n % 20}" for n in range(60)]), dev=0.2)
    train, dev = (
        pd.read_json(out / "rows" / f"{split}.jsonl", lines=True)
        for split in ("train", "validation")
    )
    assert {*train["text"]}.isdisjoint(dev["text"])
    assert [*read_config(out / "comparison.yaml").tasks] == ["table"]
    assert len(train) + len(dev) == 60 and 9 <= len(dev) <= 15
    assert dev["label"].nunique() == 2


def test_a_large_group_is_said_if_the_dev_set_has_another_size(tmp_path, call):
    rows = labelled(60, author=["ann"] * 32 + ["bob"] * 28)
    said = call(rows, dev=0.2, group="author")
    assert (
        "dev=0.2: the dev set has 28 of 60 rows (47%), because rows with the same text or author "
        "stay together" in said
    )
    assert not any("stay together" in line for line in said if not line.startswith("dev=0.2"))
    rows["author"] = "ann"
    with pytest.raises(SubtuneError, match=r"dev: .*: all rows have the same text or group"):
        call(rows, dev=0.2, group="author", results=tmp_path / "one")
    # All authors share a text, so all rows are in one set.
    rows["author"], rows.loc[::4, "text"] = [f"author {n // 4}" for n in range(60)], "Thanks!"
    with pytest.raises(SubtuneError, match=r"too few groups that share no text.* without group"):
        call(rows, group="author", results=tmp_path / "few")


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "jsonl", "frame"])
def test_a_dev_set_is_drawn_beside_a_test_set(tmp_path, out, call, ending):
    train, test = (write(labelled(n), tmp_path / f"{n}.{ending}") for n in (60, 10))
    call(train, dev=0.25, test=test)
    [task] = read_config(out / "comparison.yaml").tasks.values()
    sizes = {split: len([*read_rows(Path(path))]) for split, path in task.files.items()}
    assert sizes == {"train": 45, "validation": 15, "test": 10}


def write(frame, path):
    """Write a table to a file in the format of its extension; for ``frame``, return the table."""
    writers = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".xlsx": lambda: frame.to_excel(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
    }
    if path.suffix not in writers:
        return frame
    writers[path.suffix]()
    return path


@pytest.mark.parametrize("name", ["sample", "rows", "runs", "tables", "reviews"])
def test_a_converted_table_has_its_own_directory_and_the_users_lines(tmp_path, out, call, name):
    path = tmp_path / f"{name}.csv"
    lines = [f'"größe {n}\n{n}",{"ab"[n % 2]}' for n in range(40)]
    path.write_bytes("\n".join(["text,label", "", *lines]).encode("latin-1"))
    call(path, dev=0.2, encoding="latin-1")
    [(task_name, task)] = read_config(out / "comparison.yaml").tasks.items()
    assert task_name == name
    for split in ("train", "validation"):
        for place, row in read_rows(Path(task.files[split])):
            number = int(row["text"].split("\n")[1])
            assert place == f"line {3 + 2 * number}"
    assert len([*read_rows(out / f"table-{name}" / "train.jsonl")]) == 40


def test_a_row_in_another_encoding_is_refused_with_its_line(tmp_path, call):
    path = tmp_path / "table.csv"
    path.write_bytes("text,label,k\nß,1,1\n\nä,2,2\nö,x,3\n".encode("latin-1"))
    with pytest.raises(SubtuneError, match="train: line 5: "):
        call(path, encoding="latin-1", kind="regression")


def test_baselines_that_cannot_be_used_are_named_after_the_argument(call):
    with pytest.raises(SubtuneError, match=r"^baselines: expected a mapping from names"):
        call(labelled(), baselines=["trees"])
    with pytest.raises(SubtuneError, match=r"^baselines: trees: reads: "):
        call(labelled(), baselines={"trees": {"estimator": "a:b", "reads": "words"}})


def test_more_minutes_plan_again_and_an_edited_configuration_stays(out, call):
    configuration = out / "comparison.yaml"
    call(labelled(), minutes=0.1)
    short = configuration.read_text()
    call(labelled(), minutes=10_000)
    long = configuration.read_text()
    assert "      bitfit: " in long and "      bitfit: " not in short
    assert "left_out: [lora-I, frozen, bitfit]" in short and "left_out" not in long
    configuration.write_text(f"{long}# mine\n")
    said = call(labelled(), minutes=20_000)
    assert configuration.read_text() == f"{long}# mine\n"
    unchanged = "may have been edited, so it is used unchanged; its settings were chosen for 10000"
    assert unchanged in said[-1]
