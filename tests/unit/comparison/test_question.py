"""A comparison's messages, and predictions of its methods."""

import errno
import fcntl
import os
import re
from functools import partial
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow
import pytest

from subtune.comparison import loop, pace
from subtune.comparison.pace import MeasuredPace
from subtune.comparison.question import compare
from subtune.comparison.results import Comparison, read_given_labels
from subtune.comparison.splits import find_splits, write_splits
from subtune.config.checks import read_config
from subtune.config.schema import Pace
from subtune.core.errors import SubtuneError
from subtune.data.table_files import read_rows
from subtune.methods import METHODS
from subtune.tasks import TaskSpec
from tests.helpers.records import recorded

PAIRS = [("a", "pair"), ("another", "one")]
COLUMNS = ["sentence1", "sentence2"]


@pytest.fixture(scope="module")
def answer(tmp_path_factory, tiny_bert):
    """A comparison on pairs of texts with a single run."""
    results = tmp_path_factory.mktemp("results")
    spec, _ = recorded(results, tiny_bert, METHODS["layernorm"], "rte")

    class OneRun(Comparison):
        def best_run(self, method, model):
            return spec.id

    return OneRun(results)


@pytest.fixture
def untrained(monkeypatch):
    """Calls of `compare` neither measure the machine nor train."""
    vectors = {"vectors": Pace(per_layer=0, per_teraflop=1)}
    monkeypatch.setattr(pace, "measure_pace", lambda *of: MeasuredPace("a machine", vectors))

    def write_page(context, *_):
        Path(context.config.results, "report.html").touch()

    monkeypatch.setattr(loop, "train_within_time_limit", write_page)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, number):
    def fail(*of):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    place = tmp_path / "out"
    with pytest.raises(SubtuneError, match=f"results: cannot lock files in {place} .*; choose"):
        compare(pd.DataFrame({"text": ["a b c"], "label": [1]}), results=place)
    assert not place.exists()
    place.mkdir()
    (place / "runs").mkdir()
    with pytest.raises(SubtuneError, match="cannot lock"):
        compare(pd.DataFrame({"text": ["a b c"], "label": [1]}), results=place)
    assert (place / "runs").exists()


def test_predictions_of_rows_keep_their_index(answer):
    by_row = answer.predict("layernorm", PAIRS)
    table = pd.DataFrame(PAIRS, columns=COLUMNS, index=[7, 3])
    pd.testing.assert_frame_equal(answer.predict("layernorm", table), by_row.set_axis(table.index))
    with pytest.raises(SubtuneError, match="texts: text 1: no column 'sentence2', exp"):
        answer.predict("layernorm", table.drop(columns="sentence2"))


def test_texts_in_any_form_are_predicted_alike(answer, tmp_path):
    columns = {"sentence1": ["a", "12"], "sentence2": ["pair", None]}
    frame, path = pd.DataFrame(columns), tmp_path / "new.csv"
    frame.to_csv(path, index=False)
    frame.to_parquet(tmp_path / "new.parquet")
    expected = answer.predict("layernorm", [("a", "pair"), ("12", "")])
    for texts in (
        columns,
        frame.to_dict("records"),
        [("a", "pair"), ("12", float("nan"))],
        [(b"a", "pair"), ("12", pd.NA)],
        frame.assign(sentence1=["a", 12], sentence2=["pair", pd.NA]),
        frame.assign(sentence1=[b"a", np.int64(12)], other=[object, {}]),
        frame.assign(sentence1=pd.Categorical(["a", "12"])),
        pyarrow.table(columns),
        datasets.Dataset.from_dict(columns),
        path,
        str(path),
        str(tmp_path / "new.parquet"),
    ):
        pd.testing.assert_frame_equal(answer.predict("layernorm", texts), expected)


def test_a_pair_without_text_has_no_prediction(answer, capsys):
    whole = answer.predict("layernorm", PAIRS)
    found = answer.predict("layernorm", [PAIRS[0], ("", None), PAIRS[1]])
    assert "texts: rows without text get no prediction: text 2\n" in capsys.readouterr().err
    assert found.loc[1].isna().all()
    others = found.drop(index=1).reset_index(drop=True)
    pd.testing.assert_frame_equal(others, whole, check_dtype=False)
    assert [*map(type, others["prediction"])] == [*map(type, whole["prediction"])]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ("nowhere.csv", "nowhere.csv: "),
        (Path("nowhere"), "nowhere: "),
        ({"sentence1": ["a"], "sentence2": ["b", "c"]}, "texts: found a dict, exp"),
        (
            pd.DataFrame([["a", "b"]], columns=["sentence1"] * 2),
            "texts: found column 'sentence1' t",
        ),
        ([("", None), (" ", "")], "texts: text 1: the text is empty"),
        ([], "texts: found no rows"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(answer, texts, said):
    with pytest.raises(SubtuneError, match=f"^{said}"):
        answer.predict("layernorm", texts)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([1, 0], {"0": 0, "1": 1}),
        (np.array([True, False]), {"False": False, "True": True}),
        (["1", "0"], {"0": "0", "1": "1"}),
        ([1.0, 2.5], {"1": 1.0, "2.5": 2.5}),
        ([1, 2, None], {"1": 1, "2": 2}),
        (pd.array([1, 2, None], "Int64"), {"1": 1, "2": 2}),
        (pd.Categorical([1, 2]), {"1": 1, "2": 2}),
        ([[1, 2], [3]], {"1": 1, "2": 2, "3": 3}),
        (["1.0", "1.1"], {"1": "1.0", "1.1": "1.1"}),
        (["None", "1", None], {"1": "1", "None": "None"}),
    ],
)
def test_predicted_labels_have_the_type_of_the_given_labels(tmp_path, labels, found):
    table = find_splits(pd.DataFrame({"text": "a", "label": labels}))
    write_splits(table, tmp_path, tmp_path / "mine")
    task = TaskSpec(name="mine", text=("text",), labels=(*found,), metrics=("accuracy",))
    given = read_given_labels(tmp_path / "mine", task)
    assert given == found and [*map(type, given.values())] == [*map(type, found.values())]


def test_a_table_in_memory_gives_predictions_its_labels(answer):
    words = ["entailment", "not_entailment"]
    assert {*answer.predict("layernorm", PAIRS)["prediction"]} <= {*words}
    rows = pd.DataFrame({"label": [f" {word}" for word in words]})
    write_splits(find_splits(rows), answer.results, answer.results / "table-rte")
    assert {*answer.predict("layernorm", PAIRS)["prediction"]} <= {*rows["label"]}


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (("0", "1"), [0, 1]),
        (("False", "True"), [False, True]),
        (("1", "1.5"), [1, 1.5]),
        (("01", "02"), ["01", "02"]),
        (("1", "good"), ["1", "good"]),
        (("(1)", "[2]"), ["(1)", "[2]"]),
    ],
)
def test_labels_of_a_file_are_as_pandas_reads_them(tmp_path, words, labels):
    task = TaskSpec(name="mine", text=("text",), labels=words, metrics=("accuracy",))
    assert [*read_given_labels(tmp_path, task).values()] == labels
    path = tmp_path / "mine.csv"
    pd.DataFrame({"text": "ä", "label": words}).to_csv(path, index=False, encoding="latin-1")
    write_splits(find_splits(path, encoding="latin-1"), tmp_path, tmp_path)
    assert [*read_given_labels(tmp_path, task).values()] == labels


ANSWER = {"decision": "train", "model": "small", "encoder_size": 10, "reference": "Full of large"}


@pytest.mark.parametrize(
    ("answer", "method", "run"),
    [
        # The run with the best score, large's second fold, is of another model than the answer.
        (ANSWER, "layernorm", "s1"),
        (ANSWER | {"decision": "everything"}, "layernorm", "l1"),
        (ANSWER | {"encoder_size": 0, "reference": "Full of small"}, "layernorm", "s1"),
        # The answer's model has no run of this method.
        (ANSWER, "bitfit", "l2"),
    ],
)
def test_the_model_of_the_answer_predicts_unless_another_is_named(tmp_path, answer, method, run):
    rows = [
        ("small", "layernorm", "s0", 0.5),
        ("small", "layernorm", "s1", 0.7),
        ("large", "layernorm", "l0", 0.4),
        ("large", "layernorm", "l1", 0.9),
        ("large", "bitfit", "l2", 0.6),
        ("large", "tf-idf", "t0", 0.3),
    ]
    runs = pd.DataFrame(rows, columns=["model", "method", "run", "value"])

    class TwoModels(Comparison):
        _chosen_runs = runs.assign(
            decides=True, task="mine", encoder_size=10 * runs["method"].ne("tf-idf")
        )

        def _read_summary_table(self, name):
            return pd.DataFrame([answer])

    found = TwoModels(tmp_path)
    assert found.best_run(method, None) == run
    assert found.best_run("tf-idf", "small") == found.best_run("tf-idf", None) == "t0"
    assert found.best_run(method, "large") == {"layernorm": "l1", "bitfit": "l2"}[method]
    with pytest.raises(SubtuneError, match=r"^model: found 'medium', expected "):
        found.best_run(method, "medium")
    TwoModels._chosen_runs = TwoModels._chosen_runs.assign(task=[*"aabaaa"])
    with pytest.raises(
        SubtuneError, match=r"^method: layernorm was trained on several tasks \(a, b\); "
    ):
        found.best_run("layernorm")


@pytest.mark.parametrize("pair", ["one text", ("one text",), ("three", "texts", "here"), 1])
def test_texts_that_are_no_pairs_are_refused_where_a_task_has_pairs(pair, answer):
    expected = r"texts: text 2: found .*, expected tuples of sentence1, sentence2"
    with pytest.raises(SubtuneError, match=expected):
        answer.predict("layernorm", [PAIRS[0], pair])


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
def test_a_list_of_one_column_is_this_column_in_every_kind_of_task(
    tmp_path, untrained, label, kind, line
):
    rows = {"text": [f"a text {n}" for n in range(40)], "stars": [1, 2, 3, 4] * 10}
    rows |= {"flag": [0, 1] * 20, "tags": [["a"], ["a", "b"]] * 20}
    said: list[str] = []
    compare(pd.DataFrame(rows), label=label, kind=kind, results=tmp_path / "out", say=said.append)
    assert any(each.startswith(line) for each in said), said


def test_several_label_columns_are_no_class(tmp_path):
    rows = pd.DataFrame({"text": [f"a text {n}" for n in range(40)], "a": [0, 1] * 20, "b": 1})
    with pytest.raises(SubtuneError, match=r"^label: found several columns \(a, b\), expected one"):
        compare(rows, label=["a", "b"], kind="classification", results=tmp_path / "out")


def test_an_unknown_argument_is_named(tmp_path):
    with pytest.raises(SubtuneError, match=r"^arguments: found 'minute', .*mean 'minutes'"):
        compare(tmp_path / "rows.csv", minute=2)


@pytest.mark.parametrize("columns", [{}, {"text": 0, "label": 1}, {"text": "0", "label": "1"}])
def test_columns_of_a_data_frame_may_be_numbers(tmp_path, untrained, columns):
    rows = pd.DataFrame([[f"a text about {n}", "ab"[n % 2]] for n in range(40)])
    lines: list[str] = []
    compare(rows, results=tmp_path / "out", say=lines.append, **columns)
    assert "2 classes: a (20), b (20)" in lines


def test_the_sheet_of_a_workbook_that_is_divided_is_said(tmp_path, untrained):
    rows = pd.DataFrame({"text": [f"text {n}" for n in range(40)], "label": ["a", "b"] * 20})
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        for name in ("one", "two"):
            rows.to_excel(book, sheet_name=name, index=False)
    said: list[str] = []
    compare(tmp_path / "book.xlsx", dev=0.2, results=tmp_path / "results", say=said.append)
    assert any(
        "only the first of the sheets one, two is read; choose another with sheet" in s
        for s in said[:2]
    )


def test_another_margin_changes_one_number_of_the_configuration(tmp_path, untrained):
    rows = pd.DataFrame({"text": [f"text {n}" for n in range(40)], "label": ["a", "b"] * 20})
    texts = []
    for margin in (0.02, 0.5):
        compare(rows, results=tmp_path / "out", margin=margin, say=lambda line: None)
        texts.append((tmp_path / "out" / "comparison.yaml").read_text())
    assert texts[0].replace("margin: 0.02  # the", "margin: 0.5  # the") == texts[1] != texts[0]


def test_an_edited_configuration_keeps_its_comments(tmp_path, untrained):
    rows = pd.DataFrame({"text": [f"text {n}" for n in range(40)], "label": ["a", "b"] * 20})
    call = partial(compare, rows, results=tmp_path / "out", say=lambda line: None)
    call()
    path = tmp_path / "out" / "comparison.yaml"
    text = path.read_text().replace("margin: 0.02  #", "# margin: 0.5\n    margin:   2e-2  #")
    path.write_text(text)
    call(margin=0.1, predictions={"gpt": rows["label"]})
    new = text.replace("margin:   2e-2", "margin:   0.1")
    files = f"{{gpt: {tmp_path / 'out' / 'predictions' / 'gpt.jsonl'}}}"
    assert path.read_text() == new.replace("predictions: {}", f"predictions: {files}")
    block = path.read_text().replace(f" {files}", "\n     " + files.strip("{}"))
    path.write_text(block)
    with pytest.raises(SubtuneError, match=r"found 0 lines with `predictions:`, expected one"):
        call(predictions="label")
    assert path.read_text() == block


def test_options_that_are_not_given_again_stay(tmp_path, untrained):
    rows = pd.DataFrame(
        {"x": [f"text {n}" for n in range(40)], "y": ["a", "b"] * 20, "z": 40 * ["a"]}
    )
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows[["z"]].rename(columns={"z": "prediction"}).to_csv(tmp_path / "gpt.csv", index=False)
    said: list[str] = []
    call = partial(compare, tmp_path / "t.csv", results=tmp_path / "out", say=said.append)
    named = {"text": "x", "label": "y", "margin": 0.1, "predictions": str(tmp_path / "gpt.csv")}
    call(**named, minutes=0.1)
    path = tmp_path / "out" / "comparison.yaml"
    short = path.read_text()
    assert "margin: 0.1 " in short and "gpt.jsonl" in short
    call()
    long = path.read_text()
    assert "epochs: 20" in long and "margin: 0.1 " in long and "gpt.jsonl" in long
    assert "margin 0.1, as before; choose another with margin" in said
    call(text="x", margin=0.2)
    assert path.read_text() == long.replace("margin: 0.1 ", "margin: 0.2 ")
    call(predictions="z")
    assert "margin: 0.2 " in path.read_text() and "z.jsonl" in path.read_text()
    call(predictions={"my system": "z"}, minutes=20)
    call(minutes=30)
    assert "my-system.jsonl" in path.read_text()
    with pytest.raises(SubtuneError, match="a different value of label; choose another directory"):
        call(label="z")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["series", "frame", "mapping"])
def test_predictions_stay_if_more_rows_may_be_drawn(tmp_path, untrained, form):
    rows = pd.DataFrame({"x": [f"text {n}" for n in range(1500)], "y": ["a", "b", "a"] * 500})
    right = rows["y"].copy()
    rows.loc[::150, "y"] = None
    chances = pd.DataFrame({"p_a": 0.4 + 0.2 * (right == "a"), "p_b": 0.5})
    given = {"series": right.rename("oracle"), "frame": chances, "mapping": {"oracle": [*right]}}
    call = partial(compare, rows, results=tmp_path / "out", say=lambda line: None)
    numbers = []
    for options in ({"minutes": 0.01, "predictions": given[form]}, {"margin": 0.3}, {}):
        call(**{"minutes": 0.01} | options if options else {"minutes": 100_000})
        [task] = read_config(tmp_path / "out" / "comparison.yaml").tasks.values()
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
def test_predictions_with_the_index_in_another_order_are_refused(tmp_path, untrained, form, scored):
    rows = pd.DataFrame({"x": [f"text {n}" for n in range(40)], "y": ["a", "b"] * 20})
    splits = {"train": rows.assign(x=rows["x"] + "!"), "dev": rows.assign(x=rows["x"] + "?")}
    splits = {} if scored == "train" else splits if scored == "test" else {"train": rows[::-1]}
    splits[scored] = rows.sample(frac=1, random_state=0)
    call = partial(compare, **splits, results=tmp_path / "out", say=lambda line: None)
    forms = {"series": lambda y: y, "list": lambda y: [y, y], "mapping": lambda y: {"mine": y}}
    with pytest.raises(SubtuneError, match=r"predictions: the index .* in a different order"):
        call(predictions=forms[form](rows["y"]))
    call(predictions=forms[form](splits[scored]["y"]))


@pytest.mark.parametrize(("minutes", "part"), [(10_000, ""), (0.1, " for 3 of 5 folds")])
def test_the_time_is_that_of_the_runs_that_it_names(tmp_path, untrained, minutes, part):
    rows = pd.DataFrame({"x": [f"text {n}" for n in range(40)], "y": ["a", "b"] * 20})
    said: list[str] = []
    compare(rows, minutes=minutes, results=tmp_path / "out", say=said.append)
    assert any(re.fullmatch(rf"time: about [^,]*\w{part}, estimated .*", line) for line in said)
    assert any("× 5 folds" in line for line in said)


def test_a_configuration_of_another_origin_stays(tmp_path, untrained):
    (tmp_path / "comparison.yaml").write_text("mine: 1")
    rows = pd.DataFrame({"x": [f"text {n}" for n in range(40)], "y": ["a", "b"] * 20})
    with pytest.raises(SubtuneError, match=r"has a comparison\.yaml but no comparison\.json, exp"):
        compare(rows, results=tmp_path)
    assert (tmp_path / "comparison.yaml").read_text() == "mine: 1"


def test_models_in_another_order_are_the_same_call(tmp_path, untrained, directory_of):
    rows = pd.DataFrame({"x": [f"the film {n}" for n in range(40)], "y": ["a", "b"] * 20})
    models = [directory_of("bert"), str(directory_of("roberta"))]
    for order in (models, models[::-1], [*models, models[0]]):
        compare(rows, model=order, results=tmp_path / "out", say=lambda line: None)
    with pytest.raises(SubtuneError, match="a different value of model; choose another directory"):
        compare(rows, model=models[0], results=tmp_path / "out", say=lambda line: None)


def test_a_drawn_dev_set_has_no_text_of_the_training_set(tmp_path, untrained):
    rows = pd.DataFrame({"text": [f"text {n % 20}" for n in range(60)], "label": ["a", "b"] * 30})
    compare(rows, dev=0.2, results=tmp_path / "out", say=lambda line: None)
    train, dev = (
        pd.read_json(tmp_path / "out" / "rows" / f"{split}.jsonl", lines=True)
        for split in ("train", "validation")
    )
    assert {*train["text"]}.isdisjoint(dev["text"])
    assert [*read_config(tmp_path / "out" / "comparison.yaml").tasks] == ["table"]
    assert len(train) + len(dev) == 60 and 9 <= len(dev) <= 15
    assert dev["label"].nunique() == 2


def test_a_large_group_is_said_if_the_dev_set_has_another_size(tmp_path, untrained):
    rows = pd.DataFrame({"x": [f"text {n}" for n in range(60)], "y": ["a", "b"] * 30})
    rows["author"] = ["ann"] * 32 + ["bob"] * 28
    said: list[str] = []
    compare(rows, dev=0.2, group="author", results=tmp_path / "out", say=said.append)
    assert (
        "dev=0.2: the dev set has 28 of 60 rows (47%), because rows with the same text or author "
        "stay together" in said
    )
    assert not any("stay together" in line for line in said if not line.startswith("dev=0.2"))
    rows["author"] = "ann"
    with pytest.raises(SubtuneError, match=r"dev: .*: all rows have the same text or group"):
        compare(rows, dev=0.2, group="author", results=tmp_path / "one", say=said.append)
    # All authors share a text, so all rows are in one set.
    rows["author"], rows.loc[::4, "x"] = [f"author {n // 4}" for n in range(60)], "Thanks!"
    with pytest.raises(SubtuneError, match=r"too few groups that share no text.* without group"):
        compare(rows, group="author", results=tmp_path / "few", say=said.append)


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "jsonl", "frame"])
def test_a_dev_set_is_drawn_beside_a_test_set(tmp_path, untrained, ending):
    rows = pd.DataFrame({"text": [f"text {n}" for n in range(60)], "label": ["a", "b"] * 30})
    paths = [write(part, tmp_path / f"{n}.{ending}") for n, part in enumerate((rows, rows[:9]))]
    compare(paths[0], dev=0.25, test=paths[1], results=tmp_path / "out", say=lambda line: None)
    [task] = read_config(tmp_path / "out" / "comparison.yaml").tasks.values()
    sizes = {split: len([*read_rows(Path(path))]) for split, path in task.files.items()}
    assert sizes == {"train": 45, "validation": 15, "test": 9}


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
def test_a_converted_table_has_its_own_directory_and_the_users_lines(tmp_path, untrained, name):
    path = tmp_path / f"{name}.csv"
    lines = [f'"größe {n}\n{n}",{"ab"[n % 2]}' for n in range(40)]
    path.write_bytes("\n".join(["text,label", "", *lines]).encode("latin-1"))
    out = tmp_path / "out"
    compare(path, dev=0.2, encoding="latin-1", results=out, say=lambda line: None)
    [(task_name, task)] = read_config(out / "comparison.yaml").tasks.items()
    assert task_name == name
    for split in ("train", "validation"):
        for place, row in read_rows(Path(task.files[split])):
            number = int(row["text"].split("\n")[1])
            assert place == f"line {3 + 2 * number}"
    assert len([*read_rows(out / f"table-{name}" / "train.jsonl")]) == 40


def test_a_row_in_another_encoding_is_refused_with_its_line(tmp_path, untrained):
    path = tmp_path / "table.csv"
    path.write_bytes("text,label,k\nß,1,1\n\nä,2,2\nö,x,3\n".encode("latin-1"))
    with pytest.raises(SubtuneError, match="train: line 5: "):
        compare(path, encoding="latin-1", kind="regression", results=tmp_path / "out")


def test_more_minutes_plan_again_and_an_edited_configuration_stays(tmp_path, untrained):
    rows = pd.DataFrame({"text": [f"text {n}" for n in range(40)], "label": ["a", "b"] * 20})
    said: list[str] = []
    configuration = tmp_path / "out" / "comparison.yaml"
    compare(rows, minutes=0.1, results=tmp_path / "out", say=said.append)
    short = configuration.read_text()
    compare(rows, minutes=10_000, results=tmp_path / "out", say=said.append)
    long = configuration.read_text()
    assert "epochs: 20" in long and short != long
    configuration.write_text(f"{long}# mine\n")
    compare(rows, minutes=20_000, results=tmp_path / "out", say=said.append)
    assert configuration.read_text() == f"{long}# mine\n"
    unchanged = "may have been edited, so it is used unchanged; its settings were chosen for 10000"
    assert unchanged in said[-1]


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_is_between_0_and_1(tmp_path, share):
    with pytest.raises(SubtuneError, match=f"^dev: found {share}, expected a share between 0 and"):
        compare(pd.DataFrame({"text": ["a"], "label": ["b"]}), dev=share, results=tmp_path / "out")
