"""The workflow as a user runs it: an experiment end to end, and the jobs that each change plans."""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import yaml

import subtune
from subtune import cli
from subtune.config.checks import read_config
from subtune.core.errors import SubtuneError
from subtune.plan.cost import Estimates
from subtune.plan.plan import make_plan
from tests.helpers.project import (
    RETURNED,
    ROOT,
    SNAKEMAKE,
    TASK,
    Project,
    job_counts,
    printed,
)
from tests.helpers.tables import require_taken


@pytest.fixture(scope="module")
def project(finished_project, tmp_path_factory) -> Project:
    """A copy of the finished project that this module's tests may change."""
    return finished_project.copy(tmp_path_factory.mktemp("workflow") / "project")


@pytest.fixture
def folder(finished_project) -> Path:
    return finished_project.directory / "results" / "experiments" / "layernorm"


def test_everything_comes_out(finished_project, folder):
    for name in ("table1", "table2", "choices", "table4", "kruskal_wallis"):
        for ending in ("csv", "md", "tex"):
            assert (folder / f"{name}.{ending}").stat().st_size > 0
    for number in range(1, 6):
        assert (folder / f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"figure{number}.pdf").read_bytes().startswith(b"%PDF")
    # 2 tasks × (3 methods + 3 scopes)
    assert len(finished_project.records()) == 12


COMPUTING = {"datasets", "pandas", "scipy", "sklearn", "torch", "transformers"}
# The large packages that the jobs of each step may import.
IMPORTS = {
    "dataset": {"datasets", "pandas"},
    "model": set(),
    "tokens": {"datasets", "pandas"},
    "fisher": COMPUTING,
    "mask": set(),
    "train": COMPUTING,
    "scores": {"pandas", "scipy", "sklearn"},
    "test_predictions": COMPUTING,
    "submission": {"pandas"},
    "exhibits": {"matplotlib", "pandas", "scipy"},
    "summary": {"datasets", "evaluate", "matplotlib", "pandas", "scipy", "sklearn"},
    "runs": {"pandas"},
    "report_page": {"pandas"},
}


def test_jobs_import_only_what_they_need(finished_project):
    imported, large = {}, set().union(*IMPORTS.values())
    for line in (finished_project.directory / "imports.txt").read_text().splitlines():
        step, *names = line.split()
        imported[step] = imported.get(step, set()) | large & {*names}
    assert imported.keys() == IMPORTS.keys()
    assert all(names <= IMPORTS[step] for step, names in imported.items()), imported


@pytest.mark.nightly
def test_snakemakes_report_has_tables_figures_and_the_page(finished_project, tmp_path):
    report = tmp_path / "report.zip"
    finished_project.run(finished_project.config, "--report", str(report))
    with zipfile.ZipFile(report) as archive:
        page = archive.read("report/report.html").decode()
    for name in ("table1.csv", "figure1.png"):
        assert f'"results/experiments/layernorm/{name}"' in page
    assert '"results/report.html"' in page and '"results/front.png"' in page


def test_a_task_called_global_is_a_task(folder):
    data = folder / "data"
    shares = pd.read_csv(data / "layernorm_information.csv").groupby("task")["share"].sum()
    assert shares.to_dict() == pytest.approx({TASK: 1, "cola": 1})
    shares = pd.read_csv(data / "global_layernorm_information.csv").groupby("part")["share"].sum()
    assert shares.to_dict() == pytest.approx({"weight": 2, "bias": 2})


def test_nothing_is_to_be_done_after_a_run_even_if_the_clock_was_ahead(finished_project, tmp_path):
    """Nor after a script was edited, nor without Snakemake's notes: files say what is done."""
    copied = finished_project.copy(tmp_path / "project")
    shutil.rmtree(copied.directory / ".snakemake")
    for script in (copied.directory / "workflow" / "scripts").glob("*.py"):
        script.write_text(script.read_text() + "\n# A comment.\n")
    for path in copied.directory.rglob("*"):
        hour_later = path.lstat().st_mtime + 3600
        os.utime(path, (hour_later, hour_later), follow_symlinks=False)
    assert "Nothing to be done" in copied.run(copied.config, "-n")


@pytest.mark.nightly
@pytest.mark.fault(
    "files",
    "results are copied, moved or restored without time stamps",
    "only tables and figures are made again",
)
def test_copied_results_with_other_times_only_remake_what_is_made_of_records(
    finished_project, tmp_path
):
    """As after `scp -r results`, which keeps no times and leaves Snakemake's notes behind."""
    copied = finished_project.copy(tmp_path / "project")
    shutil.rmtree(copied.directory / ".snakemake")
    paths = [*(copied.directory / "results").rglob("*")]
    random.Random(0).shuffle(paths)
    for number, path in enumerate(paths):
        os.utime(path, (number, number), follow_symlinks=False)
    made_of_records = {"scores", "exhibits", "summary", "runs", "report_page"}
    assert {*copied.planned(copied.config)} <= made_of_records | {"test_predictions", "submission"}


@pytest.mark.nightly
@pytest.mark.fault(
    "interruptions",
    "settings change after a run",
    "only dependent results change; without `.snakemake`, use `--forcerun scores`",
)
def test_a_changed_setting_remakes_what_depends_on_it(project):
    config = project.changed()
    config["experiments"]["layernorm"]["margin"] = 0.1
    numbers = {"scores": 1, "exhibits": 1, "summary": 1, "report_page": 1}
    assert project.planned(config) == numbers | {"test_predictions": 1, "submission": 1}


@pytest.mark.nightly
def test_a_changed_caption_remakes_its_exhibits_only(finished_project, tmp_path):
    copied = finished_project.copy(tmp_path / "project")
    shutil.copytree(ROOT / "src", copied.directory / "src")
    copied.environment["PYTHONPATH"] = str(copied.directory / "src")
    captions = copied.directory / "src/subtune/papers/layernorm/__init__.py"
    captions.write_text(captions.read_text().replace('"Dev scores', '"Scores', 1))
    assert copied.planned(copied.config) == {"exhibits": 1, "report_page": 1}


@pytest.mark.nightly
def test_changed_numbers_remake_only_what_reads_them(project):
    path = project.directory / "results" / "data" / "layernorm" / "parameter_changes.parquet"
    before = path.read_bytes()
    path.write_bytes(before + b"\n")
    try:
        assert project.planned(project.config) == {"exhibits": 1, "report_page": 1}
    finally:
        path.write_bytes(before)


@pytest.mark.nightly
def test_corrected_test_scores_are_shown_though_their_file_is_older(finished_project, tmp_path):
    copied = finished_project.copy(tmp_path / "project")
    returned = copied.directory / "returned.csv"
    returned.write_text(returned.read_text().replace("12.5", "13.5"))
    os.utime(returned, (0, 0))
    assert copied.planned(copied.config) == {"exhibits": 1, "report_page": 1}


@pytest.mark.nightly
def test_tables_have_the_order_of_the_configuration_and_nothing_trains(finished_project, tmp_path):
    copied = finished_project.copy(tmp_path / "project")
    methods = dict(reversed(copied.config["experiments"]["layernorm"]["methods"].items()))
    copied.run(copied.changed(methods=methods), "--until", "exhibits")
    folder = copied.directory / "results" / "experiments" / "layernorm"
    table = pd.read_csv(folder / "table2.csv")
    ours = table[table["scores of"].str.startswith("this run")]
    assert ours["method"].tolist() == ["LayerNorm", "BitFit", "Full"]
    assert copied.records() == finished_project.records()


@pytest.mark.nightly
def test_a_new_learning_rate_trains_its_runs_only(project):
    before = project.records()
    methods = {"full": [1e-3], "bitfit": [1e-2, 3e-2], "layernorm": [1e-2]}
    # One task is enough.
    one_task = project.changed(methods=methods, tasks=[TASK], fractions=None)
    printed = project.run(one_task | {"test_scores": None}, "--until", "train")
    assert job_counts(printed) == {"train": 1, "total": 1}
    after = project.records()
    assert len(after) == len(before) + 1
    assert {run: after[run] for run in before} == before


@pytest.mark.nightly
@pytest.mark.fault(
    "data", "a table or model is edited after planning", "the job is rejected and writes nothing"
)
def test_a_file_that_is_edited_after_planning_is_refused_and_leaves_nothing(
    finished_project, tmp_path
):
    copied = finished_project.copy(tmp_path / "project")
    shutil.rmtree(copied.directory / "results")
    edit = "onstart:\n    shell(\"echo 'the cat is happy,happy' >> global-train.csv\")\n"
    with (copied.directory / "Snakefile").open("a") as file:
        file.write("\n\n" + edit)
    with pytest.raises(AssertionError) as error:
        config = copied.changed(tasks=[TASK], fractions=None) | {"test_scores": None}
        copied.run(config, "--until", "dataset", "--show-failed-logs")
    last = str(error.value).splitlines()[-1]
    assert re.match(
        r"dataset global-\w+ failed: .*global-train.csv, global-validation.csv: changed", last
    )
    assert not list((copied.directory / "results" / "datasets").glob("global-*"))


@pytest.mark.nightly
def test_a_configuration_that_is_edited_while_a_call_runs_changes_the_next_call(
    tmp_path, tiny_bert
):
    project = Project(tmp_path / "project", tiny_bert)
    with (project.directory / "Snakefile").open("a") as file:
        file.write("\n\nonstart:\n    shell('echo margin: 1 >> mine.yaml')\n")
    project.run(project.changed(fractions=None), "--until", "tokens")
    assert list((project.directory / "results" / "tokens").iterdir())
    assert "margin" in (project.directory / "mine.yaml").read_text()


@contextmanager
def waiting_call(project, output):
    """Remove an output and make it again in a call whose jobs start at the end of the block."""
    (project.directory / output).unlink()
    snakefile = project.directory / "Snakefile"
    wait = "    shell('touch waits; while [ ! -e start ]; do sleep 0.1; done')\n"
    snakefile.write_text(snakefile.read_text().replace("\n\nonsuccess:", f"{wait}\n\nonsuccess:"))
    with ThreadPoolExecutor() as calls:
        call = calls.submit(project.run, project.config, "--", output)
        while not (project.directory / "waits").exists():
            time.sleep(0.1)
        try:
            yield
        finally:
            (project.directory / "start").touch()
        call.result()
    assert (project.directory / output).exists()


@pytest.mark.nightly
def test_a_second_call_on_the_same_results_is_refused_and_the_first_goes_on(
    finished_project, tmp_path
):
    copied = finished_project.copy(tmp_path / "project")
    with (
        waiting_call(copied, "results/runs.csv"),
        pytest.raises(AssertionError, match="Error: Directory cannot be locked"),
    ):
        copied.run(copied.config, "--", "results/runs.csv")


@pytest.mark.nightly
def test_a_comparison_is_refused_while_a_call_runs(finished_project, tmp_path):
    """Though no comparison has been in these results before."""
    copied = finished_project.copy(tmp_path / "project")
    (copied.directory / "results" / ".lock").unlink()
    table = copied.directory / f"{TASK}-train.csv"
    with (
        waiting_call(copied, "results/runs.csv"),
        pytest.raises(SubtuneError, match="results: another process is using"),
    ):
        subtune.compare(table, results=copied.directory / "results")


@pytest.mark.nightly
def test_a_dry_run_beside_a_call_changes_nothing_for_it(finished_project, tmp_path):
    copied = finished_project.copy(tmp_path / "project")
    [sweep, *_] = copied.directory.glob(f"results/sweeps/{TASK}-*.csv")
    with waiting_call(copied, str(sweep.relative_to(copied.directory))):
        with (copied.directory / f"{TASK}-train.csv").open("a") as file:
            file.write("the quick dog is happy,happy\n")
        assert copied.planned(copied.config)["train"]


@pytest.mark.nightly
def test_a_lost_record_is_named_and_after_a_deletion_its_run_alone_trains_again(
    finished_project, tmp_path, monkeypatch, capsys
):
    copied = finished_project.copy(tmp_path / "project")
    before = copied.records()
    run = min(before)
    shutil.rmtree(copied.directory / "results" / "runs" / run)
    with pytest.raises(AssertionError) as error:
        copied.run(copied.config, "--forcerun", "runs", "--show-failed-logs")
    assert f"runs/{run} is missing; `subtune verify" in str(error.value)
    monkeypatch.chdir(copied.directory)
    assert cli.main(["verify", "--results", "results"]) == 1
    command = capsys.readouterr().err.splitlines()[-1]
    subprocess.run(shlex.split(command), check=True)
    assert cli.main(["plan", "mine.yaml"]) == 0
    assert "Recorded so far: 11 of 12 runs." in capsys.readouterr().out
    copied.run(copied.config, "--", "results/runs.csv")
    after = copied.records()
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {run}


def test_the_plan_compares_itself_with_what_was_measured(finished_project, monkeypatch, capsys):
    monkeypatch.chdir(finished_project.directory)
    assert cli.main(["plan", "mine.yaml"]) == 0
    text = capsys.readouterr().out
    assert "| layernorm" in text and "| pace of vectors" in text
    assert "Recorded so far: 12 of 12 runs." in text and "2 of 2 sweeps are done, and took" in text


def test_a_job_asks_for_more_memory_than_it_takes(finished_project, monkeypatch):
    monkeypatch.chdir(finished_project.directory)
    checked = read_config(Path("mine.yaml"))
    planned = make_plan(checked)
    estimates = Estimates(planned)
    for path in Path("results/benchmarks/train").glob("*.tsv"):
        took = float(pd.read_csv(path, sep="\t")["max_rss"].iloc[0])
        assert 200 < took < estimates.job_memory(planned.sweeps[path.stem][0].spec)


def test_an_experiment_with_the_name_of_a_rule_is_refused(project):
    experiments = {"train": project.config["experiments"]["layernorm"]}
    with pytest.raises(AssertionError, match=r"experiments\.train: this is the name of a rule"):
        project.run(project.config | {"experiments": experiments, "test_scores": None}, "-n")


NAME = """a 'b' "c" $(touch ran) & #ü (x); *"""


@pytest.mark.fault("models", "spaces or shell syntax in names of files", "never run as code")
def test_shell_syntax_in_a_name_is_not_run(tmp_path, tiny_bert):
    """The workflow, its Python, the model, the table and the results have such a name."""
    folder = tmp_path / NAME
    model = shutil.copytree(tiny_bert, folder / "model")
    project = Project(folder / "project", model)
    (folder / "environment").symlink_to(sys.prefix)
    project.snakemake[0] = folder / "environment" / "bin" / "python"
    config = project.changed(fractions=None) | {"results": NAME}
    project.run(config, "--until", "tokens")
    assert list((project.directory / NAME / "tokens").iterdir())
    assert not list(tmp_path.rglob("ran"))


def test_a_workflow_in_a_folder_with_braces_is_refused(tmp_path, tiny_bert):
    unrun = Project(tmp_path / "{x}", tiny_bert)
    with pytest.raises(AssertionError, match="Snakemake reads braces in the name of a folder"):
        unrun.run(unrun.changed(fractions=None), "-n")


@pytest.mark.nightly
def test_a_home_that_cannot_be_written_is_not_needed(tmp_path, tiny_bert, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    project = Project(tmp_path / "project", tiny_bert)
    project.environment["HOME"] = "/dev/null/home"
    project.run(project.changed(fractions=None), "--until", "tokens")


@pytest.mark.parametrize("option", ["--configfile", "--profile"])
def test_a_duplicate_key_is_found_in_every_file_that_snakemake_reads(tmp_path, tiny_bert, option):
    unrun = Project(tmp_path / "project", tiny_bert)
    (unrun.directory / "twice.yaml").write_text("config: {results: a}\ncores: 1\ncores: 1\n")
    with pytest.raises(AssertionError) as error:
        unrun.run(unrun.config, "-n", option, "twice.yaml")
    text = str(error.value)
    assert "twice.yaml: line 3: found 'cores' a second time (first in line 2)" in text
    assert "The configuration cannot be used:" in text and "Traceback" not in text


@pytest.mark.parametrize(
    ("profiles", "given"),
    [
        (["settings"], ["--config", "results=results/x"]),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (
                (["settings"], ["--config"]),
                (["settings", "container"], ["--config", "results=results/x"]),
                (["file"], ["--configfile", "part.yaml"]),
                (["file"], ["--config", "results=results/x"]),
            )
        ),
    ],
)
@pytest.mark.fault(
    "models", "`--config` and a profile with settings", "added to the profile's settings"
)
def test_what_a_call_gives_is_added_to_the_settings_of_its_profiles(
    tmp_path, tiny_bert, profiles, given
):
    """Otherwise, the experiments of ``config.yaml`` would be planned."""
    unrun = Project(tmp_path / "project", tiny_bert)
    own = unrun.changed(fractions={"values": [0.25], "scopes": ["individual"]})
    own["container"] = "own.sif"
    for path, content in {
        "settings": {"config": own},
        "container": {"config": {"container": "other.sif"}},
        "file": {"configfile": "own.yaml"},
        "own.yaml": own,
        "part.yaml": {"results": "results/x"},
    }.items():
        (unrun.directory / path).write_text(yaml.safe_dump(content))
    named = [word for name in profiles for word in ("--profile", name)]
    said = printed([*SNAKEMAKE, "-n", "-c1", *named, *given], unrun.directory)
    assert job_counts(said)["train"] == 1
    # The name of the plan is a hash; the other file is the plan's index.
    [plan] = (unrun.directory / "results").rglob(f"plans/{12 * '[0-9a-f]'}.json")
    assert plan.parent.parent.name == ("x" if len(given) > 1 else "results")
    expected = "other.sif" if "container" in profiles else "own.sif"
    assert json.loads(plan.read_text())["settings"]["container"] == expected


CALLER = """
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings
with SnakemakeApi(OutputSettings(dryrun=True)) as api:
    settings = ResourceSettings(cores=1), ConfigSettings(configfiles=[Path("own.yaml")])
    api.workflow(*settings, snakefile=Path("Snakefile")).dag().execute_workflow("dryrun")
"""


@pytest.mark.nightly
def test_a_program_with_arguments_of_its_own_can_call_the_workflow(tmp_path, tiny_bert):
    unrun = Project(tmp_path / "project", tiny_bert)
    own = unrun.changed(fractions={"values": [0.25], "scopes": ["individual"]})
    (unrun.directory / "own.yaml").write_text(yaml.safe_dump(own))
    said = printed([sys.executable, "-c", CALLER, "--own", "argument"], unrun.directory)
    assert job_counts(said)["train"] == 1


def test_every_method_has_a_zip_that_is_taken_and_its_constants_are_named(finished_project):
    submission = finished_project.directory / "results" / "submission" / "layernorm"
    contents = pd.read_csv(submission / "contents.csv")
    for method in RETURNED:
        require_taken(submission / f"{method}.zip")
        own = contents[contents["submission"] == f"{method}.zip"].set_index("file")["made of"]
        predicted = own.index[own.str.startswith("run ")]
        assert set(predicted) == {"CoLA.tsv"}
        assert own.drop(predicted).str.endswith("the task was not run").all()


def test_returned_scores_become_table_3_and_the_combined_test(folder):
    table = pd.read_csv(folder / "table3.csv")
    ours = table[table["scores of"].str.contains("test set")].set_index("method")
    assert ours.loc["BitFit", "CoLA"] == 0.125
    assert table["scores of"].str.startswith("paper").sum() == 3
    tests = pd.read_csv(folder / "kruskal_wallis.csv").set_index("scores")
    assert tests.loc["this run's table 2 + table 3", "n_bitfit"] == 2 + 1
    claims = pd.read_csv(folder / "data" / "claims.csv").set_index("claim")
    text = "Training only LayerNorm scores better than training only biases on some tasks"
    assert claims.loc[f"{text}, on test sets", "mean"] == pytest.approx(-0.125)
    beside = pd.read_csv(folder / "reproduction.csv").query("split == 'test'")
    assert sorted(beside["ours"].dropna()) == [0.0, 0.125, 0.2]


@pytest.mark.nightly
def test_giving_returned_scores_trains_nothing(finished_project, tmp_path):
    copied = finished_project.copy(tmp_path / "project")
    planned = copied.planned(copied.config | {"test_scores": None})
    assert not {"train", "test_predictions"} & planned.keys()


@pytest.mark.nightly
def test_where_every_run_diverges_everything_comes_out_and_says_so(tmp_path, tiny_bert):
    project = Project(tmp_path / "project", tiny_bert)
    # Each step subtracts 99,000 times the weights.
    grow = {"methods": {"full": [9.9], "bitfit": [9.9]}, "weight_decay": 1e4, "epochs": 4}
    settings = {"models": ["tiny"], "tasks": [TASK], "batch_size": 8, "max_length": 16}
    constant = {"schedule": "constant", "warmup": 0.0}
    project.run(project.config | {"experiments": {"mine": settings | grow | constant}})
    folder = project.directory / "results"
    for ending in ("csv", "md", "tex"):
        table = (folder / "experiments" / "mine" / f"scores.{ending}").read_text()
        assert table.count("diverged") == 2
    assert (folder / "runs.csv").read_text().count(",True,") == 2
    assert "diverged" in (folder / "report.html").read_text()
