"""The workflow: checks before it runs, calls of Snakemake, their progress and their failures."""

import csv
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tqdm import tqdm

from subtune import config as configs
from subtune.config import Config
from subtune.core.errors import SubtuneError, cut, listed, one_line, placed, printable
from subtune.core.layout import Layout, snakemake_command, workflow_directory
from subtune.init.settings import count_cores, count_jobs_at_once
from subtune.models.tokenizer import read_tokenizer, unknown_lines, unknown_share
from subtune.papers.experiments import paper_of, with_papers
from subtune.planning.cost import in_words
from subtune.planning.jobs import form
from subtune.planning.plan import Plan, plan
from subtune.runs import records

# Snakemake's options for the number of jobs at once.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
# The most lines of a failed call's log in its error, and the most letters of a job's last line.
LAST_LINES, LAST_LETTERS = 12, 500
# In lines of `failures_in_lines`, what is between a job and the reason.
FAILED = " failed: "
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
SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_LOOKS = 30, 0.5
# Lines of `say_progress` in the log.
PROGRESS = re.compile(rb"[\d:]+  \d+ of \d+ jobs")
# The weight of the planned pace, as a share of all work. The first records say little about the
# pace, because runs that share steps are recorded together.
PLANNED = 0.25
# The bytes that a call needs for temporary files, such as copies of the rules.
TEMPORARY_BYTES = 10 * 2**20


def preflight(config: Config) -> tuple[Config, Plan, list[dict[str, Any]]]:
    """Return the configuration with its papers, its plan, and the forms for the GLUE server.

    Check the files and models that the configuration names. The forms have the rows of
    `subtune.planning.jobs.form` for all experiments.

    Raises:
        SubtuneError: a file or model is missing or wrong.
    """
    results = Path(config.results)
    nearest = next(place for place in (results, *results.parents) if place.exists())
    if not nearest.is_dir():
        raise SubtuneError(f"results: found the file {str(nearest)!r}, expected a directory")
    config = with_papers(config)
    papers = {name: paper_of(experiment) for name, experiment in config.experiments.items()}
    forms = [row for name, paper in papers.items() for row in form(config, name, paper.metrics)]
    planned = plan(config)
    if config.test_scores:
        # Importing pandas takes a while.
        from subtune import glue_server

        glue_server.returned_scores(Path(config.test_scores), forms)
    return config, planned, forms


def try_tokenizers(planned: Plan) -> Iterator[str]:
    """Yield a line for each local model and table with many unknown tokens.

    Raises:
        SubtuneError: a tokenizer cannot be read, or has no token for any word of a table.
    """
    for name, model in planned.model_ids.items():
        if planned.models[model].source != "files":
            continue
        directory = Path(planned.locations[model])
        rows = {tokens.data.key for tokens in planned.tokens.values() if tokens.tokenizer == model}
        with placed(f"models.{name}"):
            tokenizer = read_tokenizer(directory)
            for key in sorted(rows):
                share = unknown_share(tokenizer, planned.sizes[key].sample, directory)
                yield from (f"models.{name}: {line}" for line in unknown_lines(share))


def call_snakemake(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by Snakemake with this workflow.

    By default, Snakemake uses all cores. A profile of the workflow can be given by its name.
    """
    words = [*arguments]
    for place, word in enumerate(words[:-1], start=1):
        profile = workflow_directory() / words[place]
        if word == "--profile" and not Path(words[place]).exists() and profile.is_dir():
            words[place] = str(profile)
    parallel = [] if any(word.startswith(PARALLEL) for word in words) else _all_cores()
    command = snakemake_command(*parallel, *words)
    os.execve(command[0], command, _environment(words))


def _environment(words: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment variables of a call of Snakemake.

    Profiles for other workflows, of the shell and of the current folder, would change where jobs
    run. A profile is used only if the call names it. For every other profile, a line says that it
    is ignored.

    Raises:
        SubtuneError: there is no space for temporary files.
    """
    with one_line("TMPDIR"):
        temporary = tempfile.gettempdir()
    if shutil.disk_usage(temporary).free < TEMPORARY_BYTES:
        raise SubtuneError(f"TMPDIR: {temporary} is full; free some space or set another folder")
    variables = {**os.environ}
    found = {"--profile": variables.pop("SNAKEMAKE_PROFILE", "")}
    folder = Path("profiles", "default")
    if folder.exists() and not folder.samefile(workflow_directory() / folder):
        found["--workflow-profile"] = str(folder)
    for option, profile in found.items():
        if profile and not any(word.startswith(option) for word in words):
            says = f"profile {profile} is ignored; `subtune run FILE {option} {profile}` uses it"
            print(says, file=sys.stderr, flush=True)
    return variables


def _all_cores() -> list[str]:
    """Return Snakemake's options for every core and, if there is one, the GPU.

    Options are written with ``=``, so that no target is read as an option's value.
    """
    cores = count_cores()
    gpu = ["--resources=gpu=1"] if count_jobs_at_once() < cores else []
    return [f"--cores={cores}", *gpu]


def train_all(
    configuration: Path,
    results: Path,
    directory: Path,
    targets: Sequence[str] = (),
) -> None:
    """Make all results of a configuration, or some targets, and print lines about the progress.

    The configuration's paths are relative to ``directory``. An interrupt stops Snakemake as Ctrl-C
    does: runs write checkpoints, from which the next call continues. A second interrupt does not
    wait for checkpoints. If the kernel of a notebook dies, Snakemake keeps running, and the next
    call waits for it.

    Raises:
        SubtuneError: a job failed. The text is that of `failures_in_lines`.
    """
    log = results / "snakemake.log"
    options = [f"--configfile={configuration}", f"--directory={directory}", "--nolock"]
    options += ["--rerun-incomplete", "--nocolor", *_all_cores(), *targets]
    with log.open("ab") as file, log.open("rb") as lines:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            says = "an earlier call is still running here; this one waits"
            print(says, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        start = lines.seek(0, os.SEEK_END)
        # Snakemake and its jobs keep the log open, and so keep its lock. Only this process gets an
        # interrupt; it then stops the others.
        process = subprocess.Popen(
            snakemake_command(*options),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=_environment(),
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                for line in filter(PROGRESS.match, lines):
                    print(line.decode(), end="", file=sys.stderr, flush=True)
                time.sleep(SECONDS_BETWEEN_LOOKS)
        except BaseException:
            print("stopping; runs write checkpoints", file=sys.stderr, flush=True)
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            raise
    if process.returncode:
        printed = log.read_bytes()[start:].decode(errors="replace").strip().splitlines()
        failures = [*takewhile(lambda line: FAILED in line, reversed(printed))][::-1]
        last = [f"training stopped; {log} ends with:", *printed[-LAST_LINES:]]
        raise SubtuneError("\n".join(failures or last))


def run_to_export(results: Path, run: str, configuration: Path, directory: Path) -> str:
    """Return the run to export: for a cross-validated run, the method's run on all rows, which is
    trained if it is not recorded; otherwise the run itself.

    Args:
        configuration: the run's configuration.
        directory: the folder to which the configuration's paths are relative.

    Raises:
        SubtuneError: the run has no chosen learning rate, the configuration names another results
            directory, or training failed.
    """
    layout = Layout(str(results))
    store = Path(layout.records())
    if records.read_spec(store, run).recipe.fold is None:
        return run
    names = _place(results, run)
    refit_table = Path(layout.refit(*names))
    if refit_table.is_file() and not records.is_recorded(store, _run_in(refit_table)):
        # The run's record was set aside as damaged.
        refit_table.unlink()
    if not configuration.is_file():
        raise SubtuneError(
            f"run {run} is cross-validated, so its method first trains on all rows: found no "
            f"{configuration}, expected the run's configuration as --config"
        )
    own = configs.read(configuration).results
    if (directory / own).resolve() != results.resolve():
        raise SubtuneError(
            f"--config: found {configuration} with the results {own}, expected {results}, "
            f"which has run {run}; call from the folder to which its paths are relative"
        )
    target = Layout(own).refit(*names)
    train_all(configuration, results, directory, [target])
    return _run_in(refit_table)


def _place(results: Path, run: str) -> tuple[str, str, str, str]:
    """Return the experiment in which a run was chosen, its model, task and method."""
    from subtune.analysis.scores import read_scores

    for path in sorted(results.glob(Layout(".").data("*", "chosen"))):
        for row in read_scores(path).to_dict("records"):
            if row["run"] == run:
                return path.parents[1].name, row["model"], row["task"], row["method"]
    raise SubtuneError(
        f"run {run} is cross-validated, but not with its method's chosen learning rate; "
        f"expected a run in experiments/*/data/chosen.csv in {results}"
    )


def _run_in(table: Path) -> str:
    with table.open(encoding="utf-8") as file:
        return next(csv.DictReader(file))["run"]


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
        f"{listed([job for job, _ in alike], 3, 'and')}{FAILED}{reason}{alike[0][1]}"
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


class Jobs(NamedTuple):
    """Numbers of jobs: done, all, and failed; and the jobs that wait for the cluster, in words."""

    done: int
    all: int
    failed: int
    waiting: str = ""


def waiting_in_slurm(name: str) -> str:
    """Return how many jobs with this name wait in Slurm, and Slurm's reasons; empty if none."""
    command = ["squeue", "--noheader", f"--name={name}", "--format=%T %r"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    reasons = re.findall("^PENDING (.+)", done.stdout, re.MULTILINE)
    return f"{len(reasons)} wait in Slurm ({'; '.join(sorted({*reasons}))})" if reasons else ""


def say_progress(
    planned: Mapping[str, float],
    store: Path,
    at_once: int,
    look: Callable[[], Jobs],
    say: Callable[[str], object],
) -> None:
    """Report a line every half minute until all jobs are done.

    Args:
        planned: the planned seconds of each of the call's runs.
        store: the directory of the run records.
        at_once: the number of jobs that train at the same time.
        look: a function that returns the call's jobs.
        say: a function that gets the lines.
    """
    began, new = time.time(), _missing(planned, store)
    while (jobs := look()).done < jobs.all:
        missing, seconds = _missing(new, store), time.time() - began
        left = seconds_left(new, missing, seconds, at_once)
        counts = len(planned) - len(missing), len(planned)
        say(progress_line(seconds, jobs, *counts, left, is_measured=len(missing) < len(new)))
        time.sleep(SECONDS_BETWEEN_LINES)


def _missing(planned: Mapping[str, float], store: Path) -> dict[str, float]:
    """Return the planned seconds of each run that is not recorded."""
    return {run: seconds for run, seconds in planned.items() if not (store / run).exists()}


def seconds_left(
    planned: Mapping[str, float], missing: Mapping[str, float], seconds: float, at_once: int
) -> float:
    """Return the seconds until all runs are recorded, from the pace so far and the planned pace.

    Args:
        planned: the planned seconds of each run that was not recorded at the start.
        missing: the runs that are not recorded yet.
        seconds: the seconds since the start.
        at_once: the number of jobs that train at the same time.
    """
    if not missing:
        return 0
    if len(missing) == len(planned):
        seconds = 0
    by_plan, rest = sum(planned.values()) / at_once, sum(missing.values()) / at_once
    pace = (seconds + PLANNED * by_plan) / (by_plan - rest + PLANNED * by_plan)
    return pace * rest


def progress_line(
    seconds: float, jobs: Jobs, recorded: int, runs: int, left: float, is_measured: bool
) -> str:
    """Return a line with a call's progress after some seconds, and the training time that is left.

    The time is measured once a run is recorded.
    """
    parts = [f"{jobs.done} of {jobs.all} jobs"]
    if jobs.failed:
        parts.append(f"{jobs.failed} failed")
    if runs:
        parts.append(f"{recorded} of {runs} runs")
    if jobs.waiting:
        parts.append(jobs.waiting)
    if recorded < runs and not jobs.failed:
        time_left = f"about {in_words(left)}" if left >= 55 else "less than a minute"
        parts.append(f"{time_left} of training {'left' if is_measured else 'by the plan'}")
    return f"{tqdm.format_interval(seconds)}  {', '.join(parts)}"
