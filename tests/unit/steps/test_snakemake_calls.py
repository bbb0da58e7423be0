"""Calls of Snakemake, and the lines about failed jobs."""

import atexit
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
from subtune.steps.snakemake_calls import CallEvents, find_reason
from tests.helpers.exhibits import results
from tests.unit.analysis.test_answer import runs
from tests.unit.exhibits.test_answer_tables import SCORES, TITLES

ENDS = {
    "a mistake": ("10:00:00  on a\n10:00:01  error: no rows\n", "", "no rows (log: {own})"),
    "a traceback": ("Traceback:\n  a\nKeyError: 'b'\n\n", "", "KeyError: 'b' (log: {own})"),
    "killed": ("epoch 1\n", "died with <Signals.SIGKILL: 9>.", "epoch 1 (SIGKILL) (log: {own})"),
    "early": ("", "SLURM status is: 'TIMEOUT'.", "the job's log is empty (TIMEOUT) (log: {other})"),
    "a long line": ("a" * 999, "", "a" * 497 + "... (log: {own})"),
    "refused": (
        "",
        "sbatch failed: no account\n  sbatch call: sbatch …",
        "sbatch failed: no account (log: {other})",
    ),
}


@pytest.mark.parametrize(("log", "said", "reason"), ENDS.values(), ids=ENDS)
@pytest.mark.fault("interruptions", "a job fails", "job, log and its last line are named")
def test_a_failed_job_has_its_last_words_as_reason(tmp_path, log, said, reason):
    own, other = tmp_path / "own.log", tmp_path / "slurm.log"
    own.write_text(log)
    found = "".join(find_reason([str(own), str(other)], said))
    assert found == reason.format(own=own, other=other)


def test_the_log_of_a_job_ends_with_an_error_that_nobody_expected(tmp_path):
    log = tmp_path / "own.log"
    with pytest.raises(KeyError), redirect_job_output(log):
        raise KeyError("b")
    assert find_reason([str(log)], "")[0] == "KeyError: 'b'"


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
def said(tmp_path, monkeypatch):
    """A function that returns what is printed about failures after events of Snakemake."""
    own = tmp_path / "own.log"
    own.write_text("10:00:00  error: no rows\n")

    def said(*events):
        call, lines = CallEvents(), []
        monkeypatch.setattr(atexit, "register", lambda _, line, file: lines.append(line))
        for name, number in events:
            about = {"event": name, "rule_name": "train", "wildcards": {"sweep": "abcd"[number]}}
            about |= {"jobid": number, "job_id": number, "log": [str(own)], "output": []}
            call.emit(logging.makeLogRecord(about | {"rule_msg": None}))
        call.print_failures()
        return lines

    return said


STARTS, FAILS, ENDS_WELL = "job_info", "job_error", "job_finished"


def test_a_job_that_fails_is_named_unless_a_later_attempt_ends_well(said):
    [line] = said((STARTS, 0), (FAILS, 0))
    assert line.startswith("train a failed: no rows (log: ")
    assert said((STARTS, 0), (FAILS, 0), (STARTS, 0), (ENDS_WELL, 0)) == []


def test_jobs_that_failed_alike_are_in_one_line(said):
    [line] = said(*[(event, number) for number in (3, 2, 0, 1) for event in (STARTS, FAILS)])
    assert line.startswith("train a, train b, train c and 1 other failed: no rows (log: ")
