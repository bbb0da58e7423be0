"""Planned runs, and the list of all records."""

import json
import shutil

import pandas as pd
import pytest

from subtune import cli
from subtune.analysis.runs import join_run_ids, list_runs, read_given_names
from subtune.methods import METHODS
from subtune.runs import records
from tests.helpers import examples
from tests.helpers.records import record, recorded


def test_planned_runs_get_the_runs_and_rates_that_they_became(tmp_path):
    (tmp_path / "sweep.csv").write_text("key,run,diverged\n111,222,False\n333,333,False\n")
    found = {"learning_rate": 0.1, "tried": [{"learning_rate": 0.1, "run": "444", "score": 0.5}]}
    (tmp_path / "s.json").write_text(json.dumps({"s": found}))
    planned = [
        {"key": "111", "search": "s", "learning_rate": None},
        {"key": "333", "search": None, "learning_rate": 0.2},
        {"key": "not trained yet", "search": None, "learning_rate": 0.3},
    ]
    first, second = join_run_ids(planned, [tmp_path / "sweep.csv"], [tmp_path / "s.json"])
    assert first == planned[0] | found | {"run": "222"}
    assert second == planned[1] | {"run": "333"}


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
    runs, _ = list_runs(results / "runs", read_given_names(str(results)))
    assert runs.set_index("run").loc[specs[0].id, ["model", "method"]].tolist() == [
        "NA",
        "mine, top 20%, cv",
    ]
    other = runs.set_index("run").loc[specs[1].id]
    assert other["model"].startswith("local ") and other["method"] == "layernorm"


@pytest.mark.parametrize("name", ["scores.json", "spec.json"])
def test_an_unreadable_record_is_named_and_the_others_are_listed(results, tmp_path, capsys, name):
    shutil.copytree(results / "runs", tmp_path / "runs")
    bad, *good = records.list_run_ids(tmp_path / "runs")
    (tmp_path / "runs" / bad / name).write_bytes(b'{"seed": 1}')
    assert runs(tmp_path, "--json") == 1
    printed = capsys.readouterr()
    assert {run["run"] for run in json.loads(printed.out)} == {*good}
    [line] = printed.err.splitlines()
    assert f"{name} is not what was recorded" in line and bad in line


def test_runs_are_listed_by_name_with_their_sizes(results, capsys):
    table = list_runs(results / "runs", {})[0].set_index("method")
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
    run = records.list_run_ids(tmp_path / "runs")[0]
    give_name(tmp_path, run, model="\x1b[31m", method="bitfit", fraction=1.0, scope="")
    assert runs(tmp_path) == 0
    printed = capsys.readouterr().out
    assert r"\x1b[31m" in printed and "\x1b" not in printed
