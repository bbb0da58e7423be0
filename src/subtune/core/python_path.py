"""Where jobs in environments that do not have subtune installed find it."""

import os
from pathlib import Path


def offer(folder: Path) -> None:
    """Let Python in every process that is started from here on look for packages in ``folder``."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
