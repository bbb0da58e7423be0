"""One call, from one table to the answer: every row judges once."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from transformers import AutoModelForSequenceClassification

import subtune
from subtune import cli, config
from subtune.core.errors import SubtuneError
from subtune.core.layout import snakemake_command
from subtune.interface import workflow
from subtune.runs import records
from tests.helpers.project import BIN, ROOT

FILE = ROOT / "examples" / "weather-train.csv"
TRAIN = pd.read_csv(FILE)


def recorded(results: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in results.glob("runs/[!.]*")}


def started(results: Path, model: Path, said: Path) -> subprocess.Popen:
    """Start a comparison in a terminal's way, with a model relative to the current folder."""
    options = ["--train", FILE, "--minutes", "0.1", "--results", results]
    options += ["--model", os.path.relpath(model)]
    with said.open("w") as file:
        return subprocess.Popen([BIN / "subtune", "compare", *options], stderr=file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module", params=["SIGTERM", "two Ctrl-C"])
def stopped(request, folder, tiny_bert):
    """What a call has said that was stopped while it trained, and the log of its jobs."""
    said, log = folder / "said.txt", folder / "results" / "snakemake.log"
    call = started(folder / "results", tiny_bert, said)
    before = log.stat().st_size if log.exists() else 0
    while not (log.exists() and "rule train" in log.read_text()[before:]):
        assert call.poll() is None
        time.sleep(0.2)
    call.send_signal(signal.SIGTERM if request.param == "SIGTERM" else signal.SIGINT)
    if request.param == "two Ctrl-C":
        time.sleep(0.5)
        call.send_signal(signal.SIGINT)
    call.wait(timeout=60)
    return said.read_text(), log


def test_what_stops_the_command_stops_its_jobs(stopped):
    said, log = stopped
    assert "stopped; the same command continues from here" in said
    # No process holds the file that is the lock of a call.
    with log.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.fixture(scope="module")
def notebook(folder, tiny_bert):
    """The example, which calls again after a call was killed while it trained."""
    results = folder / "results"
    call = started(results, tiny_bert, folder / "killed.txt")
    while not recorded(results):
        assert call.poll() is None
        time.sleep(0.2)
    call.kill()
    call.wait()
    before = recorded(results)
    notebook = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if "compare(" in cell.source]
    own = f'train, dev, minutes=0.1, model="{tiny_bert}", results="results")'
    tables = re.compile(r"^train, dev = .*", re.M)
    cell.source = tables.sub(f'train, dev = "{FILE}", None', cell.source)
    cell.source = cell.source.replace("train, dev, minutes=1)", own)
    notebook.cells.append(nbformat.v4.new_code_cell("answer.front()"))
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": folder}}).execute()
    after = recorded(results)
    assert before and before.items() <= after.items()
    return notebook


@pytest.fixture
def answer(notebook, folder):
    return subtune.load(folder / "results")


def test_a_call_that_was_killed_goes_on_where_it_was(answer):
    assert "full" in answer.answer


def test_the_notebook_shows_the_answer(notebook):
    shown = notebook.cells[2].outputs[0].data["text/html"]
    assert "full" in shown and "data:image/png;base64" in shown
    assert "image/png" in notebook.cells[-1].outputs[0].data
    # What it has committed was made by the same cells.
    committed = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    assert "data:image/png;base64" in committed.cells[2].outputs[0].data["text/html"]


def test_each_row_is_judged_once_by_each_method(answer):
    for _, runs in answer.runs.groupby("method"):
        assert sorted(runs["fold"]) == [0, 1, 2, 3, 4]
        store = answer.results / "runs"
        judged = [row for run in runs["run"] for row in records.read_predictions(store, run)["idx"]]
        assert sorted(judged) == [*range(len(TRAIN))]
    assert {"full", "embeddings"} <= set(answer.summary["method"])


def test_an_export_trains_once_more_on_all_rows_and_finds_it_made(answer, tmp_path, capsys):
    AutoModelForSequenceClassification.from_pretrained(answer.export("bitfit", tmp_path / "model"))
    store = answer.results / "runs"
    specs = {run: records.read_spec(store, run) for run in records.all_runs(store)}
    [refit] = [run for run, spec in specs.items() if spec.recipe.refit]
    made = (store / refit / "spec.json").stat().st_mtime_ns
    folds = answer.runs[answer.runs["method"] == "bitfit"]
    place = tmp_path / "again"
    arguments = [folds["run"].iloc[0], "--to", str(place), "--results", str(answer.results)]
    assert cli.main(["export", *arguments]) == 0, capsys.readouterr().err
    assert (store / refit / "spec.json").stat().st_mtime_ns == made
    card = (place / "README.md").read_text()
    assert "trained once more on the rows of all folds" in card
    assert f"| validation | accuracy | {folds['score'].mean():.4f} |" in card
    predicted = answer.predict("bitfit", TRAIN["sentence"])["prediction"]
    assert predicted.index.equals(TRAIN.index)
    assert set(predicted) <= set(TRAIN["label"]) and len(predicted) == len(TRAIN)
    with pytest.raises(SubtuneError, match="did you mean 'bitfit'"):
        answer.export("bitfix", tmp_path / "other")


@pytest.fixture
def planned(answer, tiny_bert, monkeypatch):
    """A function that calls again and returns the runs that the call has."""
    found: list = []

    def train_all(configuration, *_):
        found.extend(workflow.preflight(config.read(configuration))[1].runs)

    monkeypatch.setattr(workflow, "train_all", train_all)

    def again(**changes):
        call = {"train": FILE, "model": str(tiny_bert), "minutes": 0.1, "results": answer.results}
        subtune.compare(**call | changes, say=print)
        return found

    return again


def test_another_margin_trains_nothing(planned, answer):
    runs = planned(margin=0.99)
    assert runs and {*runs} <= recorded(answer.results).keys()
    assert "margin: 0.99" in (answer.results / "comparison.yaml").read_text()


def test_a_model_may_be_relative_to_the_folder_of_a_call(planned, answer, tiny_bert, monkeypatch):
    """The call that was killed had another current folder."""
    monkeypatch.chdir(tiny_bert.parent)
    runs = planned(model=tiny_bert.name)
    assert runs and {*runs} <= recorded(answer.results).keys()


def test_results_of_another_call_are_not_mixed(planned):
    with pytest.raises(SubtuneError, match=r"results of a call with other minutes"):
        planned(minutes=5)


def test_a_folder_that_was_moved_is_not_trained_in_its_old_place(planned, answer, folder):
    moved = answer.results.rename(folder / "moved")
    try:
        with pytest.raises(SubtuneError, match=r"moved was .* before; move it back to continue"):
            planned(results=moved)
        assert not answer.results.exists()
    finally:
        moved.rename(answer.results)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"train": TRAIN.drop(columns="label")}, "^label: missing, and of the columns of"),
        ({"minutes": 0}, "^minutes: found 0, expected a positive number"),
        ({"dev": "20%"}, "^dev: found no file '20%', expected one, or a share of the training"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_call_that_is_refused_gets_one_line_and_leaves_nothing(asked, said, tmp_path):
    with pytest.raises(SubtuneError, match=said):
        subtune.compare(**{"train": TRAIN, "dev": TRAIN, "results": tmp_path / "new"} | asked)
    assert not any(tmp_path.iterdir())


def test_python_files_of_the_folder_are_not_imported(tmp_path):
    (tmp_path / "html.py").write_text("raise SystemExit('a file of the folder')\n")
    command = snakemake_command("--version")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SubtuneError, match="results: cannot write"):
        subtune.compare(TRAIN, TRAIN, results=tmp_path / "new")


def test_importing_subtune_imports_no_library():
    code = "import sys, subtune; print(sorted({'torch', 'pandas', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n"
