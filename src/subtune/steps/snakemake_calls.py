"""The Snakemake workflow: its directory, the command that calls it, and what its jobs import."""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from subtune.core.errors import SubtuneError, one_line
from subtune.core.machine import count_cores, count_jobs_at_once

# Snakemake's options for the number of jobs at once.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
# The bytes that a call needs for temporary files, such as copies of the rules.
TEMPORARY_BYTES = 10 * 2**20


def call_snakemake(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by Snakemake with this workflow.

    By default, Snakemake uses all cores and, if there is one, the GPU. A profile of the workflow
    can be given by its name.

    Raises:
        SubtuneError: there is no space for temporary files.
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
        cores = count_cores()
        gpu = ["--resources=gpu=1"] if count_jobs_at_once() < cores else []
        words = [f"--cores={cores}", *gpu, *words]
    command = snakemake_command(*words)
    os.execv(command[0], command)


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


def offer(folder: Path) -> None:
    """Put ``folder`` on the Python path of all later processes.

    The environments of jobs do not have subtune. Python modules in their current folder are not
    imported.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
