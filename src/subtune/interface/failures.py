"""Why jobs of Snakemake failed, in one line for each reason."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from subtune.core.errors import cut, listed, printable

# The most letters of a job's last line.
LAST_LETTERS = 500
# The words of Slurm's plugin about a job that it could not submit, and those that no retry changes.
NOT_SUBMITTED = re.compile(
    r"(?s)(?:sbatch failed.*? was|submission failed.*? exception:)"
    r"(.+?)(?:\n *sbatch call|For further error details|$)"
)
REFUSED = re.compile(
    r"Invalid (?:account|partition|qos|feature|license|generic resource)|appears to be invalid|"
    r"configuration is not available|time limit is invalid|not permitted to use|/permission denied"
)
# The plugin's and Snakemake's words about a job's end: Slurm's state, a signal, or missing files.
END = re.compile(r"(?:SLURM status is: '|died with <Signals\.|successfully, but )([\w ]+)")
# The beginning of a line of `subtune.core.jobs.report`.
TIME_OF_DAY = re.compile(r"\d\d:\d\d:\d\d  (?:error: )?")


class Failure(NamedTuple):
    """A failed job: its rule and wildcards, its logs, and what Snakemake's executor said of it."""

    job: str
    logs: Sequence[str]
    said: str


def is_refused(said: str) -> bool:
    """Return whether the cluster would refuse a job each time, from what Slurm's plugin said."""
    return bool(NOT_SUBMITTED.search(said) and REFUSED.search(said))


def failures_in_lines(failures: Iterable[Failure]) -> str:
    """Return one line for each reason, with the jobs that failed for it and the log of one."""
    jobs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for failure in sorted(failures):
        reason, log = _reason_and_log(failure)
        jobs[reason].append((failure.job, log))
    lines = [
        f"{listed([job for job, _ in alike], 3, 'and')} failed: {reason}{alike[0][1]}"
        for reason, alike in jobs.items()
    ]
    return printable("\n".join(lines))


def _reason_and_log(failure: Failure) -> tuple[str, str]:
    """Return the last line of a job's log, or another reason, and the log's name."""
    if found := NOT_SUBMITTED.search(failure.said):
        words = [line.strip(" '.") for line in found[1].strip().splitlines()]
        return f"not submitted, {'; '.join(words).replace(':;', ':')}", ""
    logs, text = [Path(log) for log in failure.logs], ""
    if logs and logs[0].is_file():
        text = logs[0].read_text(encoding="utf-8", errors="replace").strip()
    # If a job's own log is empty, the scheduler's log, which is the last one, may say more.
    log = f" (log: {logs[0 if text else -1].resolve()})" if logs else ""
    last = TIME_OF_DAY.sub("", (text or "its own log is empty").splitlines()[-1], count=1)
    end = END.search(failure.said)
    return cut(last, LAST_LETTERS) + (f" ({end[1]})" if end else ""), log
