"""Tables of runs: declared columns, the table of all runs, and the list of all records."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from subtune import cli
from subtune.analysis.candidates import summarise_methods
from subtune.analysis.chosen_runs import CONVERGED, FELL, STILL_RISING
from subtune.analysis.tables import (
    DTYPES,
    column_declarations,
    column_meanings,
    list_runs,
    order_columns,
    read_table,
    table_of_runs,
)
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.exhibits.answer_tables import answers_table
from subtune.methods import METHODS
from subtune.runs import records
from subtune.runs.records import write_checksums
from subtune.runs.spec import Fold
from tests.helpers import examples
from tests.helpers.exhibits import NO_ROW_SCORES, results
from tests.helpers.records import record, recorded
from tests.unit.analysis.test_answer import runs

TABLES = ("runs", "scores", "summary", "answers")


def names(table):
    return [*column_declarations(table)["column"]]


@pytest.mark.parametrize("table", TABLES)
def test_a_column_is_declared_once_with_a_type_and_a_meaning(table):
    assert len(set(names(table))) == len(names(table)) > 20
    declared = column_declarations(table)
    assert {*declared["type"]} <= {*DTYPES} and declared["meaning"].all()


def test_the_tables_have_the_declared_columns_and_types(tmp_path):
    chosen = runs({"full": [0.9] * 3, "bitfit": [0.88, 0.89, 0.9]})
    summary = summarise_methods(chosen, NO_ROW_SCORES)
    answers = answers_table(results({"rte": "RTE"}, chosen=chosen)).table
    for name, table in {"summary": summary, "answers": answers}.items():
        assert list(table) == names(name)
        table.to_csv(tmp_path / "table.csv", index=False)
        again = read_table(tmp_path / "table.csv", name)
        types = {row.column: DTYPES[row.type] for row in column_declarations(name).itertuples()}
        assert again.dtypes.astype(str).to_dict() == types


def test_a_table_of_scores_has_no_column_that_is_not_declared():
    table = runs({"full": [0.9]})
    with pytest.raises(SubtuneError, match="no row declares undeclared of the table scores"):
        order_columns(table.assign(undeclared=1), "scores")
    assert list(order_columns(table, "scores"))[:2] == ["model", "task"]


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
    table = table_of_runs(store, planned(store))
    assert list(table["experiments"]) == ["one other", "one other"]
    assert list(table["run"]) == records.list_run_ids(store)
    assert list(column_meanings(list(table))["column"]) == list(table)
    with pytest.raises(SubtuneError, match="no row declares undeclared of the table runs"):
        table_of_runs(store, [planned(store)[0] | {"undeclared": 1}])


def test_a_row_has_all_that_decides_a_run_and_its_record(store):
    table = table_of_runs(store, planned(store)).set_index("run")
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


def test_why_a_run_trained_alone_or_unpadded_is_in_its_row(store, tmp_path):
    copied = shutil.copytree(store, tmp_path / "runs")
    first, *_ = records.list_run_ids(copied)
    path = copied / first / "provenance.json"
    reasons = {"one_by_one": "vmap refuses", "without_padding": "it sees padding"}
    path.write_text(json.dumps(json.loads(path.read_text()) | reasons))
    write_checksums(path.parent)
    table = table_of_runs(copied, planned(copied)).set_index("run")
    assert table.loc[first, list(reasons)].to_dict() == reasons


@pytest.fixture(scope="module")
def listed(tmp_path_factory, tiny_bert):
    """Results with three runs of one task, one of which diverged."""
    directory = tmp_path_factory.mktemp("results")
    recorded(directory, tiny_bert, METHODS["full"], learning_rate=1e30)
    for method in ("layernorm", "bitfit"):
        recorded(directory, tiny_bert, METHODS[method])
    return directory


def run_command(results, *options: str) -> int:
    return cli.main(["runs", "--results", str(results), *options])


def give_name(results, run: str, **names) -> None:
    """Write the scores of an experiment in which a run has these names."""
    path = Path(Layout(str(results)).data("one", "scores"))
    path.parent.mkdir(parents=True)
    pd.DataFrame([{"run": run} | names]).to_parquet(path, index=False)


@pytest.mark.parametrize("directory", ["results", "with [brackets] é"])
def test_runs_are_listed_under_the_names_that_a_configuration_gave(tmp_path, directory, tiny_bert):
    results = tmp_path / directory
    specs = [examples.run_spec(), examples.run_spec(learning_rate=0.5)]
    record(results / "runs", specs, tiny_bert)
    give_name(results, specs[0].id, model="NA", method="mine", fraction=0.2, scope="cv")
    broken = Path(Layout(str(results)).data("broken", "scores"))
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\xff,\n")
    runs, _ = list_runs(Layout(str(results)))
    assert runs.set_index("run").loc[specs[0].id, ["model", "method"]].tolist() == [
        "NA",
        "mine, top 20%, cv",
    ]
    other = runs.set_index("run").loc[specs[1].id]
    assert other["model"].startswith("local ") and other["method"] == "layernorm"


@pytest.mark.parametrize("name", ["scores.json", "spec.json"])
def test_an_unreadable_record_is_named_and_the_others_are_listed(listed, tmp_path, capsys, name):
    shutil.copytree(listed / "runs", tmp_path / "runs")
    bad, *good = records.list_run_ids(tmp_path / "runs")
    (tmp_path / "runs" / bad / name).write_bytes(b'{"seed": 1}')
    assert run_command(tmp_path, "--json") == 1
    printed = capsys.readouterr()
    assert {run["run"] for run in json.loads(printed.out)} == {*good}
    [line] = printed.err.splitlines()
    assert f"{name} has the wrong checksum" in line and bad in line


def test_runs_are_listed_by_name_with_their_sizes(listed, capsys):
    table = list_runs(Layout(str(listed)))[0].set_index("method")
    assert sorted(table.index) == ["bitfit", "full", "layernorm"]
    row = table.loc["layernorm"]
    assert row["trained"] == 2 * 2 * 32 + 66
    assert 4 * row["trained"] < row["delta_bytes"] < 8 * row["trained"]
    assert run_command(listed, "--method", "layernorm", "--json") == 0
    assert [run["run"] for run in json.loads(capsys.readouterr().out)] == [row["run"]]
    assert run_command(listed, "--method", "layernrom") == 1
    assert "did you mean 'layernorm'?" in capsys.readouterr().err


def test_the_list_of_runs_has_a_column_of_folds_only_if_there_are_folds(
    listed, tmp_path, tiny_bert, capsys
):
    folds = [examples.run_spec(fold=Fold(of=2, number=number)) for number in (1, 0)]
    record(tmp_path / "runs", folds, tiny_bert)
    assert list_runs(Layout(str(tmp_path)))[0]["fold"].tolist() == [0, 1]
    assert run_command(tmp_path) == 0
    assert "fold" in capsys.readouterr().out
    assert run_command(listed) == 0
    printed = capsys.readouterr().out
    assert not any(absent in printed for absent in ("fold", "nan", "NA"))


def test_names_in_results_from_elsewhere_are_spelled_out(listed, tmp_path, capsys):
    shutil.copytree(listed / "runs", tmp_path / "runs")
    run = records.list_run_ids(tmp_path / "runs")[0]
    give_name(tmp_path, run, model="\x1b[31m", method="bitfit", fraction=1.0, scope="")
    assert run_command(tmp_path) == 0
    printed = capsys.readouterr().out
    assert r"\x1b[31m" in printed and "\x1b" not in printed


def test_runs_that_tried_another_rate_are_listed_last(tmp_path, tiny_bert):
    rates = (1e-3, 0.5)
    low, high = (examples.run_spec(learning_rate=rate) for rate in rates)
    record(tmp_path / "runs", [low, high], tiny_bert)
    layout = Layout(str(tmp_path))
    path = Path(layout.data("one", "chosen"))
    path.parent.mkdir(parents=True)
    for chosen, order in (([], rates), ([high.id], rates[::-1]), ([low.id], rates)):
        pd.DataFrame({"run": chosen}).to_parquet(path, index=False)
        table, _ = list_runs(layout)
        assert table["learning_rate"].tolist() == [*order]
    assert "tried" not in table
