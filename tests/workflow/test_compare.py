"""One call, from tables to the answer."""

import fcntl
import os
import re
import shutil
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
from subtune.core.errors import SubtuneError
from subtune.core.workflow_files import snakemake_command
from subtune.runs.predict import exported_spec
from subtune.runs.records import read_predictions
from tests.helpers.project import ROOT

TRAIN, DEV = (pd.read_csv(ROOT / "examples" / f"weather-{split}.csv") for split in ("train", "dev"))
CALL = """
import pandas as pd, subtune
train, dev = (pd.read_csv(f"{root}/examples/weather-{{split}}.csv") for split in ("train", "dev"))
print(subtune.compare(train, dev, model="{model}", minutes=0.1).answer)
"""


def records(folder) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("results/*/runs/[!.]*")}


@pytest.fixture(scope="module")
def killed_and_called_again(tmp_path_factory, tiny_bert):
    """A folder in which a call was killed while it trained, then called again, then once more."""
    folder = tmp_path_factory.mktemp("compare")
    command = [sys.executable, "-c", CALL.format(root=ROOT, model=tiny_bert)]
    with (
        (folder / "said.txt").open("w") as said,
        subprocess.Popen(command, cwd=folder, stderr=said, start_new_session=True) as call,
    ):
        while not records(folder):
            assert call.poll() is None
            time.sleep(0.2)
        call.kill()
    before = records(folder)
    for interrupted in (True, False):
        call = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        if interrupted:
            time.sleep(8)
            call.send_signal(signal.SIGINT)
        printed, _ = call.communicate(timeout=400)
    assert call.returncode == 0
    return folder, before, printed


def test_a_call_that_was_killed_goes_on_where_it_was(killed_and_called_again):
    folder, before, printed = killed_and_called_again
    after = records(folder)
    assert before and before.items() <= after.items()
    assert "full" in printed.splitlines()[-1]


def test_a_call_without_a_terminal_says_how_far_it_is(killed_and_called_again):
    said = (killed_and_called_again[0] / "said.txt").read_text()
    begins = r"00:00  0 of \d+ jobs, 0 of \d+ runs, .* of training by the plan\n"
    assert re.match(begins, said), said


def test_the_results_are_objects_to_work_with(killed_and_called_again, tmp_path):
    folder, _, printed = killed_and_called_again
    [results] = folder.glob("results/*")
    answer = subtune.load(results)
    assert answer.answer == printed.splitlines()[-1]
    assert {"full", "bitfit"} <= set(answer.summary["method"])
    assert answer.runs["run"].is_unique
    assert answer.report.is_file()
    assert answer.front().axes
    assert "<table>" in answer._repr_html_()
    model = answer.export("bitfit", tmp_path / "model")
    AutoModelForSequenceClassification.from_pretrained(model)
    run = exported_spec(model)
    predicted = answer.predict("bitfit", DEV)["prediction"].tolist()
    table = pd.DataFrame(read_predictions(results / "runs", run.id))
    logits = table[table["split"] == "validation"].filter(like="logit_").to_numpy()
    assert predicted == [run.tokens.data.task.labels[k] for k in logits.argmax(axis=1)]
    [text] = run.tokens.data.task.text
    assert answer.predict("bitfit", DEV[text])["prediction"].tolist() == predicted
    with pytest.raises(SubtuneError, match="did you mean 'bitfit'"):
        answer.export("bitfix", tmp_path / "other")


def test_the_same_call_finds_everything_done(killed_and_called_again, tiny_bert, monkeypatch):
    folder = killed_and_called_again[0]
    monkeypatch.chdir(folder)
    before = records(folder)
    subtune.compare(TRAIN, DEV, model=str(tiny_bert), minutes=0.1)
    assert records(folder) == before


def test_the_notebook_shows_the_answer(killed_and_called_again, tiny_bert):
    """It calls as the fixture did, so it finds everything done."""
    folder = killed_and_called_again[0]
    for path in ROOT.glob("examples/weather-*.csv"):
        shutil.copy(path, folder)
    before = records(folder)
    notebook = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    [call] = [cell for cell in notebook.cells if "compare(" in cell.source]
    assert "minutes=1)" in call.source
    call.source = call.source.replace("minutes=1)", f'minutes=0.1, model="{tiny_bert}")')
    notebook.cells.append(nbformat.v4.new_code_cell("answer.front()"))
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": folder}}).execute()
    assert records(folder) == before
    shown = notebook.cells[2].outputs[0].data["text/html"]
    assert "full" in shown and "data:image/png;base64" in shown
    assert "image/png" in notebook.cells[-1].outputs[0].data
    # What it has committed was made by the same cells.
    committed = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    assert "data:image/png;base64" in committed.cells[2].outputs[0].data["text/html"]


def test_another_margin_trains_nothing_and_may_change_the_answer(
    killed_and_called_again, tiny_bert, monkeypatch
):
    folder = killed_and_called_again[0]
    monkeypatch.chdir(folder)
    before = records(folder)
    answer = subtune.compare(TRAIN, DEV, model=str(tiny_bert), minutes=0.1, margin=0.99).answer
    assert records(folder) == before
    assert answer.startswith("Train ") and "Train everything" not in answer


def test_results_of_another_call_are_not_mixed(killed_and_called_again, tiny_bert):
    [results] = killed_and_called_again[0].glob("results/*")
    with pytest.raises(SubtuneError, match=r"results of a call with other minutes"):
        subtune.compare(TRAIN, DEV, model=str(tiny_bert), minutes=5, results=results)


def test_a_folder_that_was_moved_is_not_trained_in_its_old_place(
    killed_and_called_again, tiny_bert
):
    folder = killed_and_called_again[0]
    [results] = folder.glob("results/*")
    moved = results.rename(folder / "moved")
    try:
        with pytest.raises(SubtuneError, match=r"moved was .* before; move it back to go on"):
            subtune.compare(TRAIN, DEV, model=str(tiny_bert), minutes=0.1, results=moved)
        assert not results.exists()
    finally:
        moved.rename(results)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"train": TRAIN.drop(columns="label")}, "^label: missing, and of the columns of"),
        ({"minutes": 0}, "^minutes: found 0, expected a positive number"),
        ({"minutes": float("nan")}, "^minutes: found nan, expected a positive number"),
        ({"minutes": "ten"}, "^minutes: found ten, expected a positive number"),
        ({"kind": "clasification"}, "^kind: found 'clasification', expected one of classification"),
        ({"margin": 0}, "^margin: found 0, expected a score between 0 and 1, such as 0.02"),
        ({"margin": 2}, "^margin: found 2, expected a score between 0 and 1"),
        ({"model": "pyproject.toml"}, "^model: found the file 'pyproject.toml', expected a direct"),
        ({"dev": "20%"}, "^dev: found no file '20%', expected one, or a share of the training"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_call_that_is_refused_gets_one_line_and_leaves_nothing(
    asked, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SubtuneError, match=said):
        subtune.compare(**{"train": TRAIN, "dev": DEV, "results": tmp_path / "new"} | asked)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "two Ctrl-C"])
def test_what_stops_the_command_stops_its_jobs(number, tmp_path, tiny_bert):
    options = [f"--{split}={ROOT}/examples/weather-{split}.csv" for split in ("train", "dev")]
    options += [f"--model={tiny_bert}", "--minutes=0.1", f"--results={tmp_path / 'r'}"]
    call = subprocess.Popen(
        [Path(sys.executable).with_name("subtune"), "compare", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    log = tmp_path / "r" / "snakemake.log"
    while not (log.exists() and "rule train" in log.read_text()):
        assert call.poll() is None
        time.sleep(0.2)
    call.send_signal(number)
    if number == signal.SIGINT:
        time.sleep(0.5)
        call.send_signal(number)
    said = call.communicate(timeout=60)[1]
    assert "stopped; the same call goes on from here" in said
    # No process holds the file that is the lock of a call.
    with log.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_python_files_of_the_folder_are_not_imported(tmp_path):
    (tmp_path / "html.py").write_text("raise SystemExit('a file of the folder')\n")
    command = snakemake_command("--version")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SubtuneError, match="results: cannot write"):
        subtune.compare(TRAIN, DEV, results=tmp_path / "new")


def test_importing_subtune_imports_no_library():
    code = "import sys, subtune; print(sorted({'torch', 'pandas', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n"
