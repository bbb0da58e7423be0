"""The path on which jobs find subtune in environments where it is not installed."""

import os
from pathlib import Path


def offer(folder: Path) -> None:
    """Let Python in all processes that are started later find the packages in ``folder``."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
