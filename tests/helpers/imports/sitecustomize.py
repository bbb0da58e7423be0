"""Each job of Snakemake that starts with this directory on its path notes what it imported."""

import atexit
import os
import sys
from pathlib import Path


@atexit.register
def note_imports() -> None:
    job = getattr(sys.modules["__main__"], "snakemake", None)
    if job is not None:
        names = sorted(name for name in sys.modules if "." not in name)
        # Several jobs may write at once, each a single line.
        with Path(os.environ["IMPORTS"]).open("a") as file:
            file.write(f"{job.rule} {' '.join(names)}\n")
