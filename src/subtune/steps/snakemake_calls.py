"""The Snakemake workflow: its directory, the command that calls it, and what its jobs import."""

import os
import sys
from pathlib import Path


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
