"""Calls of Snakemake with this workflow."""

import csv
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from subtune import config as configs
from subtune.core.errors import SubtuneError, one_line
from subtune.core.layout import Layout, snakemake_command, workflow_directory
from subtune.init.settings import count_cores, count_jobs_at_once
from subtune.interface.failures import FAILED
from subtune.runs import records

# Snakemake's options for the number of jobs at once.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
# The most lines of a failed call's log in its error.
LAST_LINES = 12
# The bytes that a call needs for temporary files, such as copies of the rules.
TEMPORARY_BYTES = 10 * 2**20


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
    """Make all results of a configuration, or some targets, and keep Snakemake's lines in a log.

    The configuration's paths are relative to ``directory``. An interrupt stops Snakemake as Ctrl-C
    does: runs write checkpoints, from which the next call continues. A second interrupt does not
    wait for checkpoints. If the kernel of a notebook dies, Snakemake keeps running, and the next
    call waits for it.

    Raises:
        SubtuneError: a job failed. `subtune.interface.failures` has the text.
    """
    log = results / "snakemake.log"
    options = [f"--configfile={configuration}", f"--directory={directory}", "--nolock"]
    options += ["--rerun-incomplete", "--nocolor", *_all_cores(), *targets]
    with log.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            says = "an earlier call is still running here; this one waits"
            print(says, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        start = file.seek(0, os.SEEK_END)
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
            process.wait()
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
