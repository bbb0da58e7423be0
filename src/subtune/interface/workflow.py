"""Calls of Snakemake with this workflow."""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from subtune.core.errors import SubtuneError, one_line
from subtune.core.machine import count_cores, count_jobs_at_once
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
