"""Calls of Snakemake with this workflow, and the run that an export needs."""

import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from subtune.comparison.schedule import Schedule, done_before, key_of
from subtune.comparison.workers import do_alone
from subtune.config import parse_config_file, read_config
from subtune.core.errors import SubtuneError, one_line
from subtune.core.layout import Layout
from subtune.core.machine import count_cores, count_jobs_at_once
from subtune.runs import records
from subtune.steps import plan_file
from subtune.steps.job import files
from subtune.steps.snakemake_calls import snakemake_command, workflow_directory

# Snakemake's options for the number of jobs at once.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
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

    A profile in ``SNAKEMAKE_PROFILE`` or in the current folder may belong to another workflow, and
    would change where jobs run. It is ignored, with a line that says so, unless the call names it.

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


def run_to_export(results: Path, run: str, configuration: Path) -> str:
    """Return the run to export.

    A cross-validated run has not seen all rows. In its place, the method's run on all rows is
    returned, and trained first if it is not recorded. Any other run is returned itself.

    Args:
        results: the directory of the results.
        run: a run's id.
        configuration: the run's configuration, whose paths are relative to the current folder.

    Raises:
        SubtuneError: the run has no chosen learning rate, the configuration names another results
            directory, or training failed.
    """
    store = Path(Layout(str(results)).records())
    if records.read_spec(store, run).recipe.fold is None:
        return run
    names = _place(results, run)
    if not configuration.is_file():
        raise SubtuneError(
            f"run {run} is cross-validated, so its method first trains on all rows: found no "
            f"{configuration}, expected the run's configuration as --config"
        )
    own = read_config(configuration).results
    if Path(own).resolve() != results.resolve():
        raise SubtuneError(
            f"--config: found {configuration} with the results {own}, expected one with the "
            f"results {results}, where run {run} is; call from the folder to which the "
            "configuration's paths are relative"
        )
    job = plan_file.write_plan(parse_config_file(configuration)).jobs["refit"].get("/".join(names))
    if not job:
        raise SubtuneError(
            f"{configuration}: found no {names[-1]} on {names[2]} in {names[0]}, expected the "
            "configuration that trained the run"
        )
    [table] = map(Path, files(job.outputs))
    is_made = done_before(Schedule({key_of(job): job}, []))
    if not (is_made and records.is_recorded(store, _run_in(table))):
        print(f"training {names[-1]} once more, on the rows of all folds", file=sys.stderr)
        do_alone(job, results, Path(Layout(own).log(names[0], "refit", *names[1:])))
    return _run_in(table)


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
