"""What each Python process takes, written as it ends: Python imports this file by its name, where
its folder is on PYTHONPATH.

A line of JSON to the file that ``USAGE`` names: ``step``, a job's rule and the table or figure that
it makes, or what the variable ``STEP`` says; ``seconds`` of the processor; the most ``megabytes``.
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
    # What `usage` says of memory is at least that of the process that started this one.
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
