"""Writes the processor time and the memory of each Python process when the process ends.

Python imports this file, because of its name, if its folder is on PYTHONPATH. It adds a line of
JSON to the file that the variable ``USAGE`` names: ``step`` (a job's rule and the table or figure
that it makes; otherwise the variable ``STEP``), the processor's ``seconds`` and the maximum
``megabytes``.
"""

import atexit
import json
import os
import resource
import sys
from pathlib import Path


def _write() -> None:
    step = os.environ["STEP"]
    # Snakemake's scripts have it.
    job = getattr(sys.modules["__main__"], "snakemake", None)
    if job is not None:
        step = " ".join([job.rule, *filter(None, [job.wildcards.get("exhibit")])])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # A process starts with the memory use of the process that started it.
    status = Path("/proc/self/status").read_text()
    kilobytes = int(status.partition("VmHWM:")[2].split()[0])
    line = {
        "step": step,
        "seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": kilobytes / 1024,
    }
    with Path(os.environ["USAGE"]).open("a") as file:
        file.write(json.dumps(line) + "\n")


if "USAGE" in os.environ:
    atexit.register(_write)
