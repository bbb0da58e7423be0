"""The table of all runs, and its data dictionary."""

import json
import shutil

import pytest

from subtune.core.errors import SubtuneError
from subtune.runs import records, tables
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
    runs = [(run, records.read_spec(store, run)) for run in records.all_runs(store)]
    return [
        {"run": run, "experiment": experiment, "task": spec.tokens.data.task.name, **about}
        for experiment in ("one", "other")
        for run, spec in runs
    ]


def test_a_run_is_one_row_whoever_uses_it(store):
    table = tables.table_of_runs(store, planned(store))
    assert list(table["experiments"]) == ["one other", "one other"]
    assert list(table["run"]) == records.all_runs(store)


def test_all_that_decides_a_run_is_in_its_row(store):
    table = tables.table_of_runs(store, planned(store)).set_index("run")
    for run, row in table.iterrows():
        spec = records.read_spec(store, run)
        assert row["spec.recipe.learning_rate"] == row["learning_rate"] == 1e-2
        assert row["spec.selection"] == spec.selection.canonical()
        assert json.loads(row["spec.tokens.data.task.metrics"]) == list(
            spec.tokens.data.task.metrics
        )
        fields = {name.partition(".")[2] for name in table if name.startswith("spec.")}
        assert fields >= {f"recipe.{name}" for name in type(spec.recipe).model_fields}
        assert {"seed", "recipe_version", "tokens.max_length"} <= fields


def test_scores_times_and_places_are_those_of_the_record(store):
    table = tables.table_of_runs(store, planned(store)).set_index("run")
    for run, row in table.iterrows():
        assert row["seconds"] == records.seconds_of(records.read_epochs(store, run))
        assert row["epochs_trained"] == 2
        assert row["score"] == row[f"scores.validation.{row['metric']}"]
        assert row["record"] == str(store / run)
        assert row["curve"] in {"converged", "still rising", "fell"}
        assert row["device"] and row["versions.torch"] and row["recorded"].endswith("Z")


def test_every_column_has_one_meaning(store):
    columns = list(tables.table_of_runs(store, planned(store)))
    meaning = tables.meanings(columns)
    assert list(meaning["column"]) == columns


def test_a_column_without_a_meaning_is_refused(store, monkeypatch):
    monkeypatch.delitem(tables.COLUMNS, "spec.tokens.doc_stride")
    with pytest.raises(SubtuneError, match=r"found no meaning of spec\.tokens\.doc_stride"):
        tables.table_of_runs(store, planned(store))


def test_why_a_run_trained_alone_or_without_padding_is_in_its_row(store, tmp_path):
    copied = shutil.copytree(store, tmp_path / "runs")
    first, *_ = records.all_runs(copied)
    path = copied / first / "provenance.json"
    reasons = {"one_by_one": "vmap refuses", "without_padding": "it sees padding"}
    path.write_text(json.dumps(json.loads(path.read_text()) | reasons))
    write_checksums(path.parent)
    table = tables.table_of_runs(copied, planned(copied)).set_index("run")
    assert table.loc[first, list(reasons)].to_dict() == reasons
