"""The table of all runs."""

import json
import shutil

import pytest

from subtune.analysis import columns, runs
from subtune.analysis.curves import CONVERGED, FELL, STILL_RISING
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.runs.records import write_checksums
from tests.helpers import examples
from tests.helpers.records import record


@pytest.fixture(scope="module")
def store(tmp_path_factory, tiny_bert):
    path = tmp_path_factory.mktemp("runs")
    for task in ("sst2", "stsb"):
        record(path, [examples.run_spec(task=task)], tiny_bert)
    return path


def planned(store):
    about = {"model": "tiny", "method": "layernorm", "fraction": None, "scope": None}
    about |= {"fold": None, "flops": 2e9}
    runs = [(run, records.read_spec(store, run)) for run in records.list_run_ids(store)]
    return [
        {"run": run, "experiment": experiment, "task": spec.tokens.data.task.name, **about}
        for experiment in ("one", "other")
        for run, spec in runs
    ]


def test_every_run_is_one_row_whose_columns_have_meanings(store):
    table = runs.table_of_runs(store, planned(store))
    assert list(table["experiments"]) == ["one other", "one other"]
    assert list(table["run"]) == records.list_run_ids(store)
    assert list(runs.column_meanings(list(table))["column"]) == list(table)


def test_a_row_has_all_that_decides_a_run_and_its_record(store):
    table = runs.table_of_runs(store, planned(store)).set_index("run")
    for run, row in table.iterrows():
        spec = records.read_spec(store, run)
        assert row["spec.recipe.learning_rate"] == row["learning_rate"] == 1e-2
        assert row["spec.selection"] == spec.selection.canonical()
        metrics = list(spec.tokens.data.task.metrics)
        assert json.loads(row["spec.tokens.data.task.metrics"]) == metrics
        fields = {name.removeprefix("spec.") for name in table if name.startswith("spec.")}
        assert fields >= {f"recipe.{name}" for name in type(spec.recipe).model_fields}
        assert {"seed", "recipe_version", "tokens.max_length"} <= fields
        assert row["seconds"] == records.total_seconds(records.read_epochs(store, run))
        assert row["epochs_trained"] == 2 and row["record"] == str(store / run)
        assert row["score"] == row[f"scores.validation.{metrics[0]}"]
        assert row["curve"] in {CONVERGED, STILL_RISING, FELL}
        assert row["device"] and row["versions.torch"] and row["recorded"].endswith("Z")


def test_a_column_that_is_not_declared_is_refused(store, monkeypatch):
    others = [c for c in columns.COLUMNS if c.column != "spec.tokens.doc_stride"]
    monkeypatch.setattr(columns, "COLUMNS", others)
    with pytest.raises(SubtuneError, match=r"no row of runs for spec\.tokens\.doc_stride"):
        runs.table_of_runs(store, planned(store))


def test_why_a_run_trained_alone_or_unpadded_is_in_its_row(store, tmp_path):
    copied = shutil.copytree(store, tmp_path / "runs")
    first, *_ = records.list_run_ids(copied)
    path = copied / first / "provenance.json"
    reasons = {"one_by_one": "vmap refuses", "without_padding": "it sees padding"}
    path.write_text(json.dumps(json.loads(path.read_text()) | reasons))
    write_checksums(path.parent)
    table = runs.table_of_runs(copied, planned(copied)).set_index("run")
    assert table.loc[first, list(reasons)].to_dict() == reasons
