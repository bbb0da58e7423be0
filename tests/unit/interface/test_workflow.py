"""Mistakes that are found before anything runs, runs to export, and a call's progress."""

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.interface import workflow
from subtune.interface.workflow import (
    Failure,
    Jobs,
    failures_in_lines,
    is_refused,
    progress_line,
    run_to_export,
    say_progress,
    seconds_left,
    train_all,
    waiting_in_slurm,
)
from subtune.selections.specs import Fold
from tests.helpers import examples
from tests.helpers.records import record
from tests.helpers.tables import write

ROWS = [{"sentence": f"a sentence {n}", "label": "good" if n % 2 else "bad"} for n in range(8)]


@pytest.fixture
def settings(tmp_path, monkeypatch, minilm):
    monkeypatch.chdir(tmp_path)
    files = {split: f"{split}.csv" for split in ("train", "validation")}
    for name in files.values():
        write(tmp_path / name, tuple(ROWS[0]), ROWS)
    task = {"text": ["sentence"], "labels": ["bad", "good"], "metrics": ["accuracy"]}
    experiment = {"models": ["minilm"], "tasks": ["mine"], "methods": {"bitfit": [1e-3]}}
    return {
        "source": "builtin",
        "models": {"minilm": {"path": str(minilm)}},
        "tasks": {"mine": {"files": files} | task},
        "experiments": {"first": experiment | {"epochs": 1, "batch_size": 4}},
    }


@pytest.fixture
def checked(settings, capsys):
    """A function that returns the status and output of `subtune check` for the settings."""

    def check():
        with open("mine.yaml", "w") as file:
            yaml.safe_dump(settings, file)
        status = cli.main(["check", "mine.yaml"])
        said = capsys.readouterr()
        return status, said.out + said.err

    return check


def test_a_tokenizer_that_knows_no_word_of_a_table_is_a_problem(checked, settings, minilm):
    shutil.copytree(minilm, "mine")
    Path("mine", "tokenizer.json").unlink()
    Path("mine", "vocab.txt").rename("mine/spm.model")
    settings["models"] = {"minilm": {"path": "mine"}}
    status, said = checked()
    assert status == 1
    assert said.startswith("models.minilm: mine: the tokenizer has no token for any word of ")


def test_a_configuration_that_can_run_has_no_problems(checked):
    assert checked() == (0, "mine.yaml: 1 experiment(s), 1 run(s), no problems found\n")


CASES = {
    "no such column": (
        lambda s: s["tasks"]["mine"].update(text=["sentense"]),
        "train.csv: line 2: no such column: found 'sentense', expected one of sentence, label",
    ),
    "a method of more layers than the model has": (
        lambda s: s["experiments"]["first"]["methods"].update({"SPAFIT-4-9-I": [1e-3]}),
        "'SPAFIT-4-9-I' of model 'minilm' on task 'mine': selection: pattern",
    ),
    "results in the place of a file": (
        lambda s: s.update(results="train.csv/runs"),
        "results: found the file 'train.csv', expected a directory",
    ),
}


@pytest.mark.parametrize(("change", "message"), CASES.values(), ids=CASES)
def test_a_configuration_that_cannot_run_gets_one_line(settings, checked, change, message):
    change(settings)
    status, said = checked()
    assert status == 1
    assert message in said
    assert len(said.splitlines()) == 1


def test_a_call_without_space_for_temporary_files_gets_one_line(settings, monkeypatch, capsys):
    (Path.cwd() / "mine.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**16))
    assert cli.main(["run", "mine.yaml", "-n"]) == 1
    assert re.fullmatch(r"TMPDIR: \S+ is full; free some space or .*\n", capsys.readouterr().err)


def test_a_hub_that_cannot_be_reached_is_no_mistake(settings, checked, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:9")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://localhost:9")
    settings["models"]["minilm"] = {"hub": "someone/some-encoder"}
    status, said = checked()
    assert status == 0
    assert (
        "no problems found, but not everything could be checked: models.minilm.revision: " in said
    )


@pytest.fixture
def runs(tmp_path, tiny_bert):
    """A chosen run of a fold, a run that was not chosen, and a run without a fold."""
    plain = examples.run_spec()
    fold, other = (
        plain.replaced(recipe=plain.recipe.replaced(fold=Fold(of=2, number=0), learning_rate=rate))
        for rate in (1e-2, 1e-3)
    )
    record(tmp_path / "runs", [fold, other, plain], tiny_bert)
    path = tmp_path / Layout(".").data("mine", "chosen")
    path.parent.mkdir(parents=True)
    path.write_text(f"run,model,task,method\n{fold.id},tiny,sst2,layernorm\n")
    return fold.id, other.id, plain.id


@pytest.fixture
def exported(tmp_path):
    """A function that returns the run to export for a run and a configuration."""
    experiment = {"models": ["tiny"], "tasks": ["sst2"], "methods": {"layernorm": [1e-2]}}
    written = {
        "results": str(tmp_path),
        "models": {"tiny": {"path": "."}},
        "experiments": {"mine": experiment | {"epochs": 1, "batch_size": 4}},
    }

    def exported(run, path="mine.yaml", **changes):
        if path == "mine.yaml":
            (tmp_path / path).write_text(yaml.safe_dump(written | changes))
        return run_to_export(tmp_path, run, tmp_path / path, tmp_path)

    return exported


def test_a_run_that_is_not_of_cross_validation_is_exported_itself(runs, exported):
    assert exported(runs[2], "none.yaml") == runs[2]


def test_the_run_that_snakemake_made_is_exported(runs, exported, tmp_path, monkeypatch):
    fold, _, plain = runs
    made = tmp_path / "experiments/mine/data/refit/tiny/sst2/layernorm.csv"

    def train_all(of, results, directory, targets):
        # The table of a run that is not recorded was removed.
        assert not made.exists() and targets == [str(made)]
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"run,model\n{plain},tiny\n")

    monkeypatch.setattr(workflow, "train_all", train_all)
    assert exported(fold) == plain
    made.write_text("run,model\n000000000000,tiny\n")
    assert exported(fold) == plain


def test_a_run_that_cannot_be_exported_gets_one_line(runs, exported):
    fold, other, _ = runs
    with pytest.raises(SubtuneError, match=r"with its method's chosen learning rate[^\n]*$"):
        exported(other)
    with pytest.raises(SubtuneError, match=r"--config: found .* with the results other, [^\n]*$"):
        exported(fold, results="other")
    with pytest.raises(
        SubtuneError, match=r"found no .*none.yaml, expected the run's config[^\n]*$"
    ):
        exported(fold, "none.yaml")


PLANNED = {"a": 60.0, "b": 60.0, "c": 60.0, "d": 60.0}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            (3700, Jobs(18, 52, 0), 82, 83, 20, True),
            "1:01:40  18 of 52 jobs, 82 of 83 runs, less than a minute of training left",
        ),
        (
            (90, Jobs(18, 52, 1), 24, 83, 250, True),
            "01:30  18 of 52 jobs, 1 failed, 24 of 83 runs",
        ),
        ((90, Jobs(1, 2, 0), 0, 0, 0, False), "01:30  1 of 2 jobs"),
        ((90, Jobs(1, 2, 0, "1 wait"), 0, 0, 0, False), "01:30  1 of 2 jobs, 1 wait"),
    ],
)
def test_a_line_says_jobs_runs_and_the_time_that_training_takes(arguments, line):
    assert progress_line(*arguments) == line


@pytest.mark.parametrize(
    ("missing", "seconds", "left"),
    [
        # The plan has two jobs at once.
        ("abcd", 30, 120),
        # One of four runs took 90 seconds; the plan counts as one more run, with 30 seconds.
        ("bcd", 90, 180),
        ("d", 90, 30),
        ("", 90, 0),
    ],
)
def test_the_time_left_is_that_of_the_plan_at_the_pace_of_the_runs(missing, seconds, left):
    rest = {run: PLANNED[run] for run in missing}
    assert seconds_left(PLANNED, rest, seconds, at_once=2) == pytest.approx(left)


def test_lines_come_every_half_minute_until_all_jobs_are_done(monkeypatch, tmp_path):
    clock, recorded_at = SimpleNamespace(now=0), {"a": 0, "b": 40, "c": 75}

    def sleep(seconds):
        clock.now += seconds
        for run in (run for run, time in recorded_at.items() if time <= clock.now):
            (tmp_path / run).mkdir(exist_ok=True)

    monkeypatch.setattr(workflow, "time", SimpleNamespace(time=lambda: clock.now, sleep=sleep))
    sleep(0)
    lines: list[str] = []

    def look() -> Jobs:
        return Jobs(3 if clock.now >= 110 else 1, 3, 0)

    say_progress({"a": 70, "b": 70, "c": 70}, tmp_path, 2, look, lines.append)
    assert lines == [
        "00:00  1 of 3 jobs, 1 of 3 runs, about a minute of training by the plan",
        "00:30  1 of 3 jobs, 1 of 3 runs, about a minute of training by the plan",
        "01:00  1 of 3 jobs, 2 of 3 runs, less than a minute of training left",
        "01:30  1 of 3 jobs, 3 of 3 runs",
    ]


# What Slurm's plugin says if sbatch refuses a job, or if an account is unknown.
SBATCH = "SLURM sbatch failed. The error message was 'sbatch: error: {}'.\n    sbatch call: sbatch"
ACCOUNT = "submission failed with exception: x appears to be invalid:\nyFor further error details"
MISSING = "Job 3  completed successfully, but some output files are missing. Missing files after"
ENDS = {
    "a mistake": ("10:00:00  on a\n10:00:01  error: no rows\n", "", "no rows (log: {own})"),
    "a traceback": ("Traceback:\n  a\nKeyError: 'b'\n\n", "", "KeyError: 'b' (log: {own})"),
    "killed": ("epoch 1\n", "died with <Signals.SIGKILL: 9>.", "epoch 1 (SIGKILL) (log: {own})"),
    "early": ("", "SLURM status is: 'TIMEOUT'.", "its own log is empty (TIMEOUT) (log: {other})"),
    "no files": ("end\n", MISSING, "end (some output files are missing) (log: {own})"),
    "a long line": ("a" * 999, "", "a" * 497 + "... (log: {own})"),
    "refused": (
        "",
        SBATCH.format("no\nsbatch: For further help, ask us"),
        "not submitted, sbatch: error: no; sbatch: For further help, ask us",
    ),
    "an account": ("", ACCOUNT, "not submitted, x appears to be invalid: y"),
}


@pytest.mark.parametrize(("log", "said", "reason"), ENDS.values(), ids=ENDS)
def test_a_failed_job_is_named_with_its_last_words(tmp_path, log, said, reason):
    own, other = tmp_path / "own.log", tmp_path / "slurm.log"
    own.write_text(log)
    line = failures_in_lines([Failure("train a", [str(own), str(other)], said)])
    assert line == "train a failed: " + reason.format(own=own, other=other)


def test_jobs_that_failed_alike_are_in_one_line():
    failures = [Failure(f"train {name}", [], SBATCH.format("No")) for name in "dcab"]
    line = "train a, train b, train c and 1 other failed: not submitted, sbatch: error: No"
    assert failures_in_lines(failures) == line
    assert failures_in_lines([Failure("a", [], "")]) == "a failed: its own log is empty"


FINAL = """Invalid account or account/partition combination; Invalid qos; Invalid partition name
Invalid feature; Invalid generic resource (gres); Requested node configuration is not available
Requested time limit is invalid; Access/permission denied; not permitted to use this partition"""
PASSING = (
    "Job violates accounting/QOS policy; Unable to contact slurm; temporarily unable to accept"
)


def test_only_what_slurm_refuses_each_time_is_not_submitted_again():
    assert all(is_refused(SBATCH.format(words)) for words in re.split("; |\n", FINAL))
    assert not any(is_refused(SBATCH.format(words)) for words in PASSING.split("; "))
    assert is_refused(ACCOUNT)
    assert not is_refused("Job submission failed with exception: [Errno 11] Resource temporarily")


@pytest.mark.parametrize("last", ["\n".join(["a failed: no"] * 13), "SyntaxError: x"])
def test_a_call_that_fails_ends_with_the_failed_jobs_or_with_the_log(tmp_path, monkeypatch, last):
    script = f"import sys; sys.exit('''Error in rule a:\n{last}''')"
    monkeypatch.setattr(workflow, "snakemake_command", lambda *_: [sys.executable, "-c", script])
    with pytest.raises(SubtuneError) as error:
        train_all(tmp_path / "mine.yaml", tmp_path, tmp_path)
    log = f"training stopped; {tmp_path / 'snakemake.log'} ends with:\nError in rule a:\n"
    assert str(error.value) == ("" if "failed" in last else log) + last


def test_jobs_that_wait_are_counted_with_the_cluster_s_reasons(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert waiting_in_slurm("me") == ""
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 'PENDING Priority\nRUNNING None\nPENDING PartitionConfig'\n")
    squeue.chmod(0o755)
    assert waiting_in_slurm("me") == "2 wait in Slurm (PartitionConfig; Priority)"
