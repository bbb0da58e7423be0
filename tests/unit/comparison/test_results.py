"""Predictions of a comparison's methods, and the runs that make them."""

from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow
import pytest

from subtune.comparison.results import Comparison, read_given_labels
from subtune.comparison.splits import find_splits, write_splits
from subtune.core.errors import SubtuneError
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
        *(
            ([PAIRS[0], pair], "texts: text 2: found .*, expected tuples of sentence1, sentence2")
            for pair in ("one text", ("one text",), ("three", "texts", "here"), 1)
        ),
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
