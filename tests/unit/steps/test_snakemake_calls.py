"""Calls of Snakemake, and the lines about failed jobs."""

import logging
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from subtune import cli
from subtune.core.files import Layout
from subtune.core.process import redirect_job_output
from subtune.exhibits.answer_tables import answers_table
from subtune.exhibits.output import write_table
from subtune.steps.snakemake_calls import CallEvents, Failure, format_failures
from tests.helpers.exhibits import results
from tests.unit.analysis.test_answer import runs
from tests.unit.exhibits.test_answer_tables import SCORES, TITLES

# What Slurm's plugin says if sbatch refuses a job, or if an account is unknown.
SBATCH = "SLURM sbatch failed. The error message was 'sbatch: error: {}'.\n    sbatch call: sbatch"
ACCOUNT = "submission failed with exception: x appears to be invalid:\nyFor further error details"
MISSING = "Job 3  completed successfully, but some output files are missing. Missing files after"
ENDS = {
    "a mistake": ("10:00:00  on a\n10:00:01  error: no rows\n", "", "no rows (log: {own})"),
    "a traceback": ("Traceback:\n  a\nKeyError: 'b'\n\n", "", "KeyError: 'b' (log: {own})"),
    "killed": ("epoch 1\n", "died with <Signals.SIGKILL: 9>.", "epoch 1 (SIGKILL) (log: {own})"),
    "early": ("", "SLURM status is: 'TIMEOUT'.", "the job's log is empty (TIMEOUT) (log: {other})"),
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
    line = format_failures([Failure("train a", [str(own), str(other)], said)])
    assert line == "train a failed: " + reason.format(own=own, other=other)


def test_the_log_of_a_job_ends_with_an_error_that_nobody_expected(tmp_path):
    log = tmp_path / "own.log"
    with pytest.raises(KeyError), redirect_job_output(log):
        raise KeyError("b")
    assert format_failures([Failure("train a", [str(log)], "")]).startswith(
        "train a failed: KeyError: 'b'"
    )


def test_a_call_that_only_wrote_the_report_prints_the_answers(tmp_path, capsys):
    paths = Layout(str(tmp_path))
    call, about = CallEvents(), {"event": "job_info", "jobid": 1, "rule_name": "report_page"}
    about |= {"wildcards": {}, "log": [], "output": [paths.report()]}
    call.emit(logging.makeLogRecord(about))
    call.print_answers(paths, {})
    assert capsys.readouterr().err == ""
    answers = [paths.summary("answers", "csv")]
    write_table(answers_table(results(TITLES, chosen=runs(SCORES))), answers)
    call.print_answers(paths, {})
    assert "BitFit is enough" in capsys.readouterr().err


def test_jobs_that_failed_alike_are_in_one_line():
    failures = [Failure(f"train {name}", [], SBATCH.format("No")) for name in "dcab"]
    line = "train a, train b, train c and 1 other failed: not submitted, sbatch: error: No"
    assert format_failures(failures) == line
    assert format_failures([Failure("a", [], "")]) == "a failed: the job's log is empty"


def test_a_call_without_space_for_temporary_files_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**16))
    assert cli.main(["run", "mine.yaml", "-n"]) == 1
    assert re.fullmatch(r"TMPDIR: \S+ is full; free some space or .*\n", capsys.readouterr().err)


def test_a_python_that_may_not_be_started_is_named(monkeypatch, capsys):
    monkeypatch.setattr(os, "execv", Mock(side_effect=PermissionError(13, "Permission denied")))
    assert cli.main(["run", "-n"]) == 1
    assert re.fullmatch(
        r"cannot start \S*python\S*: .*Permission denied\n", capsys.readouterr().err
    )


@pytest.fixture
def said(tmp_path):
    """A function that returns the lines about failures after events of Snakemake's logger."""

    def said(*events):
        call, log = CallEvents(), tmp_path / "own.log"
        log.write_text("10:00:00  error: no rows\n")
        about = {"rule_name": "train", "wildcards": {"sweep": "a"}, "output": ["a.csv"]}
        for event in events:
            fields = {"jobid": 3, "job_id": 3, "log": [str(log)], "rule_msg": None}
            call.emit(logging.makeLogRecord(about | fields | event))
        return format_failures(call.failures.values())

    return said


STARTS, FAILS, ENDS_WELL = ({"event": e} for e in ("job_info", "job_error", "job_finished"))
NO_FILES = {"event": "error", "msg": MISSING + " 5 seconds"}


def test_a_job_that_fails_is_named_unless_a_later_attempt_ends_well(said):
    assert said(STARTS, FAILS).startswith("train a failed: no rows (log: ")
    assert said(STARTS, NO_FILES).startswith("train a failed: no rows (some output files are mis")
    assert said(STARTS, FAILS, STARTS, ENDS_WELL) == ""
