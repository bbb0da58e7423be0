"""Tables of runs, and verdicts on learning curves worked out by hand."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.runs import records, tables
from subtune.runs.records import write_checksums
from subtune.runs.tables import CONVERGED, FELL, STILL_RISING, verdict
from subtune.selections.methods import METHODS
from tests.helpers import examples
from tests.helpers.records import record, recorded


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


def test_every_run_is_one_row_whose_columns_have_meanings(store):
    table = tables.table_of_runs(store, planned(store))
    assert list(table["experiments"]) == ["one other", "one other"]
    assert list(table["run"]) == records.all_runs(store)
    assert list(tables.meanings(list(table))["column"]) == list(table)


def test_a_row_has_all_that_decides_a_run_and_its_record(store):
    table = tables.table_of_runs(store, planned(store)).set_index("run")
    for run, row in table.iterrows():
        spec = records.read_spec(store, run)
        assert row["spec.recipe.learning_rate"] == row["learning_rate"] == 1e-2
        assert row["spec.selection"] == spec.selection.canonical()
        metrics = list(spec.tokens.data.task.metrics)
        assert json.loads(row["spec.tokens.data.task.metrics"]) == metrics
        fields = {name.removeprefix("spec.") for name in table if name.startswith("spec.")}
        assert fields >= {f"recipe.{name}" for name in type(spec.recipe).model_fields}
        assert {"seed", "recipe_version", "tokens.max_length"} <= fields
        assert row["seconds"] == records.seconds_of(records.read_epochs(store, run))
        assert row["epochs_trained"] == 2 and row["record"] == str(store / run)
        assert row["score"] == row[f"scores.validation.{metrics[0]}"]
        assert row["curve"] in {CONVERGED, STILL_RISING, FELL}
        assert row["device"] and row["versions.torch"] and row["recorded"].endswith("Z")


def test_a_column_without_a_meaning_is_refused(store, monkeypatch):
    monkeypatch.delitem(tables.COLUMNS, "spec.tokens.doc_stride")
    with pytest.raises(SubtuneError, match=r"found no meaning of spec\.tokens\.doc_stride"):
        tables.table_of_runs(store, planned(store))


def test_why_a_run_trained_alone_or_unpadded_is_in_its_row(store, tmp_path):
    copied = shutil.copytree(store, tmp_path / "runs")
    first, *_ = records.all_runs(copied)
    path = copied / first / "provenance.json"
    reasons = {"one_by_one": "vmap refuses", "without_padding": "it sees padding"}
    path.write_text(json.dumps(json.loads(path.read_text()) | reasons))
    write_checksums(path.parent)
    table = tables.table_of_runs(copied, planned(copied)).set_index("run")
    assert table.loc[first, list(reasons)].to_dict() == reasons


def test_planned_runs_get_the_runs_and_rates_that_they_became(tmp_path):
    (tmp_path / "sweep.csv").write_text("key,run,diverged\n111,222,False\n333,333,False\n")
    found = {"learning_rate": 0.1, "tried": [{"learning_rate": 0.1, "run": "444", "score": 0.5}]}
    (tmp_path / "s.json").write_text(json.dumps({"s": found}))
    planned = [
        {"key": "111", "search": "s", "learning_rate": None},
        {"key": "333", "search": None, "learning_rate": 0.2},
        {"key": "not trained yet", "search": None, "learning_rate": 0.3},
    ]
    first, second = tables.with_runs(planned, [tmp_path / "sweep.csv"], [tmp_path / "s.json"])
    assert first == planned[0] | found | {"run": "222"}
    assert second == planned[1] | {"run": "333"}


# The standard error of an accuracy of a half is 0.05.
ROWS = 100


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.5, 0.7, 0.8], STILL_RISING),
        ([0.5, 0.76, 0.8], CONVERGED),
        ([0.8, 0.7, 0.74], FELL),
        ([0.8, 0.7, 0.76], CONVERGED),
        # Over the last third, two epochs, the score rises by 0.06.
        ([0.1, 0.2, 0.3, 0.74, 0.77, 0.8], STILL_RISING),
        # The best epoch is in the last third.
        ([0.1, 0.2, 0.3, 0.4, 0.8, 0.7], CONVERGED),
        ([0.5, 0.8], STILL_RISING),
        ([0.8, 0.5], FELL),
        ([0.8], None),
    ],
)
def test_a_run_rises_or_falls_by_more_than_the_noise_of_its_rows(curve, expected):
    assert verdict([curve], ROWS) == expected


@pytest.mark.parametrize(
    ("rises", "expected"),
    # Their mean is 0.02, four standard errors: less than Student's 4.30 for three seeds.
    [
        ([0.019, 0.02, 0.021], STILL_RISING),
        ([0.0113, 0.02, 0.0287], CONVERGED),
        ([0.0121, 0.02, 0.0279], STILL_RISING),
    ],
)
def test_several_seeds_have_students_interval_whatever_the_rows(rises, expected):
    curves = [[0.5, 0.7, 0.7 + rise] for rise in rises]
    assert {verdict(curves, rows) for rows in (10, 10_000)} == {expected}


def test_two_seeds_are_too_few_for_an_interval():
    assert verdict([[0.7, 0.72], [0.7, 0.721]], ROWS) == CONVERGED


def test_runs_that_ended_early_are_aligned_at_their_last_epochs():
    curves = [[0.1, 0.2, 0.8, 0.5], [0.9, 0.6], [0.2, 0.8, 0.51]]
    assert verdict(curves, ROWS) == FELL
    assert verdict([curve[::-1] for curve in curves], ROWS) == CONVERGED


@pytest.mark.parametrize(("seeds", "epochs"), [(1, 3), (1, 8), (5, 3), (5, 8)])
def test_flat_curves_seldom_rise_or_fall(seeds, epochs):
    """The answers to a tenth of the rows are random in each epoch; the others do not change."""
    generator = np.random.default_rng(0)
    undecided = generator.binomial(ROWS // 10, 0.5, (1000, seeds, epochs))
    verdicts = [verdict(curves, ROWS) for curves in 0.7 + undecided / ROWS]
    assert verdicts.count(STILL_RISING) < 30
    assert verdicts.count(FELL) < 100


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny_bert):
    """Results with three runs of one task, one of which diverged."""
    results = tmp_path_factory.mktemp("results")
    recorded(results, tiny_bert, METHODS["full"], learning_rate=1e30)
    for method in ("layernorm", "bitfit"):
        recorded(results, tiny_bert, METHODS[method])
    return results


def runs(results, *options: str) -> int:
    return cli.main(["runs", "--results", str(results), *options])


def give_name(results, run: str, **names) -> None:
    """Write the scores of an experiment in which a run has these names."""
    path = results / "experiments" / "one" / "data" / "scores.csv"
    path.parent.mkdir(parents=True)
    pd.DataFrame([{"run": run} | names]).to_csv(path, index=False)


@pytest.mark.parametrize("directory", ["results", "with [brackets] é"])
def test_runs_are_listed_under_the_names_that_a_configuration_gave(tmp_path, directory, tiny_bert):
    results = tmp_path / directory
    specs = [examples.run_spec(), examples.run_spec(learning_rate=0.5)]
    record(results / "runs", specs, tiny_bert)
    give_name(results, specs[0].id, model="NA", method="mine", fraction=0.2, scope="cv")
    broken = results / "experiments" / "broken" / "data" / "scores.csv"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\xff,\n")
    runs, _ = tables.recorded_runs(results / "runs", tables.given_names(str(results)))
    assert runs.set_index("run").loc[specs[0].id, ["model", "method"]].tolist() == [
        "NA",
        "mine, top 20%, cv",
    ]
    other = runs.set_index("run").loc[specs[1].id]
    assert other["model"].startswith("local ") and other["method"] == "layernorm"


@pytest.mark.parametrize("name", ["scores.json", "spec.json"])
def test_an_unreadable_record_is_named_and_the_others_are_listed(results, tmp_path, capsys, name):
    shutil.copytree(results / "runs", tmp_path / "runs")
    bad, *good = records.all_runs(tmp_path / "runs")
    (tmp_path / "runs" / bad / name).write_bytes(b'{"seed": 1}')
    assert runs(tmp_path, "--json") == 1
    printed = capsys.readouterr()
    assert {run["run"] for run in json.loads(printed.out)} == {*good}
    [line] = printed.err.splitlines()
    assert f"{name} is not what was recorded" in line and bad in line


def test_runs_are_listed_by_name_with_their_sizes(results, capsys):
    table = tables.recorded_runs(results / "runs", {})[0].set_index("method")
    assert sorted(table.index) == ["bitfit", "full", "layernorm"]
    row = table.loc["layernorm"]
    assert row["trained"] == 2 * 2 * 32 + 66
    assert 4 * row["trained"] < row["delta_bytes"] < 8 * row["trained"]
    assert runs(results, "--method", "layernorm", "--json") == 0
    assert [run["run"] for run in json.loads(capsys.readouterr().out)] == [row["run"]]
    assert runs(results, "--method", "layernrom") == 1
    assert "did you mean 'layernorm'?" in capsys.readouterr().err


def test_names_in_results_from_elsewhere_are_spelled_out(results, tmp_path, capsys):
    shutil.copytree(results / "runs", tmp_path / "runs")
    run = records.all_runs(tmp_path / "runs")[0]
    give_name(tmp_path, run, model="\x1b[31m", method="bitfit", fraction=1.0, scope="")
    assert runs(tmp_path) == 0
    printed = capsys.readouterr().out
    assert r"\x1b[31m" in printed and "\x1b" not in printed
