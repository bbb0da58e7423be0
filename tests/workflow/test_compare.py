"""One call, from one table to the answer: every row judges once."""

import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from sklearn.ensemble import RandomForestClassifier
from transformers import AutoModelForSequenceClassification

import subtune
from subtune import cli
from subtune.comparison import first_configuration, loop
from subtune.comparison.workers import Workers
from subtune.config.checks import read_config
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.steps.snakemake_calls import snakemake_command
from tests.helpers.project import BIN, ROOT

FILE = ROOT / "examples" / "weather-train.csv"
TRAIN = pd.read_csv(FILE)
# Enough time for everything.
MINUTES = 5


def recorded(results: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in results.glob("runs/[!.]*")}


@contextmanager
def started(results: Path, model: Path) -> Iterator[subprocess.Popen]:
    """A comparison in a terminal that trains, with a model relative to the current folder."""
    options = ["--train", FILE, "--minutes", str(MINUTES), "--results", results]
    options += ["--model", os.path.relpath(model)]
    began = time.time()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([BIN / "subtune", "compare", *options], **pipes) as call:
        wait_for(lambda: any(log.stat().st_mtime > began for log in results.glob("logs/train/*")))
        assert call.poll() is None, call.communicate()
        yield call


def wait_for(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.1)


def is_unlocked(results: Path) -> bool:
    with (results / ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """The directory of the calls of this module, each of which goes on where the last has ended."""
    return tmp_path_factory.mktemp("compare") / "results"


@pytest.fixture(scope="module")
def early(results, tiny_bert):
    """The answer and the lines of a call that has time for nine runs, less those of its tables."""
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        # A clock that goes on by a minute with every run.
        elapsed_seconds = property(lambda clock: 60 * len(recorded(results)))
        patch.setattr(loop.TimeLimit, "elapsed_seconds", elapsed_seconds)
        patch.setattr(loop, "print_line", lines.append)
        found = subtune.compare(FILE, model=tiny_bert, minutes=9, results=results, say=print)
    return found.answer, lines, recorded(results), snakemake(results, "-n")


@pytest.fixture(scope="module")
def interrupted(early, results, tiny_bert):
    """What a call said that Ctrl-C stopped, and its exit status."""
    with started(results, tiny_bert) as call:
        call.send_signal(signal.SIGINT)
        said, lines = call.communicate(timeout=120)
    assert is_unlocked(results)
    return call.returncode, said, lines


@pytest.fixture(scope="module")
def killed(interrupted, results, tiny_bert):
    """A call that was killed, and left its workers to themselves."""
    with started(results, tiny_bert) as call:
        call.kill()
    wait_for(lambda: is_unlocked(results))
    return recorded(results)


@pytest.fixture(scope="module")
def completed(results, tiny_bert):
    """The lines of the last call, whose first worker that trained was killed.

    It goes on where the calls of the nightly tests before it have ended.
    """
    lines, start, found, before = [], Workers.start, [], recorded(results)

    def start_and_kill(workers, job, log):
        start(workers, job, log)
        if job.step == "train" and not found:
            found.append(job)
            [process] = [one for one, busy in workers._busy.items() if busy is job]
            process.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "start", start_and_kill)
        patch.setattr(loop, "print_line", lines.append)
        subtune.compare(FILE, model=tiny_bert, minutes=MINUTES, results=results, say=print)
    assert before.items() <= recorded(results).items()
    return lines


@pytest.mark.nightly
def test_at_the_end_of_the_time_what_is_there_is_judged(early):
    answer, lines, runs, _ = early
    # At most a fifth of the time is kept for tables.
    assert len(runs) >= 8
    assert answer.endswith(".") and len(answer.splitlines()) == 1
    assert any(re.match(r"[\d:]+ of [\d:]+  \d+ of \d+ runs.*; so far: \S", line) for line in lines)


@pytest.mark.nightly
def test_snakemake_trains_what_an_early_answer_lacks(early):
    *_, planned = early
    assert re.search(r"^train +[1-9]", planned, re.M) and re.search(r"^summary +1", planned, re.M)


@pytest.mark.nightly
def test_a_run_that_does_not_depend_on_the_seed_is_compared_on_every_seed(tiny_bert, tmp_path):
    train, dev = TRAIN.iloc[8:], TRAIN.iloc[:8]
    forest = {"trees": RandomForestClassifier(n_estimators=3)}
    call = {"model": tiny_bert, "minutes": 5, "results": tmp_path / "out", "baselines": forest}
    found = subtune.compare(train, dev, **call, say=print)
    methods = found.summary.set_index("method")
    assert list(methods["seeds"][["embeddings", "tf-idf", "constant", "trees"]]) == [5] * 4
    assert len(found.runs.query("method == 'trees'")["run"].unique()) == 5
    assert len(found.predict("trees", ["it rains"])) == 1
    [score] = found.runs.query("method == 'embeddings'")["score"]
    assert methods["score"]["embeddings"] == score


@pytest.mark.nightly
@pytest.mark.fault(
    "interruptions",
    "`compare` is interrupted or out of time",
    "an answer from recorded runs; a second Ctrl-C ends immediately",
)
def test_ctrl_c_asks_for_the_answer_so_far(interrupted, early):
    status, said, lines = interrupted
    assert status == 0
    assert " folds " in said and "/5 " in said
    assert "stopping: computing the answer from the recorded runs" in lines


@pytest.mark.nightly
@pytest.mark.fault("interruptions", "`compare` is killed", "workers write checkpoints and end")
def test_workers_end_with_the_call_that_started_them(killed, interrupted):
    assert killed


def test_a_job_whose_worker_was_killed_is_done_once_more(completed):
    assert any("ran out of memory; the job" in said for said in completed)


@pytest.fixture(scope="module")
def notebook(completed, results, tiny_bert):
    """The example, whose call finds everything done."""
    before = recorded(results)
    notebook = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if "compare(" in cell.source]
    own = f'train, dev, minutes=1, model="{tiny_bert}", results="results")'
    tables = re.compile(r"^train, dev = .*", re.M)
    cell.source = tables.sub(f'train, dev = "{FILE}", None', cell.source)
    cell.source = cell.source.replace("train, dev, minutes=1)", own)
    notebook.cells.append(nbformat.v4.new_code_cell("answer.front()"))
    place = {"metadata": {"path": results.parent}}
    NotebookClient(notebook, timeout=400, resources=place).execute()
    assert before == recorded(results)
    return notebook


@pytest.mark.nightly
def test_snakemake_finds_the_runs_recorded_and_makes_the_same_tables(completed, results):
    before, summary = recorded(results), (results / "summary.csv").read_text()
    snakemake(results, "-c2")
    assert recorded(results) == before
    assert (results / "summary.csv").read_text() == summary
    assert "Nothing to be done" in snakemake(results, "-n")


def test_a_call_finds_everything_recorded(completed, results, tiny_bert, capfd):
    before = recorded(results)
    subtune.compare(FILE, model=tiny_bert, minutes=MINUTES, results=results, say=print)
    assert re.search(r"^all \d+ runs are already recorded$", capfd.readouterr().err, re.M)
    assert recorded(results) == before


def snakemake(results: Path, *options: str) -> str:
    """Return what Snakemake says about a comparison's configuration."""
    command = snakemake_command(f"--configfile={results / 'comparison.yaml'}", *options)
    done = subprocess.run(command, cwd=results, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_second_call_on_the_same_results_is_refused(results, completed):
    with (results / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(SubtuneError, match=f"results: another process is using {results}"):
            subtune.compare(FILE, results=results)


@pytest.mark.nightly
@pytest.mark.fault(
    "interruptions",
    "a second `compare` or Snakemake on the same results",
    "rejected; file systems without locks, too",
)
def test_snakemake_is_refused_while_a_call_runs(results, completed):
    command = snakemake_command(f"--configfile={results / 'comparison.yaml'}", "-c1", "-R", "runs")
    with (results / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = subprocess.run(command, cwd=results, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"`subtune compare` is running in {results}; run this command again later" in done.stderr


@pytest.fixture
def answer(completed, results):
    return subtune.load(results)


@pytest.mark.nightly
def test_the_notebook_shows_the_answer(notebook):
    shown = notebook.cells[2].outputs[0].data["text/html"]
    assert "Full" in shown and "data:image/png;base64" in shown
    assert "image/png" in notebook.cells[-1].outputs[0].data
    # What it has committed was made by the same cells.
    committed = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    assert "data:image/png;base64" in committed.cells[2].outputs[0].data["text/html"]


def test_each_row_is_judged_once_by_each_method(answer):
    for _, runs in answer.runs.groupby("method"):
        assert sorted(runs["fold"]) == [0, 1, 2, 3, 4]
        store = answer.results / "runs"
        judged = [
            row
            for run in runs["run"]
            for row in records.read_recorded_predictions(store, run)["idx"]
        ]
        assert sorted(judged) == [*range(len(TRAIN))]
    assert {"full", "embeddings"} <= set(answer.summary["method"])


def test_an_export_trains_once_more_on_all_rows_and_finds_it_made(answer, tmp_path, capsys):
    AutoModelForSequenceClassification.from_pretrained(answer.export("bitfit", tmp_path / "model"))
    store = answer.results / "runs"
    specs = {run: records.read_spec(store, run) for run in records.list_run_ids(store)}
    [refit] = [run for run, spec in specs.items() if spec.recipe.refit]
    made = (store / refit / "spec.json").stat().st_mtime_ns
    folds = answer.runs[answer.runs["method"] == "bitfit"]
    place = tmp_path / "again"
    arguments = [folds["run"].iloc[0], "--to", str(place), "--results", str(answer.results)]
    assert cli.main(["export", *arguments]) == 0, capsys.readouterr().err
    assert (store / refit / "spec.json").stat().st_mtime_ns == made
    card = (place / "README.md").read_text()
    assert "retrained on the examples of all folds" in card
    assert f"| held-out folds | accuracy | {folds['score'].mean():.4f} |" in card
    predicted = answer.predict("bitfit", TRAIN["sentence"])["prediction"]
    assert predicted.index.equals(TRAIN.index)
    assert set(predicted) <= set(TRAIN["label"]) and len(predicted) == len(TRAIN)
    with pytest.raises(SubtuneError, match="did you mean 'bitfit'"):
        answer.export("bitfix", tmp_path / "other")
    to = tmp_path / "labels.csv"
    asked = [str(FILE), "--to", str(to), "--results", str(answer.results)]
    assert cli.main(["predict", "bitfit", *asked]) == 0, capsys.readouterr().err
    assert pd.read_csv(to)["prediction"].tolist() == predicted.tolist()
    assert cli.main(["predict", "bitfix", *asked]) == 1
    assert "did you mean 'bitfit'" in capsys.readouterr().err


@pytest.fixture
def undone(answer, tiny_bert, monkeypatch):
    """A function that calls again and returns the steps of the jobs that the call has to do."""
    found: list = []

    def look(context, clock, *_):
        state = loop.Loop(context, clock)
        state.read_scores()
        found.extend(job.step for job in state.next_jobs())

    monkeypatch.setattr(loop, "train_within_time_limit", look)

    def again(**changes):
        call = {"train": FILE, "model": str(tiny_bert), "minutes": 0.1, "results": answer.results}
        subtune.compare(**call | changes, say=print)
        return {*found}

    return again


def test_another_margin_trains_nothing(undone, answer):
    assert undone(margin=0.99) == set()


def test_predictions_that_come_later_train_nothing_and_are_compared(undone, answer):
    by_hand, folder = TRAIN["label"].rename("by hand"), answer.results / "predictions"
    for systems in ([by_hand, by_hand.rename("again")], by_hand):
        assert undone(predictions=systems) == set()
    file = folder / "by-hand.jsonl"
    assert pd.read_json(file, lines=True)["prediction"].tolist() == by_hand.tolist()
    [task] = read_config(answer.results / "comparison.yaml").tasks.values()
    assert task.predictions == {"by-hand": str(file)}


def test_a_model_may_be_relative_to_the_folder_of_a_call(undone, tiny_bert, monkeypatch):
    """The calls that were stopped had another current folder."""
    monkeypatch.chdir(tiny_bert.parent)
    assert undone(model=tiny_bert.name) == set()


def test_results_of_another_call_are_not_mixed(undone):
    with pytest.raises(SubtuneError, match=r"with a different value of kind"):
        undone(kind="regression")


def test_a_folder_that_was_moved_is_not_trained_in_its_old_place(undone, answer, results):
    moved = answer.results.rename(results.with_name("moved"))
    try:
        with pytest.raises(
            SubtuneError, match=r"moved was moved from .*; move it back to continue"
        ):
            undone(results=moved)
        assert not answer.results.exists()
    finally:
        moved.rename(answer.results)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"train": TRAIN.drop(columns="label")},
            "^label: cannot be guessed, because in train no column",
        ),
        ({"minutes": 0}, "^minutes: found 0, expected a positive number"),
        (
            {"dev": "20%"},
            "^dev: no such file: '20%', expected the path of a file, or a share of the training",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_call_that_is_refused_gets_one_line_and_leaves_nothing(asked, said, tmp_path):
    with pytest.raises(SubtuneError, match=said):
        subtune.compare(**{"train": TRAIN, "dev": TRAIN, "results": tmp_path / "new"} | asked)
    assert not any(tmp_path.iterdir())


@pytest.fixture(scope="module")
def sampled(tmp_path_factory, tiny_bert):
    """A comparison of two models on a sample of a table with authors, and its lines."""
    folder, lines = tmp_path_factory.mktemp("sampled"), []
    copied = shutil.copytree(tiny_bert, folder / "other")
    pairs = [*product(TRAIN.itertuples(), TRAIN["sentence"])]
    rows = [
        {"text": f"{row.sentence} {other} {n}", "label": row.label, "author": f"author {n % 60}"}
        for n, (row, other) in enumerate(random.Random(0).choices(pairs, k=1200))
    ]
    table = folder / "days.csv"
    pd.DataFrame(rows).to_csv(table, index=False)
    predictions = pd.Series([row["label"] for row in rows], name="oracle")
    with pytest.MonkeyPatch.context() as patch:
        # As if 500 rows took all of the time.
        patch.setattr(
            first_configuration,
            "estimate_seconds",
            lambda config, experiment, size, tokens: 1 if size.train_rows <= 500 else 10**9,
        )
        call = partial(
            subtune.compare,
            table,
            text="text",
            group="author",
            model=[tiny_bert, copied, "/no/model"],
            minutes=10,
            results=folder / "results",
            say=lines.append,
        )
        return call(predictions=predictions), lines, call


@pytest.mark.nightly
def test_a_sample_answers_for_two_models_and_for_predictions_of_the_user(sampled):
    answer, lines, _ = sampled
    said = "\n".join(lines)
    assert "model /no/model is left out" in said
    assert re.search(
        r"^a stratified sample of (4[5-9]\d|5[0-5]\d) of 1,200 rows: in each of 5 folds", said, re.M
    )
    models = {*answer.summary["model"]}
    assert "other" in models and len(models) == 2
    oracle = answer.summary.set_index("method").loc["oracle"]
    assert (
        (oracle["score"] == 1).all() if isinstance(oracle, pd.DataFrame) else oracle["score"] == 1
    )


@pytest.mark.nightly
@pytest.mark.fault(
    "data", "equal texts, or rows of one author (`--group`)", "on the same side of every split"
)
def test_authors_of_a_sample_are_on_one_side_of_a_division(sampled):
    answer, *_ = sampled
    sample = pd.read_json(answer.results / "sample" / "train.jsonl", lines=True)
    store = answer.results / "runs"
    for run in answer.runs["run"]:
        judged = {*records.read_recorded_predictions(store, run)["idx"]}
        inside = sample.index.isin(judged)
        assert {*sample["author"][inside]}.isdisjoint(sample["author"][~inside])


@pytest.mark.nightly
def test_a_suspect_label_has_its_row_in_the_whole_table(sampled):
    answer, *_ = sampled
    path = answer.results / "experiments" / "mine" / "suspects.csv"
    suspects = pd.read_csv(path)
    texts = pd.read_csv(answer.results.parent / "days.csv")["text"]
    assert len(suspects)
    # The first line has the names of the columns.
    assert suspects["text"].tolist() == texts[suspects["row"] - 2].tolist()


@pytest.mark.nightly
def test_a_refit_trains_on_the_rows_of_the_whole_table_that_fit(sampled, tmp_path, capfd):
    answer, *_ = sampled
    methods = answer.summary.query("trained > 0")["method"]
    answer.export(methods.iloc[0], tmp_path / "all", minutes=100)
    assert " on 1,200 of 1,200 examples" in capfd.readouterr().err
    answer.export(methods.iloc[0], tmp_path / "few", minutes=1e-6)
    assert re.search(r"on the \d{3} examples sampled from 1,200", capfd.readouterr().err)


@pytest.mark.nightly
def test_predictions_after_a_comparison_are_compared_without_training(sampled):
    answer, _, call = sampled
    runs = {path.name for path in (answer.results / "runs").iterdir()}
    table = pd.read_csv(answer.results.parent / "days.csv")
    opposite = table["label"].map({"weather": "other", "other": "weather"}).rename("opposite")
    assert not opposite.isna().any()
    again = call(predictions=[opposite, table["label"].rename("same")])
    scores = again.summary.groupby("method")["score"].first()
    assert (scores["opposite"], scores["same"]) == (0, 1)
    assert {path.name for path in (answer.results / "runs").iterdir()} == runs


@pytest.mark.fault("files", "Python files in the current folder", "not imported")
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
