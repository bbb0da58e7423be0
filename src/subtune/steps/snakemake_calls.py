"""Calls of Snakemake with this workflow: how one starts, and what it says at its end.

The library does not import Snakemake. It reads the public events of Snakemake's logger.
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

from subtune.core.errors import SubtuneError, cut, listed, one_line, printable
from subtune.core.files import Layout
from subtune.core.gpus import count_gpus
from subtune.core.process import count_cores

# Snakemake's options for the number of jobs at once.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
# The bytes that a call needs for temporary files, such as copies of the rules.
TEMPORARY_BYTES = 10 * 2**20
# The most letters of a job's last line.
LAST_LETTERS = 500
# The words of Slurm's plugin about a job that it could not submit.
NOT_SUBMITTED = re.compile(
    r"(?s)(?:sbatch failed.*? was|submission failed.*? exception:)"
    r"(.+?)(?:\n *sbatch call|For further error details|$)"
)
# The plugin's and Snakemake's words about a job's end: Slurm's state, a signal, or missing files.
END = re.compile(r"(?:SLURM status is: '|died with <Signals\.|successfully, but )([\w ]+)")
# The beginning of a line of `subtune.core.process.report`.
TIME_OF_DAY = re.compile(r"\d\d:\d\d:\d\d  (?:error: )?")


def workflow_directory() -> Path:
    """Return the directory of the Snakefile: a clone's top, or one inside the installed package."""
    package = Path(__file__).parents[1]
    installed = package / "pipeline"
    return installed if installed.is_dir() else package.parents[1]


def snakemake_command(*arguments: str) -> list[str]:
    """Return the command that calls Snakemake with this workflow.

    Python modules and profiles in the current folder are not used.
    """
    directory = workflow_directory()
    options = [f"--snakefile={directory / 'Snakefile'}"]
    options += [f"--workflow-profile={directory / 'profiles' / 'default'}"]
    return [sys.executable, "-P", "-m", "snakemake", *options, *arguments]


def offer_library(folder: Path) -> None:
    """Put ``folder`` on the Python path of all later processes.

    The environments of jobs do not have subtune. Python modules in their current folder are not
    imported.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])


def call_snakemake(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by Snakemake with this workflow.

    By default, Snakemake uses all cores and GPUs. A profile of the workflow
    can be given by its name.

    Raises:
        SubtuneError: there is no space for temporary files, or Python may not be started.
    """
    with one_line("TMPDIR"):
        temporary = tempfile.gettempdir()
    if shutil.disk_usage(temporary).free < TEMPORARY_BYTES:
        raise SubtuneError(f"TMPDIR: {temporary} is full; free some space or set another folder")
    words = [*arguments]
    for place, word in enumerate(words[:-1], start=1):
        profile = workflow_directory() / words[place]
        if word == "--profile" and not Path(words[place]).exists() and profile.is_dir():
            words[place] = str(profile)
    if not any(word.startswith(PARALLEL) for word in words):
        # With `=`, no target is read as an option's value.
        gpus = [f"--resources=gpu={count_gpus()}"] if count_gpus() else []
        words = [f"--cores={count_cores()}", *gpus, *words]
    command = snakemake_command(*words)
    with one_line(f"cannot start {command[0]}"):
        os.execv(command[0], command)


class Failure(NamedTuple):
    """A failed job: its rule and wildcards, its logs, and what Snakemake's executor said of it."""

    job: str
    logs: Sequence[str]
    said: str


class CallEvents(logging.Handler):
    """What a call makes, and which of its jobs fail, from the events of Snakemake's logger."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[int, str] = {}
        self._logs: dict[int, Sequence[str]] = {}
        self._made: set[str] = set()
        self.failures: dict[int, Failure] = {}
        # The last error of each thread. The thread then reports the local job that it ended.
        self._errors: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Note an event; the names of events are those of Snakemake's `LogEvent`."""
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
            self._note(said["jobid"], said["log"], message)
        elif event == "error":
            message = record.getMessage()
            self._errors[record.thread] = message
            if found := re.search(r"Job (\d+) .*files are missing", message):
                self._note(int(found[1]), self._logs.get(int(found[1]), ()), message)

    def _note(self, id: int, logs: Sequence[str], said: str) -> None:
        self.failures[id] = Failure(self._names.get(id, f"job {id}"), logs, said)

    def print_failures(self) -> None:
        """Print why jobs failed, after everything else that Snakemake prints."""
        if self.failures:
            lines = failures_in_lines(self.failures.values())
            atexit.register(print, lines, file=sys.stderr)

    def print_answers(self, paths: Layout, papers: Mapping[str, str]) -> None:
        """Print the answers that this call made, and how many claims of papers hold.

        Args:
            paths: the paths of the results.
            papers: the citation of each experiment's paper, by the experiment's name.
        """
        from subtune.exhibits.answer_tables import format_answers
        from subtune.exhibits.finding_tables import format_papers

        claims: dict[str, list[Path]] = {}
        for name, citation in papers.items():
            path = Path(paths.exhibits(name), "data", "claims.csv")
            if paths.exhibits(name) in self._made and path.exists():
                claims.setdefault(citation, []).append(path)
        if claims:
            print(f"\n{format_papers(claims)}", file=sys.stderr)
        every = paths.summary("answers", "csv")
        folders = sorted(path for path in self._made if path.startswith(paths.exhibits("")))
        single = [f"{folder}/answers.csv" for folder in folders]
        shown = [every] if every in self._made else filter(os.path.exists, single)
        for answers in map(Path, shown):
            print(format_answers(answers), file=sys.stderr)


def failures_in_lines(failures: Iterable[Failure]) -> str:
    """Return one line for each reason, with the jobs that failed for it and the log of one.

    The reason is the last line of a job's log, or why the job was not submitted.
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
        # If a job's own log is empty, the scheduler's log, which is the last one, may say more.
        log = f" (log: {logs[0 if text else -1].resolve()})" if logs else ""
        last = TIME_OF_DAY.sub("", (text or "its own log is empty").splitlines()[-1], count=1)
        end = END.search(failure.said)
        reason = cut(last, LAST_LETTERS) + (f" ({end[1]})" if end else "")
        jobs[reason].append((failure.job, log))
    lines = [
        f"{listed([job for job, _ in alike], 3, 'and')} failed: {reason}{alike[0][1]}"
        for reason, alike in jobs.items()
    ]
    return printable("\n".join(lines))
