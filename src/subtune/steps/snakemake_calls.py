"""Call Snakemake with this workflow, and summarise failures and answers at the end.

Snakemake is not imported as a library. Failures are read from the public events of its logger.
"""

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from subtune.core.errors import (
    SubtuneError,
    convert_errors,
    escape_control_characters,
    join_names,
    shorten,
)
from subtune.core.files import Layout
from subtune.core.gpus import count_gpus
from subtune.core.process import count_cores

# The options of Snakemake that set the number of parallel jobs.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
# Bytes that a call needs for temporary files, such as copies of the rules.
TEMPORARY_BYTES = 10 * 2**20
# The last line of a log is truncated to this number of characters.
LAST_LETTERS = 500
# What Snakemake and its Slurm plugin print when a job is killed: a Slurm state, or a signal.
KILLED = re.compile(r"(?:SLURM status is: '|died with <Signals\.)(\w+)")
# The prefix of lines that `subtune.core.process.log_line` writes.
TIME_OF_DAY = re.compile(r"\d\d:\d\d:\d\d  (?:error: )?")


def workflow_directory() -> Path:
    """Return the directory of the Snakefile: the repository, or a part of the installed package."""
    package = Path(__file__).parents[1]
    installed = package / "pipeline"
    return installed if installed.is_dir() else package.parents[1]


def snakemake_command(*arguments: str) -> list[str]:
    """Return the command for Snakemake. It ignores modules in the working directory."""
    directory = workflow_directory()
    options = [f"--snakefile={directory / 'Snakefile'}"]
    options += [f"--workflow-profile={directory / 'profiles' / 'default'}"]
    return [sys.executable, "-P", "-m", "snakemake", *options, *arguments]


def call_snakemake(arguments: Sequence[str]) -> NoReturn:
    """Replace this process with a Snakemake process that runs this workflow.

    By default, Snakemake uses all cores and GPUs. The workflow's own profiles can be given by name.
    """
    with convert_errors("TMPDIR"):
        temporary = tempfile.gettempdir()
    if shutil.disk_usage(temporary).free < TEMPORARY_BYTES:
        raise SubtuneError(
            f"TMPDIR: {temporary} is full; free some space or set TMPDIR to another directory"
        )
    words = [*arguments]
    for place, word in enumerate(words[:-1], start=1):
        profile = workflow_directory() / words[place]
        if word == "--profile" and not Path(words[place]).exists() and profile.is_dir():
            words[place] = str(profile)
    if not any(word.startswith(PARALLEL) for word in words):
        # The `=` prevents Snakemake from reading a target as the value of an option.
        gpus = [f"--resources=gpu={count_gpus()}"] if count_gpus() else []
        words = [f"--cores={count_cores()}", *gpus, *words]
    command = snakemake_command(*words)
    with convert_errors(f"cannot start {command[0]}"):
        os.execv(command[0], command)


class CallEvents(logging.Handler):
    """Collects output files, and the name, reason and log of failures, from Snakemake's logger."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[int, str] = {}
        self._made: set[str] = set()
        self.failures: dict[int, tuple[str, str, str]] = {}
        # Maps each thread to its last error. For a local job, Snakemake logs the event ``error``
        # before the event ``job_error``.
        self._errors: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Handle an event. Snakemake's ``LogEvent`` defines the event names."""
        said, event = vars(record), getattr(record, "event", None)
        if event == "job_info":
            self._names[said["jobid"]] = " ".join([said["rule_name"], *said["wildcards"].values()])
            self._made |= {*said["output"]}
        elif event == "job_finished":
            self.failures.pop(said["job_id"], None)
        elif event == "error":
            self._errors[record.thread] = record.getMessage()
        elif event == "job_error":
            name = self._names.get(said["jobid"], said["rule_name"])
            message = said["rule_msg"] or self._errors.pop(record.thread, "")
            self.failures[said["jobid"]] = name, *find_reason(said["log"], message)

    def print_failures(self) -> None:
        """Print one line for each reason why jobs failed, after all other output of Snakemake."""
        jobs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for job, reason, log in sorted(self.failures.values()):
            jobs[reason].append((job, log))
        # Functions that are registered last are called first.
        for reason, alike in reversed(jobs.items()):
            names = join_names([job for job, _ in alike], 3, "and")
            line = escape_control_characters(f"{names} failed: {reason}{alike[0][1]}")
            atexit.register(print, line, file=sys.stderr)

    def print_answers(self, layout: Layout, papers: Mapping[str, str]) -> None:
        """Print the answers of this call, and how many claims of the papers hold.

        A call that wrote the report prints all answers, even if an earlier call computed them.
        ``papers`` maps each experiment to the citation of its paper.
        """
        from subtune.exhibits.answer_tables import format_answers
        from subtune.exhibits.finding_tables import format_claim_counts

        every, claims = layout.summary("answers", "csv"), dict[str, list[Path]]()
        has_report = layout.report() in self._made
        made = [name for name in papers if has_report or layout.exhibits(name) in self._made]
        for name in made:
            path = Path(layout.exhibits(name), "data", "claims.csv")
            if path.exists():
                claims.setdefault(papers[name], []).append(path)
        if claims:
            print(f"\n{format_claim_counts(claims)}", file=sys.stderr)
        single = [f"{layout.exhibits(name)}/answers.csv" for name in sorted(made)]
        wanted = [every] if has_report or every in self._made else single
        for answers in filter(Path.exists, map(Path, wanted)):
            print(format_answers(answers), file=sys.stderr)


def find_reason(logs: Sequence[str], message: str) -> tuple[str, str]:
    """Return why a job failed, and the log with more details: the job's own, or the scheduler's.

    The reason is the last line of the job's log and, if the job was killed, how. If a job has not
    started, the reason is Snakemake's message.
    """
    text, killed = "", KILLED.search(message)
    with suppress(OSError, IndexError):
        text = Path(logs[0]).read_text(encoding="utf-8", errors="replace").strip()
    if text:
        reason = TIME_OF_DAY.sub("", text.splitlines()[-1], count=1)
    elif killed:
        reason = "the job's log is empty"
    else:
        # The call of sbatch, which Slurm's plugin appends, is another one for each job.
        reason = " ".join(message.partition("sbatch call:")[0].split())
    log = f" (log: {Path(logs[0 if text else -1]).resolve()})" if logs else ""
    return shorten(reason, LAST_LETTERS) + (f" ({killed[1]})" if killed else ""), log
