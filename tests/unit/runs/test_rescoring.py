"""Predictions of recorded runs for other rows, for every kind of task."""

import datasets
import numpy as np
import pandas as pd
import pytest

from subtune.data.load import load, tokenize
from subtune.families.base import HEADS
from subtune.models.encoder import load_model
from subtune.runs import recording, records
from subtune.selections.methods import METHODS
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training.evaluation import logits_of
from tests.helpers import examples
from tests.helpers.records import record

KINDS = ["sst2", "stsb", "ud_ewt", "squad"]


def recorded(store, directory, task, **recipe):
    spec = examples.run_spec(METHODS["bitfit"], task, **recipe)
    record(store, [spec], directory)
    model = load_model(directory, TASKS[task].of_kind.head, TASKS[task].outputs)
    return spec, model, examples.tokens(TASKS[task], directory)


def in_order(store, spec, model, tokens, rows):
    """Scores of some rows, in the order of the split, one example at a time."""
    kind = spec.tokens.data.task.of_kind
    trained = recording.trained_model(store, spec, model)
    every = Examples(tokens, HEADS[kind.head])
    chosen = tokens.select(np.flatnonzero(np.isin(every.row, rows)))
    logits = np.concatenate(
        [
            logits_of(trained, Examples(chosen.select([number]), HEADS[kind.head]), "fp32")
            for number in range(len(chosen))
        ]
    )
    examples_in_order = Examples(chosen, HEADS[kind.head])
    predicted = kind.predict(examples_in_order, logits)
    return kind.score(spec.tokens.data.task, examples_in_order, predicted)


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("train_rows", [None, 7])
def test_scores_on_training_rows_are_those_of_the_rows_that_trained(
    task, train_rows, tmp_path, tiny_bert
):
    spec, model, tokens = recorded(tmp_path, tiny_bert, task, train_rows=train_rows)
    scores = recording.score_on_training_rows(tmp_path, spec, model, tokens["train"])
    rows = Examples(tokens["train"], HEADS[TASKS[task].of_kind.head]).rows
    # The first that a run's seed draws.
    trained = np.random.default_rng(spec.seed).permutation(rows)[:train_rows]
    expected = in_order(tmp_path, spec, model, tokens["train"], trained)
    assert scores == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("task", ["ud_ewt", "squad"])
def test_what_a_record_predicts_of_a_split_again_is_on_record(task, tmp_path, tiny_bert):
    spec, model, tokens = recorded(tmp_path, tiny_bert, task)
    tokens = type(tokens)({"test": tokens["validation"]})
    again = recording.predict_test_rows(tmp_path, [spec], model, tokens)
    on_record = pd.read_parquet(tmp_path / spec.id / "predictions.parquet")
    assert set(again.pop("run")) == {spec.id}
    for column in set(on_record) - {"split", "label", "answers"}:
        assert again[column].tolist() == on_record[column].tolist()
    assert set(on_record) - set(again) - {"answers"} == {"label"}


@pytest.mark.parametrize("task", KINDS)
def test_test_rows_without_labels_are_predicted(task, tmp_path, tiny_bert):
    spec, model, _ = recorded(tmp_path, tiny_bert, task)
    task = TASKS[task]
    rows = load(DataSpec(task=task, source="builtin", version="1", splits=("test",)))
    tokens = tokenize(task, rows, tiny_bert, 24, examples.doc_stride_of(task))
    tokens.save_to_disk(tmp_path / "tokens")
    tokens = datasets.load_from_disk(tmp_path / "tokens")
    table = recording.predict_test_rows(tmp_path, [spec], model, tokens)
    assert "label" not in table
    assert sorted(set(table["idx"])) == list(range(len(rows["test"])))
    table.to_parquet(tmp_path / "table.parquet")


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("ud_ewt", ["split", "idx", "word", "label", "prediction"]),
        ("squad", ["split", "idx", "label", "prediction", "start", "end", "answers"]),
    ],
)
def test_predictions_of_words_and_spans_are_on_record_with_their_scores(
    task, columns, tmp_path, tiny_bert
):
    spec, _, tokens = recorded(tmp_path, tiny_bert, task)
    table = pd.read_parquet(tmp_path / spec.id / "predictions.parquet")
    assert list(table) == columns
    assert set(table["idx"]) == set(tokens["validation"]["row"])
    scores = records.read_outcome(tmp_path, spec.id)["scores"]["validation"]
    assert list(scores) == list(TASKS[task].metrics)
    right = (table["label"] == table["prediction"]).mean()
    assert right == pytest.approx(scores["accuracy" if task == "ud_ewt" else "exact_match"])
