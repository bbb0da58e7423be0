"""The lines about failed jobs."""

import re

import pytest

from subtune.interface.failures import Failure, failures_in_lines, is_refused

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
