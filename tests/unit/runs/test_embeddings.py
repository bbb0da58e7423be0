"""A regression on embeddings is recorded, listed and scored as any other run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from subtune.analysis import scores
from subtune.analysis.predictions import require_scores_of_predictions
from subtune.exhibits import findings
from subtune.runs import records, tables
from subtune.selections.specs import Fit, RunSpec
from subtune.tasks import TASKS
from subtune.tasks.task import ScoreColumn
from tests.helpers import examples
from tests.helpers.records import recorded_embeddings

COLUMNS = [ScoreColumn("rte", "rte", "validation", "accuracy", True, True)]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Results with one record, and the model that it started from."""
    return tmp_path_factory.mktemp("embeddings")


@pytest.fixture(scope="module")
def spec(results, tiny_bert) -> RunSpec:
    return recorded_embeddings(results, tiny_bert)


def planned(spec):
    """The run's place in an experiment, with two seeds."""
    place = {"model": "tiny", "task": "rte", "method": "embeddings", "train_rows": 12}
    others = {"fraction": None, "scope": None, "learning_rate": None, "fold": None, "run": spec.id}
    return [place | others | {"seed": seed} for seed in (0, 1)]


def test_a_record_has_one_prediction_for_each_row_and_no_change_of_the_encoder(results, spec):
    store = results / "runs"
    assert records.read_spec(store, spec.id) == spec
    predictions = pd.DataFrame(records.read_predictions(store, spec.id))
    expected = np.array(examples.rows_of(TASKS["rte"])["validation"]["label"])
    assert (predictions["label"].to_numpy() == expected).all()
    assert set(records.read_sizes(store, spec.id)) == {"classifier.weight", "classifier.bias"}
    require_scores_of_predictions([spec.id], store)


def test_a_run_without_a_learning_rate_is_chosen_at_every_seed(results, spec):
    every = scores.collect(planned(spec), results / "runs", COLUMNS)
    chosen = scores.choose(every)
    assert list(chosen["seed"]) == [0, 1]
    assert chosen["value"].notna().all()
    assert set(scores.trained_beside_classifier(chosen)) == {0}


def test_tables_have_no_learning_rate_of_it(results, spec):
    store = results / "runs"
    chosen = scores.choose(scores.collect(planned(spec), store, COLUMNS))
    chosen = scores.with_verdicts(chosen, store, COLUMNS)
    table = findings.choices(chosen, {"rte": "RTE"})
    assert table["learning rate"].isna().all()
    assert findings.short(chosen["learning_rate"].iloc[0]) is None


def test_it_is_a_row_of_the_tables_of_runs(results, spec):
    listed = tables.row_of_record(results / "runs", spec.id, None)
    assert (listed["method"], listed["train_rows"]) == ("embeddings", "all")
    assert listed["learning_rate"] is listed["batch_size"] is listed["epochs"] is None
    entries = [of | {"experiment": "mine", "flops": 1.0} for of in planned(spec)]
    table = tables.table_of_runs(results / "runs", entries)
    assert list(table["spec.selection"]) == ['{"embeddings":{}}']


def test_a_recipe_of_training_is_none_of_embeddings(spec):
    with pytest.raises(ValueError, match="expected a recipe without training for embeddings"):
        spec.replaced(recipe=examples.recipe())
    with pytest.raises(ValueError, match="expected a recipe without training for embeddings"):
        examples.run_spec().replaced(recipe=Fit())
