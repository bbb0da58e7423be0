"""The place of the workflow's files, and the path on which its jobs find subtune."""

import os
import sys
from pathlib import Path

from subtune import core


def workflow_directory() -> Path:
    """Return the directory of the Snakefile: a clone's top, or one inside the installed package."""
    package = Path(core.__file__).parents[1]
    installed = package / "pipeline"
    return installed if installed.is_dir() else package.parents[1]


def snakemake_command(*arguments: str) -> list[str]:
    """Return the command that calls Snakemake with this workflow.

    Modules of the folder in which it is called are not imported.
    """
    snakefile = workflow_directory() / "Snakefile"
    return [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(snakefile), *arguments]


def offer(folder: Path) -> None:
    """Let Python in all processes that are started later find the packages in ``folder``.

    The environments of jobs do not have subtune. The folder in which they run is no place of
    packages.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
