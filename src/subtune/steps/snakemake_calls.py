"""Calls Snakemake with this workflow, and summarises failures and answers at the end.

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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

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
# The last line of a log is cut to this number of characters.
LAST_LETTERS = 500
# What the Slurm plugin prints about a job that it could not submit.
NOT_SUBMITTED = re.compile(
    r"(?s)(?:sbatch failed.*? was|submission failed.*? exception:)"
    r"(.+?)(?:\n *sbatch call|For further error details|$)"
)
# What the plugin and Snakemake print when a job ends: a Slurm state, a signal, or missing files.
END = re.compile(r"(?:SLURM status is: '|died with <Signals\.|successfully, but )([\w ]+)")
# The prefix of lines that `subtune.core.process.log_line` writes.
TIME_OF_DAY = re.compile(r"\d\d:\d\d:\d\d  (?:error: )?")


def workflow_directory() -> Path:
    """Return the directory of the Snakefile: the repository, or a part of the installed package."""
    package = Path(__file__).parents[1]
    installed = package / "pipeline"
    return installed if installed.is_dir() else package.parents[1]


def snakemake_command(*arguments: str) -> list[str]:
    """Return the command that calls Snakemake with this workflow.

    Python modules and profiles in the working directory are ignored.
    """
    directory = workflow_directory()
    options = [f"--snakefile={directory / 'Snakefile'}"]
    options += [f"--workflow-profile={directory / 'profiles' / 'default'}"]
    return [sys.executable, "-P", "-m", "snakemake", *options, *arguments]


def add_to_python_path(folder: Path) -> None:
    """Add ``folder`` to the Python path of all processes started from now on.

    This is needed because subtune is not installed in the environments of jobs. Python modules in
    the working directory of jobs are ignored.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])


def call_snakemake(arguments: Sequence[str]) -> NoReturn:
    """Replace this process with a Snakemake process that runs this workflow.

    By default, Snakemake uses all cores and GPUs. The workflow's own profiles can be given by name.

    Raises:
        SubtuneError: there is no space for temporary files, or Python cannot be started.
    """
    with convert_errors("TMPDIR"):
        temporary = tempfile.gettempdir()
    if shutil.disk_usage(temporary).free < TEMPORARY_BYTES:
        raise SubtuneError(
            f"TMPDIR: {temporary} is full; free some space or set TMPDIR to another folder"
        )
    words = [*arguments]
    for place, word in enumerate(words[:-1], start=1):
        profile = workflow_directory() / words[place]
        if word == "--profile" and not Path(words[place]).exists() and profile.is_dir():
            words[place] = str(profile)
    if not any(word.startswith(PARALLEL) for word in words):
        # With `=`, Snakemake cannot read a target as the value of an option.
        gpus = [f"--resources=gpu={count_gpus()}"] if count_gpus() else []
        words = [f"--cores={count_cores()}", *gpus, *words]
    command = snakemake_command(*words)
    with convert_errors(f"cannot start {command[0]}"):
        os.execv(command[0], command)


class Failure(NamedTuple):
    """A failed job: its rule and wildcards, its log files, and the message of the executor."""

    job: str
    logs: Sequence[str]
    said: str


class CallEvents(logging.Handler):
    """Collects output files and failed jobs of a call from the events of Snakemake's logger."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[int, str] = {}
        self._logs: dict[int, Sequence[str]] = {}
        self._made: set[str] = set()
        self.failures: dict[int, Failure] = {}
        # Maps each thread to its last error. For a local job, Snakemake logs the event ``error``
        # before the event ``job_error``.
        self._errors: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Handle an event. The event names are those of Snakemake's ``LogEvent``."""
        said, event = vars(record), getattr(record, "event", None)
        if event == "job_info":
            id = said["jobid"]
            self._names[id] = " ".join([said["rule_name"], *said["wildcards"].values()])
            self._logs[id] = said["log"]
            self._made |= {*said["output"]}
        elif event == "job_finished":
            self.failures.pop(said["job_id"], None)
        elif event == "job_error":
            message = said["rule_msg"] or self._errors.pop(record.thread, "")
            self._add_failure(said["jobid"], said["log"], message)
        elif event == "error":
            message = record.getMessage()
            self._errors[record.thread] = message
            if found := re.search(r"Job (\d+) .*files are missing", message):
                self._add_failure(int(found[1]), self._logs.get(int(found[1]), ()), message)

    def _add_failure(self, id: int, logs: Sequence[str], said: str) -> None:
        self.failures[id] = Failure(self._names.get(id, f"job {id}"), logs, said)

    def print_failures(self) -> None:
        """Print why jobs failed, after all other output of Snakemake."""
        if self.failures:
            lines = format_failures(self.failures.values())
            atexit.register(print, lines, file=sys.stderr)

    def print_answers(self, paths: Layout, papers: Mapping[str, str]) -> None:
        """Print the answers of this call, and how many claims of the papers hold.

        A call that wrote the report prints all answers, even if an earlier call computed them.

        Args:
            paths: the layout of the results directory.
            papers: maps the name of each experiment to the citation of its paper.
        """
        from subtune.exhibits.answer_tables import format_answers
        from subtune.exhibits.finding_tables import format_papers

        has_report = paths.report() in self._made
        claims: dict[str, list[Path]] = {}
        for name, citation in papers.items():
            path = Path(paths.exhibits(name), "data", "claims.csv")
            if (has_report or paths.exhibits(name) in self._made) and path.exists():
                claims.setdefault(citation, []).append(path)
        if claims:
            print(f"\n{format_papers(claims)}", file=sys.stderr)
        every = paths.summary("answers", "csv")
        folders = sorted(path for path in self._made if path.startswith(paths.exhibits("")))
        single = [f"{folder}/answers.csv" for folder in folders]
        wanted = [every] if has_report or every in self._made else single
        for answers in filter(Path.exists, map(Path, wanted)):
            print(format_answers(answers), file=sys.stderr)


def format_failures(failures: Iterable[Failure]) -> str:
    """Return one line for each reason why jobs failed, with these jobs and the log of the first.

    The reason is the last line of the log, or the scheduler's message if a job was not submitted.
    """
    jobs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for failure in sorted(failures):
        if found := NOT_SUBMITTED.search(failure.said):
            words = [line.strip(" '.") for line in found[1].strip().splitlines()]
            reason = f"not submitted, {'; '.join(words).replace(':;', ':')}"
            jobs[reason].append((failure.job, ""))
            continue
        logs, text = [Path(log) for log in failure.logs], ""
        if logs and logs[0].is_file():
            text = logs[0].read_text(encoding="utf-8", errors="replace").strip()
        # If the job's log is empty, the scheduler's log, which is the last one, may say more.
        log = f" (log: {logs[0 if text else -1].resolve()})" if logs else ""
        last = TIME_OF_DAY.sub("", (text or "the job's log is empty").splitlines()[-1], count=1)
        end = END.search(failure.said)
        reason = shorten(last, LAST_LETTERS) + (f" ({end[1]})" if end else "")
        jobs[reason].append((failure.job, log))
    lines = [
        f"{join_names([job for job, _ in alike], 3, 'and')} failed: {reason}{alike[0][1]}"
        for reason, alike in jobs.items()
    ]
    return escape_control_characters("\n".join(lines))
